#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/client.h"
#include "node/netlink_sockets.h"
#include "os/packet_socket.h"
#include "uabi/netlink_frames.h"

namespace weft::daemon {

/// One RDMA netlink socket of a program (uabi/netlink_frames.h): reads its frames, answers each,
/// and hands it what waits in node::NetlinkSockets. It never blocks the daemon, and cannot occupy
/// it: while a frame is being answered or the budget of its process is empty, nothing is read. Used
/// on the daemon's thread only.
class NetlinkConnection : public std::enable_shared_from_this<NetlinkConnection> {
 public:
  using Id = node::NetlinkSockets::Id;
  static constexpr int kBatch = 64;  // frames read or sent before others are served; policy

  struct Handlers {
    std::function<std::optional<fabric::NodeIndex>(std::string_view name)> find_host;
    /// A datagram for the kernel's side; `done` once what answers it is in NetlinkSockets.
    std::function<void(Id socket, std::vector<std::byte> datagram, std::function<void()> done)>
        on_request;
    /// After a frame had its effect: what came of it for other sockets goes out.
    std::function<void()> flush_news;
    std::function<void(NetlinkConnection&, Id socket)> on_open;
    std::function<void(const Requester&, std::string_view what)> on_offence;
    std::function<void(NetlinkConnection&)> on_end;
  };

  NetlinkConnection(asio::io_context& loop, os::PacketSocket socket,
                    std::shared_ptr<Requester> requester, bool is_privileged,
                    node::NetlinkSockets& sockets, Handlers handlers);
  ~NetlinkConnection();
  NetlinkConnection(const NetlinkConnection&) = delete;
  NetlinkConnection& operator=(const NetlinkConnection&) = delete;

  void start();
  /// Sends what waits, as far as the program's end takes it.
  void flush();
  void end();

 private:
  void wait_for_frames();
  void wait_for_budget();
  void wait_for_room();
  [[nodiscard]] bool receive_one();
  void take(const uabi::NetlinkFrame& frame, os::UniqueFd answer);
  [[nodiscard]] int open(const uabi::NetlinkFrame& frame);
  void send(const uabi::NetlinkFrame& frame, os::UniqueFd answer);
  void answer(const os::UniqueFd& to, int error, std::uint32_t taken = 0) const;
  void offend(std::string_view what);

  node::NetlinkSockets& sockets_;
  asio::posix::stream_descriptor readiness_;
  asio::steady_timer timer_;
  os::PacketSocket socket_;
  std::shared_ptr<Requester> requester_;
  bool is_privileged_;  // when it connected
  Handlers handlers_;
  std::optional<Id> id_;  // since Open
  std::vector<std::byte> room_;
  bool is_busy_{};  // a datagram of it is being answered
  bool waits_for_frames_{};
  bool waits_for_room_{};
  bool ended_{};
};

}  // namespace weft::daemon
