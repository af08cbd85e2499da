#pragma once

// RDMA netlink sockets of a fabric's hosts, as a kernel keeps them: addresses, groups, and what
// waits for each reader (net/netlink/af_netlink.c). Each host is a world of its own: addresses and
// groups of one mean nothing to another. Pure; not thread-safe. Errors are negative errno, as
// netlink's own.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fabric/tables.h"
#include "host_view/rdma_netlink.h"
#include "wire/netlink/message.h"

namespace weft::node {

/// Groups of RDMA netlink (linux/rdma/rdma_netlink.h).
enum class NetlinkGroup : std::uint32_t { PortMapper = 2, LocalService = 3, Notify = 4 };

/// Options of a socket that concern this side, by their numbers in linux/netlink.h.
enum class NetlinkOption : std::uint32_t {
  PacketInfo = 3,
  BroadcastError = 4,
  NoOverruns = 5,  ///< NETLINK_NO_ENOBUFS
  CapAcknowledgements = 10,
  ExtendedAcknowledgements = 11,
  StrictChecks = 12,
};

/// What a socket is, as its program may ask.
struct NetlinkSocketState {
  std::uint32_t type{};    ///< SOCK_RAW or SOCK_DGRAM
  std::uint32_t port{};    ///< 0: not bound
  std::uint32_t groups{};  ///< bit n: group n + 1
  std::uint32_t peer_port{};
  std::uint32_t peer_groups{};
  std::uint32_t options{};  ///< bit n: option n is set
  bool operator==(const NetlinkSocketState&) const = default;
};

/// Who sent a message to the kernel's side of a host.
struct NetlinkSender {
  fabric::NodeIndex host;
  std::uint32_t port{};  ///< for answers: NetlinkSockets::unicast
  std::uint32_t pid{};
  bool is_privileged{true};  ///< may administer the host's network (CAP_NET_ADMIN)
};

/// The kernel's side of a client that daemons speak to: the port mapper's, or local services.
class NetlinkService {
 public:
  NetlinkService() = default;
  virtual ~NetlinkService() = default;
  NetlinkService(const NetlinkService&) = delete;
  NetlinkService& operator=(const NetlinkService&) = delete;

  /// Returns 0 or a negative errno, with which the message is acknowledged; -EINVAL for an
  /// operation that it does not know.
  virtual int receive(const NetlinkSender& sender, std::uint16_t operation,
                      const wire::netlink::Message& message) = 0;
  /// The sender's socket is closed, and its address free.
  virtual void closed(const NetlinkSender& /*sender*/) {}
};

/// What waits for a reader.
struct NetlinkDatagram {
  bool is_overrun{};      ///< no datagram: what came here was lost
  std::uint32_t port{};   ///< of the sender; 0: the kernel
  std::uint32_t pid{};    ///< the sender's process; 0: the kernel
  std::uint32_t group{};  ///< 0: not by a group
  std::vector<std::byte> bytes{};
};

class NetlinkSockets {
 public:
  using Id = std::uint64_t;
  /// Where a datagram goes; group 0: none, port 0: the kernel.
  struct Destination {
    std::uint32_t port{};
    std::uint32_t group{};
    bool operator==(const Destination&) const = default;
  };

  /// Groups that a socket can join: 1 to 32.
  static constexpr std::uint32_t kGroups = 32;
  /// Policy.
  static constexpr std::size_t kMaxSockets = 16'384;
  /// Octets that may wait for a reader, unless it asks for others: Linux's default.
  static constexpr std::uint32_t kDefaultRoom = 212'992;
  static constexpr std::uint32_t kLeastRoom = 4'096;
  static constexpr std::uint32_t kMostRoom = 8'388'608;
  /// Where addresses begin that no process has as its number; Linux counts down from there.
  static constexpr std::int32_t kFirstSpare = -4'097;

  /// `news`, if given, hears of each socket for which something waits that had nothing waiting.
  explicit NetlinkSockets(std::function<void(Id)> news = {}) : news_(std::move(news)) {}

  /// `is_privileged`: its program may administer the host's network. None: there are too many.
  [[nodiscard]] std::optional<Id> open(fabric::NodeIndex host, std::uint32_t pid,
                                       std::uint32_t type, bool is_privileged = true);
  void close(Id socket);
  [[nodiscard]] bool is_open(Id socket) const { return sockets_.contains(socket); }
  /// When a host is removed: what is bound there is nobody's.
  [[nodiscard]] std::vector<Id> sockets_of(fabric::NodeIndex host) const;

  // --- what programs ask; the socket must be open
  /// -EINVAL: it has another address; -EADDRINUSE.
  [[nodiscard]] int bind(Id socket, std::uint32_t port, std::uint32_t groups);
  [[nodiscard]] int connect(Id socket, std::uint32_t port, std::uint32_t groups);
  void disconnect(Id socket);
  [[nodiscard]] int join(Id socket, std::uint32_t group);
  [[nodiscard]] int leave(Id socket, std::uint32_t group);
  [[nodiscard]] int set_option(Id socket, std::uint32_t option, bool is_set);
  void set_room(Id socket, std::uint32_t octets);
  [[nodiscard]] NetlinkSocketState describe(Id socket) const;
  [[nodiscard]] Destination default_destination(Id socket) const;
  [[nodiscard]] static Destination destination(std::uint32_t port, std::uint32_t groups);
  [[nodiscard]] NetlinkSender sender(Id socket) const;
  [[nodiscard]] bool has_option(Id socket, NetlinkOption option) const;

  /// From a program: to the group's other members, and to the port. `is_for_kernel`: the caller
  /// hands the datagram to the kernel's side. -ECONNREFUSED: nobody has that port.
  struct Sent {
    int error{};
    bool is_for_kernel{};
  };
  [[nodiscard]] Sent send(Id socket, const Destination& to, ByteSpan datagram);

  /// The kernel's side answers a socket's request: all of the datagrams, or an overrun. False: the
  /// socket has no room, or is gone.
  bool answer(Id socket, std::vector<std::vector<std::byte>> datagrams);

  // --- for the kernel's side of a host
  void serve(host_view::Client client, NetlinkService* service) { services_[client] = service; }
  [[nodiscard]] NetlinkService* service(host_view::Client client) const;
  /// Of the group of local services only those count that are privileged, for nobody else may
  /// answer: netlink(7) lets no other into a group of RDMA netlink.
  [[nodiscard]] bool has_listeners(fabric::NodeIndex host, NetlinkGroup group) const;
  /// To those. -ESRCH: nobody listens, or nobody had room.
  [[nodiscard]] int multicast(fabric::NodeIndex host, NetlinkGroup group, ByteSpan datagram);
  /// -ECONNREFUSED: nobody has that port; -EAGAIN: no room.
  [[nodiscard]] int unicast(fabric::NodeIndex host, std::uint32_t port, ByteSpan datagram);

  // --- for whoever hands datagrams to programs
  /// The oldest; null: none waits.
  [[nodiscard]] const NetlinkDatagram* front(Id socket) const;
  /// All that waits, the oldest first. The socket must be open.
  [[nodiscard]] const std::deque<NetlinkDatagram>& waiting(Id socket) const {
    return sockets_.at(socket).waiting;
  }
  void pop(Id socket);

  /// Asserts what must hold between calls.
  void check_invariants() const;

 private:
  struct Socket {
    fabric::NodeIndex host;
    std::uint32_t pid{};
    std::uint32_t type{};
    bool is_privileged{};
    std::uint32_t port{};  // 0: none yet
    std::uint32_t groups{};
    Destination peer;
    bool is_connected{};
    std::uint32_t options{};
    std::size_t room{kDefaultRoom};
    std::size_t waiting_octets{};
    bool is_congested{};  // nothing more until all was read
    std::deque<NetlinkDatagram> waiting;

    /// Whether what the kernel's side says to the group is for it.
    [[nodiscard]] bool hears_kernel(std::uint32_t group) const;
  };
  using Address = std::pair<fabric::NodeIndex, std::uint32_t>;

  [[nodiscard]] int take_port(Id id, Socket& socket, std::uint32_t port);
  void choose_port(Id id, Socket& socket);
  void put(Id id, Socket& socket, NetlinkDatagram datagram);
  void overrun(Id id, Socket& socket);
  [[nodiscard]] bool has_room(const Socket& socket) const {
    return !socket.is_congested && socket.waiting_octets < socket.room;
  }
  int broadcast(fabric::NodeIndex host, const Destination& to, Id except,
                const NetlinkDatagram& datagram);
  [[nodiscard]] int deliver(Address to, NetlinkDatagram datagram);

  std::function<void(Id)> news_;
  std::map<Id, Socket> sockets_;
  std::map<Address, Id> ports_;
  std::map<host_view::Client, NetlinkService*> services_;
  Id last_{};
};

}  // namespace weft::node
