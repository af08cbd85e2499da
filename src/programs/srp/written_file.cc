#include "programs/srp/written_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft::programs::srp {
namespace {

constexpr mode_t kWrittenMode = S_IFREG | S_IWUSR;  // as add_target in sysfs has it
constexpr std::size_t kRequestBytes = 64 * 1024;    // more than FUSE_MIN_READ_BUFFER
constexpr unsigned kMinor = 31;                     // whose structures are used

template <class T>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] std::optional<T> read_as(ByteSpan octets) {
  if (octets.size() < sizeof(T)) {
    return std::nullopt;
  }
  T value{};
  copy_bytes(std::as_writable_bytes(std::span{&value, 1}), octets.first(sizeof(T)));
  return value;
}

[[nodiscard]] std::vector<std::byte> answer_of(const fuse_in_header& request, int error,
                                               ByteSpan body) {
  const fuse_out_header head{
      .len = static_cast<std::uint32_t>(sizeof(fuse_out_header) + body.size()),
      .error = -error,
      .unique = request.unique};
  std::vector<std::byte> octets(head.len);
  copy_bytes(octets, bytes_of(head));
  copy_bytes(MutableByteSpan{octets}.subspan(sizeof head), body);
  return octets;
}

template <class T>
[[nodiscard]] std::vector<std::byte> answer_with(const fuse_in_header& request, const T& body) {
  return answer_of(request, 0, bytes_of(body));
}

[[nodiscard]] fuse_attr_out attributes() {
  fuse_attr_out out{};
  out.attr_valid = 1;  // seconds
  out.attr.ino = FUSE_ROOT_ID;
  out.attr.mode = kWrittenMode;
  out.attr.nlink = 1;
  out.attr.size = WrittenFileProtocol::kMostBytes;
  out.attr.blksize = WrittenFileProtocol::kMostBytes;
  return out;
}

[[nodiscard]] fuse_init_out agreement() {
  fuse_init_out out{};
  out.major = FUSE_KERNEL_VERSION;
  out.minor = kMinor;
  out.max_background = 4;
  out.congestion_threshold = 3;
  out.max_write = WrittenFileProtocol::kMostBytes;
  out.time_gran = 1;
  return out;
}

}  // namespace

std::optional<std::vector<std::byte>> WrittenFileProtocol::answer(ByteSpan request) const {
  const auto head = read_as<fuse_in_header>(request);
  if (!head) {
    return std::nullopt;
  }
  const ByteSpan body = request.subspan(sizeof(fuse_in_header));
  switch (head->opcode) {
    case FUSE_INIT:
      return answer_with(*head, agreement());
    case FUSE_GETATTR:
    case FUSE_SETATTR:  // a shell truncates what it writes into
      return answer_with(*head, attributes());
    case FUSE_OPEN:
      return answer_with(
          *head,
          fuse_open_out{.fh = 0, .open_flags = FOPEN_DIRECT_IO | FOPEN_NONSEEKABLE, .padding = 0});
    case FUSE_WRITE: {
      const auto write = read_as<fuse_write_in>(body);
      if (!write || body.size() - sizeof(fuse_write_in) < write->size) {
        return answer_of(*head, EIO, {});
      }
      const ByteSpan octets = body.subspan(sizeof(fuse_write_in), write->size);
      std::string text(octets.size(), '\0');
      copy_bytes(std::as_writable_bytes(std::span{text}), octets);
      const int error = handler_(text);
      return error != 0 ? answer_of(*head, error, {})
                        : answer_with(*head, fuse_write_out{.size = write->size, .padding = 0});
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_FSYNC:
    case FUSE_ACCESS:
      return answer_of(*head, 0, {});
    case FUSE_READ:
      return answer_of(*head, EIO, {});
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
    case FUSE_DESTROY:
      return std::nullopt;
    default:
      return answer_of(*head, ENOSYS, {});
  }
}

Result<std::unique_ptr<WrittenFile>> WrittenFile::mount(const std::string& path,
                                                        WriteHandler handler) {
  const os::UniqueFd made{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IWUSR)};
  if (!made) {
    return fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  os::UniqueFd device{open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  if (!device) {
    return fail(ErrorCode::Io, "/dev/fuse: {}: files that answer who writes them are of FUSE",
                std::strerror(errno));
  }
  const std::string options = fmt::format("fd={},rootmode={:o},user_id={},group_id={},allow_other",
                                          device.get(), kWrittenMode, geteuid(), getegid());
  if (::mount("weft", path.c_str(), "fuse", MS_NOSUID | MS_NODEV | MS_NOEXEC, options.c_str()) !=
      0) {
    return fail(ErrorCode::PermissionDenied, "a file of FUSE at {}: {}", path,
                std::strerror(errno));
  }
  os::UniqueFd stop{eventfd(0, EFD_CLOEXEC)};
  return std::unique_ptr<WrittenFile>{
      new WrittenFile{path, std::move(device), std::move(stop), std::move(handler)}
  };
}

WrittenFile::~WrittenFile() {
  fd_.reset();  // which ends the connection, whoever has the file open
  unmount(path_);
}

void WrittenFile::stop() { static_cast<void>(eventfd_write(stop_.get(), 1)); }

void WrittenFile::unmount(const std::string& path) {
  static_cast<void>(umount2(path.c_str(), MNT_DETACH));
}

void WrittenFile::serve() {
  std::vector<std::byte> request(kRequestBytes);
  std::array<pollfd, 2> waits{
      {{.fd = fd_.get(), .events = POLLIN, .revents = 0},
       {.fd = stop_.get(), .events = POLLIN, .revents = 0}}
  };
  for (;;) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      return;
    }
    if (waits[1].revents != 0) {
      return;
    }
    const ssize_t got = read(fd_.get(), request.data(), request.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) {
      continue;  // ENOENT: the one who asked has gone
    }
    if (got <= 0) {
      return;  // ENODEV: unmounted
    }
    if (const auto said =
            protocol_.answer(ByteSpan{request}.first(static_cast<std::size_t>(got)))) {
      // ENOENT: likewise.
      static_cast<void>(write(fd_.get(), said->data(), said->size()) < 0);
    }
  }
}

}  // namespace weft::programs::srp
