#include "os/user_faults.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/process_pages.h"

namespace weft::os {
namespace {

constexpr std::uint64_t kFeatures =
    UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP;
constexpr std::uint64_t kFills = std::uint64_t{1} << _UFFDIO_ZEROPAGE;

[[nodiscard]] std::optional<MemoryMessage> message_of(const uffd_msg& from) {
  using Kind = MemoryMessage::Kind;
  switch (from.event) {
    case UFFD_EVENT_PAGEFAULT: {
      const std::uint64_t page = from.arg.pagefault.address & ~std::uint64_t{page_size() - 1U};
      return MemoryMessage{.kind = Kind::Fault, .first = page, .last = page + page_size()};
    }
    case UFFD_EVENT_REMOVE:
      return MemoryMessage{
          .kind = Kind::Removed, .first = from.arg.remove.start, .last = from.arg.remove.end};
    case UFFD_EVENT_UNMAP:
      return MemoryMessage{
          .kind = Kind::Unmapped, .first = from.arg.remove.start, .last = from.arg.remove.end};
    case UFFD_EVENT_REMAP:
      return MemoryMessage{.kind = Kind::Moved,
                           .first = from.arg.remap.from,
                           .last = from.arg.remap.from + from.arg.remap.len,
                           .moved_to = from.arg.remap.to};
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<UserFaults> UserFaults::open(FaultsOf whose) {
  const int flags =
      O_CLOEXEC | O_NONBLOCK | (whose == FaultsOf::Programs ? UFFD_USER_MODE_ONLY : 0);
  UniqueFd fd{static_cast<int>(syscall(SYS_userfaultfd, flags))};
  if (!fd) {
    const int error = errno;
    if (error == EPERM && whose == FaultsOf::All) {
      return fail(ErrorCode::PermissionDenied,
                  "page faults of system calls are told to those with CAP_SYS_PTRACE, or where "
                  "vm.unprivileged_userfaultfd is 1");
    }
    return fail(error == EPERM ? ErrorCode::PermissionDenied : ErrorCode::NotSupported,
                "no userfaultfd: {}; a filter of system calls may forbid it", std::strerror(error));
  }
  uffdio_api api{.api = UFFD_API, .features = kFeatures, .ioctls = 0};
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    return fail(ErrorCode::NotSupported,
                "the kernel's userfaultfd tells of no removed, unmapped or moved memory: {}",
                std::strerror(errno));
  }
  return UserFaults{std::move(fd)};
}

Result<void> UserFaults::watch(std::uint64_t start, std::uint64_t bytes) const {
  uffdio_register asked{
      .range = {.start = start, .len = bytes},
        .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0
  };
  if (ioctl(fd_.get(), UFFDIO_REGISTER, &asked) != 0) {
    const int error = errno;
    return fail(error == ENOMEM ? ErrorCode::BadAddress : ErrorCode::NotSupported,
                "changes of {} bytes at {:#x} are not told of: {}; memory without a name and "
                "shared memory can be watched",
                bytes, start, std::strerror(error));
  }
  if ((asked.ioctls & kFills) == 0) {
    unwatch(start, bytes);
    return fail(ErrorCode::NotSupported, "{} bytes at {:#x} are not filled with zeros (huge pages)",
                bytes, start);
  }
  return {};
}

void UserFaults::unwatch(std::uint64_t start, std::uint64_t bytes) const {
  uffdio_range range{.start = start, .len = bytes};
  if (ioctl(fd_.get(), UFFDIO_UNREGISTER, &range) == 0) {
    return;
  }
  // All of a range is refused where something else was mapped into it that cannot be watched.
  for (std::uint64_t page = start; page < start + bytes; page += page_size()) {
    range = {.start = page, .len = page_size()};
    static_cast<void>(ioctl(fd_.get(), UFFDIO_UNREGISTER, &range));  // memory that is gone: nothing
  }
}

FillOutcome UserFaults::fill(std::uint64_t start, std::uint64_t bytes) const {
  const std::uint64_t end = start + bytes;
  std::uint64_t most = bytes;  // at once
  for (std::uint64_t at = start; at < end;) {
    uffdio_zeropage asked{
        .range = {.start = at, .len = std::min(most, end - at)},
          .mode = 0, .zeropage = 0
    };
    if (ioctl(fd_.get(), UFFDIO_ZEROPAGE, &asked) == 0) {
      at += asked.range.len;
    } else if (asked.zeropage > 0) {  // the first of them
      at += static_cast<std::uint64_t>(asked.zeropage);
    } else if (errno == EEXIST) {
      at += page_size();
    } else if (errno == ENOENT && most > page_size()) {
      most = page_size();  // all of them are not in one mapping
    } else {
      return errno == EAGAIN ? FillOutcome::Changing : FillOutcome::NotWatched;
    }
  }
  return FillOutcome::Filled;
}

void UserFaults::wake(std::uint64_t start, std::uint64_t bytes) const {
  uffdio_range range{.start = start, .len = bytes};
  static_cast<void>(ioctl(fd_.get(), UFFDIO_WAKE, &range));
}

std::optional<MemoryMessage> UserFaults::next() const {
  for (;;) {
    uffd_msg message{};
    if (::read(fd_.get(), &message, sizeof message) != sizeof message) {
      return std::nullopt;
    }
    if (const auto known = message_of(message)) {
      return known;
    }
  }
}

}  // namespace weft::os
