#include "os/peer_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "os/process_pages.h"
#include "os/shared_backing.h"

namespace weft::os {
namespace {

/// Our duplicate is out of the way of programs that expect the lowest free number. Policy.
constexpr int kLeastDescriptor = 256;
/// Policy: of a program with more, no file is looked for among the rest.
constexpr int kMostDescriptors = 4'096;

/// The device as /proc/self/maps and SharedBacking have it.
[[nodiscard]] std::uint64_t device_of(const struct stat& status) {
  return std::uint64_t{major(status.st_dev)} << 32 | minor(status.st_dev);
}

[[nodiscard]] bool is_of(int file, std::uint64_t device, std::uint64_t inode) {
  struct stat status{};
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode) && device_of(status) == device &&
         status.st_ino == inode;
}

/// A file in memory. Huge pages have a file system of their own, and a mapping of theirs may fail
/// later, when it is touched.
[[nodiscard]] bool is_in_memory(int file) {
  struct statfs system{};
  return fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/// Whether the range stays there, whatever its holder does.
[[nodiscard]] bool is_kept(int file, std::uint64_t offset, std::uint64_t length) {
  const int seals = fcntl(file, F_GET_SEALS);
  struct stat status{};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file, &status) != 0) {
    return false;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return offset <= size && length <= size - offset;
}

/// The first descriptor of this process for a file.
[[nodiscard]] std::optional<int> find_descriptor(std::uint64_t device, std::uint64_t inode) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{opendir("/proc/self/fd"), closedir};
  if (folder == nullptr) {
    return std::nullopt;
  }
  for (int seen = 0; seen < kMostDescriptors; ++seen) {
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr) {
      break;
    }
    const std::string_view name{entry->d_name};
    int file = -1;  // for "." and ".."
    std::from_chars(name.data(), name.data() + name.size(), file);
    if (is_of(file, device, inode)) {
      return file;
    }
  }
  return std::nullopt;
}

[[nodiscard]] std::unexpected<Error> refusal(const char* what) {
  return fail(ErrorCode::Io, "memory of a peer is not mapped: {} ({})", what, std::strerror(errno));
}

/// Opened first so that nothing happens to a device or a pipe, which a false number may lead to.
Result<UniqueFd> open_peer_file(pid_t process, const FileRange& range, Protection protection) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/fd/" + std::to_string(range.descriptor);
  const UniqueFd found{open(path.c_str(), O_PATH | O_CLOEXEC)};
  if (!found || !is_of(found.get(), range.device, range.inode) || !is_in_memory(found.get())) {
    return refusal("its file is another one, or out of reach");
  }
  const std::string again = "/proc/self/fd/" + std::to_string(found.get());
  UniqueFd file{
      open(again.c_str(), (protection == Protection::ReadWrite ? O_RDWR : O_RDONLY) | O_CLOEXEC)};
  if (!file) {
    return refusal("its file may not be opened");
  }
  return file;
}

}  // namespace

std::optional<HeldFile> find_held_file(std::span<const std::byte> memory) {
  const auto backing = shared_backing_of(memory);
  const auto found = backing ? find_descriptor(backing->device, backing->inode) : std::nullopt;
  if (!found) {
    return std::nullopt;
  }
  UniqueFd file{fcntl(*found, F_DUPFD_CLOEXEC, kLeastDescriptor)};
  // The program may have closed that number meanwhile, and opened another file.
  if (!file || !is_of(file.get(), backing->device, backing->inode) || !is_in_memory(file.get()) ||
      !is_kept(file.get(), backing->offset, memory.size())) {
    return std::nullopt;
  }
  const FileRange range{.descriptor = file.get(),
                        .device = backing->device,
                        .inode = backing->inode,
                        .offset = backing->offset};
  return HeldFile{.file = std::move(file), .range = range};
}

Result<PeerMapping> map_peer_file(pid_t process, const FileRange& range, std::uint64_t length,
                                  Protection protection) {
  const auto file = open_peer_file(process, range, protection);
  if (!file) {
    return std::unexpected(file.error());
  }
  if (length == 0 || !is_kept(file->get(), range.offset, length)) {
    return refusal("its file may become shorter");
  }
  const std::uint64_t before = range.offset % page_size();
  const int access = protection == Protection::ReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = mmap(nullptr, before + length, access, MAP_SHARED, file->get(),
                        static_cast<off_t>(range.offset - before));
  if (at == MAP_FAILED) {
    return refusal("mmap");
  }
  madvise(at, before + length, MADV_DONTFORK);
  auto* const first = static_cast<std::byte*>(at);
  return PeerMapping{
      .pages = Mapping{first, before + length},
        .first = first + before
  };
}

}  // namespace weft::os
