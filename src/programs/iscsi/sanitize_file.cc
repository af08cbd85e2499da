#include "programs/iscsi/sanitize_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "os/unique_fd.h"

namespace weft::programs::iscsi {
namespace {

constexpr std::size_t kMaxBytes = 1 << 16;  // a block, and a little

[[nodiscard]] bool write_all(int file, ByteSpan octets) {
  while (!octets.empty()) {
    const ssize_t count = ::write(file, octets.data(), octets.size());
    if (count <= 0 && errno != EINTR) {
      return false;
    }
    octets = octets.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return true;
}

/// The name of a file is durable with its folder.
[[nodiscard]] bool sync_folder_of(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  const os::UniqueFd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return opened && ::fsync(opened.get()) == 0;
}

[[nodiscard]] bool replace(const std::string& path, ByteSpan octets) {
  const std::string made = path + ".new";
  {
    const os::UniqueFd file{
        ::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR)};
    if (!file || !write_all(file.get(), octets) || ::fsync(file.get()) != 0) {
      return false;
    }
  }
  return ::rename(made.c_str(), path.c_str()) == 0 && sync_folder_of(path);
}

[[nodiscard]] bool remove(const std::string& path) {
  return (::unlink(path.c_str()) == 0 || errno == ENOENT) && sync_folder_of(path);
}

}  // namespace

std::unique_ptr<SanitizeFile> SanitizeFile::of_disk(const std::string& disk) {
  std::error_code error;
  return std::filesystem::is_regular_file(disk, error) ? std::make_unique<SanitizeFile>(disk)
                                                       : nullptr;
}

Result<void> SanitizeFile::restore(scsi::LogicalUnit& unit) const {
  const auto kept = load();
  if (!kept) {
    return std::unexpected(kept.error());
  }
  if (kept->empty()) {
    return {};
  }
  const auto restored = unit.restore_sanitize(*kept);
  return restored ? Result<void>{}
                  : fail(restored.error().code, "{}: {}", path_, restored.error().reason);
}

Result<std::vector<std::byte>> SanitizeFile::load() const {
  const os::UniqueFd file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) {
    return errno == ENOENT ? Result<std::vector<std::byte>>{}
                           : fail(ErrorCode::Io, "{}: {}", path_, std::strerror(errno));
  }
  std::vector<std::byte> image(kMaxBytes + 1);
  std::size_t bytes = 0;
  while (bytes < image.size()) {
    const ssize_t count = ::read(file.get(), image.data() + bytes, image.size() - bytes);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return fail(ErrorCode::Io, "{}: {}", path_, std::strerror(errno));
    }
    if (count == 0) {
      break;
    }
    bytes += static_cast<std::size_t>(count);
  }
  if (bytes == 0 || bytes > kMaxBytes) {
    return fail(ErrorCode::Io, "{} is nothing that was kept of a SANITIZE", path_);
  }
  image.resize(bytes);
  return image;
}

void SanitizeFile::save(std::vector<std::byte> image, std::function<void(bool)> done) {
  done(image.empty() ? remove(path_) : replace(path_, image));
}

}  // namespace weft::programs::iscsi
