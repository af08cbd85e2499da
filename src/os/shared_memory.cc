#include "os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/sanitizers.h"
#include "os/tsan_mapping.h"

namespace weft::os {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<UniqueFd> create(const char* name, std::size_t size) {
  UniqueFd file{memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    return fail(ErrorCode::OutOfMemory, "{} bytes of shared memory for {}: {}", size, name,
                std::strerror(errno));
  }
  return file;
}

Result<void> seal(const UniqueFd& file, int seals) {
  if (fcntl(file.get(), F_ADD_SEALS, seals) != 0) {
    return fail(ErrorCode::Io, "sealing shared memory: {}", std::strerror(errno));
  }
  return {};
}

Result<UniqueFd> create_sealed(const char* name, std::size_t size, int seals) {
  auto file = create(name, size);
  if (file) {
    if (auto sealed = seal(*file, seals); !sealed) {
      return std::unexpected(sealed.error());
    }
  }
  return file;
}

/// What is known of a file that is sealed as it must be.
Result<struct stat> checked(const UniqueFd& file, int needed_seals, std::size_t least,
                            std::size_t most) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & needed_seals) != needed_seals) {
    return fail(ErrorCode::Io, "shared memory that is not sealed as it must be is refused");
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::Io, "shared memory: {}", std::strerror(errno));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < least || size > most || size == 0) {
    return fail(ErrorCode::Io, "shared memory of {} bytes where {} to {} are expected", size, least,
                most);
  }
  return status;
}

/// What mmap said, of memory that a child of fork() is not to have (docs/ARCHITECTURE.md, decision
/// 9).
Result<Mapping> own(void* address, std::size_t size) {
  if (address == MAP_FAILED) {
    return fail(ErrorCode::OutOfMemory, "mapping {} bytes of memory: {}", size,
                std::strerror(errno));
  }
  madvise(address, size, MADV_DONTFORK);
  return Mapping{static_cast<std::byte*>(address), size};
}

Result<Mapping> map(const UniqueFd& file, int protection, int needed_seals, std::size_t least,
                    std::size_t most) {
  const auto status = checked(file, needed_seals, least, most);
  if (!status) {
    return std::unexpected(status.error());
  }
  const auto size = static_cast<std::size_t>(status->st_size);
#if WEFT_THREAD_SANITIZER
  return own(tsan::mappings().map(file.get(), *status, protection), size);
#else
  return own(mmap(nullptr, size, protection, MAP_SHARED, file.get(), 0), size);
#endif
}

void unmap(void* address, std::size_t size) {
#if WEFT_THREAD_SANITIZER
  tsan::mappings().unmap(address, size);
#else
  munmap(address, size);
#endif
}

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (address_ != nullptr) {
    unmap(address_, size_);
  }
}

Result<UniqueFd> create_shared_memory(const char* name, std::size_t size) {
  return create_sealed(name, size, kSizeSeals);
}

Result<UniqueFd> create_sealable_memory(const char* name, std::size_t size) {
  return create_sealed(name, size, kSizeSeals & ~F_SEAL_SEAL);
}

Result<void> forbid_new_writers(const UniqueFd& file) {
  return seal(file, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

Result<UniqueFd> publish_memory(const char* name, ByteSpan contents) {
  auto file = create(name, contents.size());
  if (!file) {
    return file;
  }
  for (std::size_t done = 0; done < contents.size();) {
    const ssize_t wrote = pwrite(file->get(), contents.data() + done, contents.size() - done,
                                 static_cast<off_t>(done));
    if (wrote <= 0) {
      return fail(ErrorCode::OutOfMemory, "writing {}: {}", name, std::strerror(errno));
    }
    done += static_cast<std::size_t>(wrote);
  }
  if (auto sealed = seal(*file, kSizeSeals | F_SEAL_WRITE); !sealed) {
    return std::unexpected(sealed.error());
  }
  return file;
}

Result<Mapping> map_shared(const UniqueFd& file, Protection protection, std::size_t least,
                           std::size_t most) {
  const int access = protection == Protection::ReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  return map(file, access, F_SEAL_SHRINK | F_SEAL_GROW, least, most);
}

Result<Mapping> map_published(const UniqueFd& file, std::size_t most) {
  return map(file, PROT_READ, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, 1, most);
}

Result<Mapping> reserve_memory(std::size_t size) {
  return own(mmap(nullptr, size, PROT_READ | PROT_WRITE, kReserved, -1, 0), size);
}

Result<MutableByteSpan> map_shared_at(MutableByteSpan place, const UniqueFd& file) {
  const auto status = checked(file, F_SEAL_SHRINK | F_SEAL_GROW, place.size(), place.size());
  if (!status) {
    return std::unexpected(status.error());
  }
#if WEFT_THREAD_SANITIZER
  auto mapped =
      own(tsan::mappings().map(file.get(), *status, PROT_READ | PROT_WRITE), place.size());
#else
  auto mapped = own(mmap(place.data(), place.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                         file.get(), 0),
                    place.size());
#endif
  if (!mapped) {
    return std::unexpected(mapped.error());
  }
  const MutableByteSpan bytes = mapped->bytes();
  mapped->release();
  return bytes;
}

void clear_reserved(MutableByteSpan place) {
  if (auto cleared = own(
          mmap(place.data(), place.size(), PROT_READ | PROT_WRITE, kReserved | MAP_FIXED, -1, 0),
          place.size())) {
    cleared->release();
  }
}

}  // namespace weft::os
