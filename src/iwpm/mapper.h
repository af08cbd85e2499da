#pragma once

// The port mapper daemon without its sockets: reserves a TCP port for each local address that the
// kernel asks for, tells the kernel what a peer's address is mapped to by asking the peer's mapper
// over UDP, and answers peers. It speaks to the kernel of Linux as rdma-core's iwpmd does, in
// versions 3 and 4, and to iwpmd on other hosts.
//
// A mapping has one reference for each user. When the mapper starts, and when netlink has lost
// messages, it asks the kernel for all mappings in use: they then count instead of what it knew.
//
// One thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "iwpm/exchanges.h"
#include "iwpm/mapped_ports.h"
#include "wire/iwpm/netlink_messages.h"
#include "wire/iwpm/peer_message.h"
#include "wire/netlink/message.h"

namespace weft::iwpm {

/// Sockets of a mapper, and the log. Nothing calls back into the mapper.
class MapperServices {
 public:
  struct ReservedPort {
    PortHandle handle{};
    std::uint16_t number{};
  };

  MapperServices() = default;
  virtual ~MapperServices() = default;
  MapperServices(const MapperServices&) = delete;
  MapperServices& operator=(const MapperServices&) = delete;

  /// Binds a TCP socket on all addresses, at port `wanted`, or any if that is 0, and keeps it.
  virtual Result<ReservedPort> reserve_port(IpFamily family, std::uint16_t wanted) = 0;
  virtual void release_port(PortHandle handle) = 0;
  /// Whether an interface of this host has the address.
  [[nodiscard]] virtual bool owns_address(const IpAddress& address) const = 0;
  virtual void send_to_kernel(std::vector<std::byte> datagram) = 0;
  virtual void send_to_peer(PeerSocket socket, const SocketAddress& peer,
                            std::vector<std::byte> datagram) = 0;
  virtual void log(std::string line) = 0;
};

struct MapperOptions {
  std::uint32_t port{};                 ///< the mapper's netlink address
  std::uint16_t abi{wire::iwpm::kAbi};  ///< most that it speaks
  std::uint64_t seed{};                 ///< for handles; not to be guessed by strangers
  std::size_t most_mappings{16'384};    ///< policy: each may be an open socket
  unsigned hellos{3};                   ///< policy: then the kernel is one of version 3
  Duration hello_interval{Duration::seconds(1)};
  unsigned replays{3};                      ///< policy: when records and their number differ
  Duration holding{Duration::seconds(1)};   ///< policy: new mappings, for a replay after a loss
  Duration settling{Duration::seconds(1)};  ///< policy: see Mapper::end_replay
  /// Policy, less than `holding`: the kernel answers a replay from inside of the call that asks.
  Duration replay_wait{Duration::milliseconds(300)};
  ExchangeOptions exchanges{};
};

class Mapper {
 public:
  Mapper(MapperServices& services, const MapperOptions& options);

  /// Says hello to the kernel.
  void start(Instant now);
  /// Gives all ports back. The kernel keeps its records.
  void stop();

  /// A datagram from the kernel.
  void handle_netlink(ByteSpan datagram, Instant now);
  /// Messages from the kernel were lost (ENOBUFS).
  void handle_overflow(Instant now);
  /// A datagram from a peer, which `socket` has received.
  void handle_datagram(PeerSocket socket, const SocketAddress& from, ByteSpan datagram,
                       Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;

  /// The version that is spoken with the kernel; none before its hello.
  [[nodiscard]] std::optional<std::uint16_t> abi() const { return abi_; }
  [[nodiscard]] std::vector<MappedPort> mappings() const { return ports_.all(); }
  /// Exchanges that wait for a peer.
  [[nodiscard]] std::size_t open_exchanges() const { return exchanges_.open(); }
  void check_invariants() const { ports_.check_invariants(); }

 private:
  struct Client {
    bool is_registered{};
    bool is_replaying{};      ///< from the request to the number of records
    bool is_stale{};          ///< what comes is of a replay before messages were lost
    std::uint32_t records{};  ///< taken or known already, of this replay
    unsigned replays_left{};
    Instant asked_at;
    /// Its number was lost, or the last one came too soon after new users.
    Instant replay_due{Instant::never()};
    std::uint32_t sequence{};  ///< of the next message to it
    bool is_holding{};         ///< new mappings wait in `held` for a replay
    Instant holds_until{Instant::never()};
    std::vector<std::vector<std::byte>> held;  ///< netlink datagrams, in order
  };
  using NetlinkHandler = void (Mapper::*)(const wire::netlink::Message&, std::uint8_t, Instant);
  struct Service {
    wire::iwpm::Operation operation{};
    NetlinkHandler handler{};
  };
  static const std::array<Service, 7> kServices;

  // From the kernel (mapper_netlink.cc).
  void take_register_pid(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_add_mapping(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_query_mapping(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_remove_mapping(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_mapinfo(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_mapinfo_count(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_hello(const wire::netlink::Message& message, std::uint8_t client, Instant now);
  void take_error(const wire::netlink::Message& message, Instant now);
  template <class Message>
  void send(std::uint8_t client, const Message& message,
            wire::iwpm::Operation operation = Message::kOperation);
  void send_error(std::uint8_t client, std::uint32_t sequence, wire::iwpm::DaemonError error);
  void send_hello(Instant now);
  void agree_on(std::uint16_t abi, Instant now);
  void begin_replay(std::uint8_t client, Instant now);
  void repeat_replay(std::uint8_t client, Instant now);
  void take_replay_due(std::uint8_t client, Instant now);
  void hold(std::uint8_t client, Instant now);
  void release_held(std::uint8_t client, Instant now);
  [[nodiscard]] bool holds_back(const wire::netlink::Message& message, std::uint8_t client,
                                const SocketAddress& local);
  void end_replay(std::uint8_t client, Instant now);
  [[nodiscard]] bool is_registered(std::uint8_t client, std::uint32_t sequence);
  [[nodiscard]] std::uint16_t spoken_abi() const { return abi_.value_or(options_.abi); }

  // Mappings (mapper.cc).
  [[nodiscard]] Result<MappedPort*> create(const SocketAddress& local, std::uint8_t client,
                                           std::uint32_t flags, Instant now);
  [[nodiscard]] Result<MappedPort*> reopen(const wire::iwpm::Mapinfo& record, std::uint8_t client);
  void add_user(MappedPort& port, Instant now);
  void release(MappedPort& port);

  // Peers (mapper_peers.cc).
  void ask_peer(const MappedPort& port, const Asker& asker, Instant now);
  void take_request(PeerSocket socket, const SocketAddress& from,
                    const wire::iwpm::PeerMessage& message, Instant now);
  void take_accept(PeerSocket socket, const SocketAddress& from,
                   const wire::iwpm::PeerMessage& message, Instant now);
  void take_ack(const wire::iwpm::PeerMessage& message, Instant now);
  void take_reject(const wire::iwpm::PeerMessage& message, Instant now);
  void answer_query(const Asker& asker, const SocketAddress& mapped_remote,
                    wire::iwpm::DaemonError error, Instant now);
  void tell_remote_info(const MappedPort& port, const wire::iwpm::PeerMessage& request);

  MapperServices& services_;
  MapperOptions options_;
  Random random_;
  std::optional<std::uint16_t> abi_;
  unsigned hellos_left_{};
  Instant next_hello_{Instant::never()};
  std::array<Client, wire::iwpm::kClients> clients_{};
  MappedPorts ports_;
  Exchanges exchanges_;
};

}  // namespace weft::iwpm
