#include "os/error_numbers.h"

#include <cerrno>

namespace weft::os {

int error_number_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return EINVAL;
    case ErrorCode::OutOfMemory:
      return ENOMEM;
    case ErrorCode::Busy:
      return EBUSY;
    case ErrorCode::NotSupported:
      return EOPNOTSUPP;
    case ErrorCode::NoSuchDevice:
      return ENODEV;
    case ErrorCode::NotFound:
      return ENOENT;
    case ErrorCode::NoData:
      return ENODATA;
    case ErrorCode::TryAgain:
      return EAGAIN;
    case ErrorCode::PermissionDenied:
      return EACCES;
    case ErrorCode::TimedOut:
      return ETIMEDOUT;
    case ErrorCode::Refused:
      return ECONNREFUSED;
    case ErrorCode::Io:
      return EIO;
    case ErrorCode::Exists:
      return EEXIST;
    case ErrorCode::BadAddress:
      return EFAULT;
    case ErrorCode::AlreadyConnected:
      return EISCONN;
    case ErrorCode::AddressInUse:
      return EADDRINUSE;
    case ErrorCode::AddressNotAvailable:
      return EADDRNOTAVAIL;
    case ErrorCode::NetworkUnreachable:
      return ENETUNREACH;
    case ErrorCode::NameTaken:
      return ENFILE;
    case ErrorCode::NotImplemented:
      return ENOSYS;
    case ErrorCode::NoBufferSpace:
      return ENOBUFS;
    case ErrorCode::Cancelled:
      return ECANCELED;
    case ErrorCode::Interrupted:
      return EINTR;
    case ErrorCode::ShutDown:
      return ESHUTDOWN;
  }
  return EINVAL;
}

}  // namespace weft::os
