#pragma once

// The socket by which a program at an Omni-Path port sends and receives 16B packets.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "host/control_socket.h"
#include "node/omni_path_users.h"

namespace weft::daemon {

/// It never blocks the daemon: packets for the program wait as its user's, up to their limit, and
/// what the program sends waits in its socket while enough is under way. Used on the daemon's
/// thread only.
class OmniPathChannel : public std::enable_shared_from_this<OmniPathChannel> {
 public:
  static constexpr int kBatches = 4;  // read before other clients are served; policy

  /// `on_sent`: packets were sent, so that the management plane must run. `on_offence` receives a
  /// description of the program's violation, worded to follow a count.
  struct Handlers {
    std::function<void()> on_sent;
    std::function<void(std::string_view)> on_offence;
  };

  OmniPathChannel(asio::io_context& loop, os::UniqueFd socket, node::OmniPathUsers& users,
                  node::OmniPathUserId user);
  OmniPathChannel(const OmniPathChannel&) = delete;
  OmniPathChannel& operator=(const OmniPathChannel&) = delete;

  void start(Handlers handlers);
  [[nodiscard]] node::OmniPathUserId user() const { return user_; }

  /// Sends what waits for the program, as far as its socket accepts it; and reads on, if there is
  /// room again.
  void flush();
  void close();

 private:
  void wait_for_packets();
  void wait_for_room();
  void receive();
  [[nodiscard]] bool receive_one();
  [[nodiscard]] std::optional<uabi::OmniPathPackets> next_batch();

  asio::posix::stream_descriptor readiness_;
  host::ControlSocket socket_;
  node::OmniPathUsers& users_;
  node::OmniPathUserId user_;
  Handlers handlers_;
  std::optional<uabi::OmniPathPackets> unsent_;  // which the program's socket did not take yet
  bool waits_for_packets_{};
  bool waits_for_room_{};
};

}  // namespace weft::daemon
