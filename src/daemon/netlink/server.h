#pragma once

// RDMA netlink for the programs of all hosts of a fabric (compat/netlink is their end): a listening
// socket, a connection for each netlink socket, and the fabric's node::NetlinkSockets, by which the
// kernel's side of a host reaches its daemons.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/netlink/connection.h"
#include "node/netlink_sockets.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// Used on the daemon's thread only.
class NetlinkServer {
 public:
  using Id = node::NetlinkSockets::Id;
  static constexpr int kAcceptsInTurn = 64;  // policy

  struct Handlers {
    std::function<std::shared_ptr<Requester>(pid_t)> requester_of;
    std::function<std::optional<fabric::NodeIndex>(std::string_view name)> find_host;
    /// As NetlinkConnection's.
    std::function<void(Id socket, std::vector<std::byte> datagram, std::function<void()> done)>
        on_request;
    std::function<void(const Requester&, std::string_view what)> on_offence;
  };

  /// `listener` is the socket at uabi::kNetlinkSocket.
  NetlinkServer(asio::io_context& loop, os::UniqueFd listener, Handlers handlers);
  ~NetlinkServer();
  NetlinkServer(const NetlinkServer&) = delete;
  NetlinkServer& operator=(const NetlinkServer&) = delete;

  [[nodiscard]] node::NetlinkSockets& sockets() { return sockets_; }
  /// The host is removed: its sockets end.
  void close_host(fabric::NodeIndex host);

 private:
  enum class Accepted : std::uint8_t { One, None, NoDescriptors };
  void accept();
  [[nodiscard]] Accepted accept_one();
  void serve(os::UniqueFd connection, pid_t pid);
  void note_news(Id socket);
  void flush_news();

  asio::io_context& loop_;
  Handlers handlers_;
  node::NetlinkSockets sockets_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;  // while there are no descriptors
  std::set<std::shared_ptr<NetlinkConnection>> connections_;
  std::map<Id, NetlinkConnection*> of_socket_;
  std::vector<Id> news_;  // sockets for which something waits, not looked at yet
  bool news_are_posted_{};
};

}  // namespace weft::daemon
