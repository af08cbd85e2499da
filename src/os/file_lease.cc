#include "os/file_lease.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace weft::os {
namespace {

/// A real-time signal, since those are queued and carry the descriptor; which one is policy.
[[nodiscard]] int lease_signal() { return SIGRTMIN + 7; }

}  // namespace

Result<LeaseKeeper> LeaseKeeper::create() {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, lease_signal());
  sigaddset(&signals, SIGIO);  // comes instead when the queue of signals is full
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) {
    return fail(ErrorCode::Io, "pthread_sigmask: {}", std::strerror(error));
  }
  UniqueFd fd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd) {
    return fail(ErrorCode::Io, "signalfd: {}", std::strerror(errno));
  }
  return LeaseKeeper{std::move(fd)};
}

Result<void> LeaseKeeper::take(int file) const {
  // To this thread only: in others of the process the signals may not be blocked.
  const f_owner_ex owner{.type = F_OWNER_TID, .pid = gettid()};
  if (fcntl(file, F_SETSIG, lease_signal()) != 0 || fcntl(file, F_SETOWN_EX, &owner) != 0) {
    return fail(ErrorCode::NotSupported, "no signals of a lease: {}", std::strerror(errno));
  }
  if (fcntl(file, F_SETLEASE, F_WRLCK) != 0) {
    const bool is_open = errno == EAGAIN;
    return fail(is_open ? ErrorCode::TryAgain : ErrorCode::NotSupported, "no lease: {}",
                std::strerror(errno));
  }
  return {};
}

void LeaseKeeper::release(int file) { fcntl(file, F_SETLEASE, F_UNLCK); }

// While a lease is being broken the kernel names what it is to become (fcntl(2), F_GETLEASE).
bool LeaseKeeper::is_breaking(int file) { return fcntl(file, F_GETLEASE) != F_WRLCK; }

LeaseKeeper::Breaks LeaseKeeper::take_breaks() const {
  Breaks breaks;
  std::array<signalfd_siginfo, 32> signals{};
  while (true) {
    const ssize_t bytes = read(signals_.get(), signals.data(), sizeof signals);
    if (bytes <= 0) {
      return breaks;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / sizeof signals[0]; ++i) {
      if (signals.at(i).ssi_signo == static_cast<std::uint32_t>(lease_signal())) {
        breaks.files.push_back(signals.at(i).ssi_fd);
      } else {
        breaks.is_incomplete = true;
      }
    }
  }
}

}  // namespace weft::os
