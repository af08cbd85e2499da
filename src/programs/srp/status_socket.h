#pragma once

// The local socket by which `weft srp status` asks this process, on the process's Asio loop. The
// loop's thread.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "programs/control/control.h"

namespace weft::programs::srp {

/// What the services begin with that are asked.
inline constexpr std::string_view kStatusPrefix = "srp-";

class StatusSocket {
 public:
  /// `kind` as in srp-KIND.PID, since a host may have several. The answer is one to "json". Fails
  /// where there is no simulated host.
  [[nodiscard]] static Result<std::unique_ptr<StatusSocket>> open(asio::io_context& loop,
                                                                  std::string_view kind,
                                                                  std::function<std::string()> say);
  ~StatusSocket();
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

 private:
  StatusSocket(asio::io_context& loop, Control control, std::function<std::string()> say)
      : loop_(loop), control_(std::move(control)), say_(std::move(say)) {}
  void wait();
  void release();
  void handle();

  asio::io_context& loop_;
  Control control_;
  const std::function<std::string()> say_;
  std::list<asio::posix::stream_descriptor> waits_;  // the descriptors are the control's
  const std::shared_ptr<char> alive_ = std::make_shared<char>();  // for handlers that come late
};

}  // namespace weft::programs::srp
