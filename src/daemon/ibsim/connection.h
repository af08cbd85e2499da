#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "daemon/ibsim/client.h"
#include "daemon/ibsim/messages.h"
#include "fabric/tables.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// The MAD socket of a program connected by ibsim's protocol. It never blocks the daemon: output is
/// queued up to the limits of an open umad device. Input is always read, because the program's
/// library blocks until its datagram is taken. Used on the daemon's thread only.
class IbsimConnection : public std::enable_shared_from_this<IbsimConnection> {
 public:
  static constexpr int kBatch = 64;  // MADs read before other clients are served; policy

  /// `on_sent`: the management interfaces must run. `on_end`: the program is gone.
  struct Handlers {
    std::function<void()> on_sent;
    std::function<void(std::string_view)> on_offence;
    std::function<void()> on_end;
  };

  /// `socket` is connected to that of process `pid`.
  IbsimConnection(asio::io_context& loop, os::UniqueFd socket, pid_t pid,
                  const node::UmadPortAccess& access);
  IbsimConnection(const IbsimConnection&) = delete;
  IbsimConnection& operator=(const IbsimConnection&) = delete;

  void start(Handlers handlers);
  /// Sends queued MADs to the program, as far as its socket accepts them.
  void flush();
  void end();

  [[nodiscard]] IbsimClient& client() { return *client_; }
  [[nodiscard]] const IbsimClient& client() const { return *client_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] fabric::PortIndex port() const { return port_; }

 private:
  void wait_for_mads();
  void wait_for_room();
  void wait_for_exit();
  [[nodiscard]] bool receive_one();
  void ended_by_peer();

  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor process_exit_;
  pid_t pid_;
  fabric::PortIndex port_;
  std::optional<IbsimClient> client_;  // empty after the end
  std::optional<IbsimPacket> unsent_;
  Handlers handlers_;
  bool waits_for_room_{};
};

}  // namespace weft::daemon
