#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace weft {

/// Kind of a failure; `compat` maps each to one errno.
enum class ErrorCode : std::uint8_t {
  InvalidArgument,      ///< EINVAL
  OutOfMemory,          ///< ENOMEM: a queue or table is full, or a device limit is reached
  Busy,                 ///< EBUSY: the object is still in use
  NotSupported,         ///< EOPNOTSUPP
  NoSuchDevice,         ///< ENODEV: no such device, port or object (any more)
  NotFound,             ///< ENOENT
  NoData,               ///< ENODATA
  TryAgain,             ///< EAGAIN
  PermissionDenied,     ///< EACCES
  TimedOut,             ///< ETIMEDOUT
  Refused,              ///< ECONNREFUSED: no listener, or the peer is gone
  Io,                   ///< EIO: malformed input, or an operating system failure
  Exists,               ///< EEXIST
  BadAddress,           ///< EFAULT
  AlreadyConnected,     ///< EISCONN
  AddressInUse,         ///< EADDRINUSE
  AddressNotAvailable,  ///< EADDRNOTAVAIL
  NetworkUnreachable,   ///< ENETUNREACH
  NameTaken,            ///< ENFILE: another RDMA device has the name
  NotImplemented,       ///< ENOSYS
  NoBufferSpace,        ///< ENOBUFS
  Cancelled,            ///< ECANCELED
  Interrupted,          ///< EINTR
  ShutDown,             ///< ESHUTDOWN: the object is being taken down
};

/// A failure with its reason in words: which attribute violates which rule, and what would work
/// (docs/ARCHITECTURE.md, decision 14).
struct [[nodiscard]] Error {
  ErrorCode code{};
  std::string reason;
};

/// A value, or the reason why there is none.
template <class T>
using Result = std::expected<T, Error>;

/// `return fail(ErrorCode::InvalidArgument, "port {} is not in 1..{}", port, ports);`
template <class... Arguments>
[[nodiscard]] std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Arguments...> format,
                                          Arguments&&... arguments) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Arguments>(arguments)...)});
}

}  // namespace weft
