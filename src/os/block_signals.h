#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace weft::os {

/// A thread that runs `body` and takes none of the program's signals, which are its own business.
template <class Body>
[[nodiscard]] std::thread block_signals(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread{std::move(body)};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace weft::os
