#pragma once

// A datagram socket over a UD QP (rsocket(7)). Any thread may call any member; each socket has one
// lock, which is never held while waiting for a peer.
//
// The protocol, and what is known of peers, is in ulp/rsocket's DatagramEndpoint. A UDP socket with
// the same address finds the QPs of peers, and carries datagrams until they are found; its
// descriptor is the socket's number. There is no background thread: each call processes what has
// arrived and advances path queries. A socket has one QP and one address, that of the port to which
// it was bound or from which it first sent. One of AF_INET6 that was bound to ::, ::1 or not at all
// has that port's addresses of both families (RFC 3493 §3.7), unless IPV6_V6ONLY is set.

#include <netinet/in.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "compat/rdmacm/rsockets/socket.h"
#include "os/unique_fd.h"
#include "ulp/rsocket/datagram_endpoint.h"

namespace weft::rsockets {

/// A socket of SOCK_DGRAM.
class DatagramSocket final : public Socket {
 public:
  /// Takes ownership of the UDP socket, which is always of AF_INET (ulp/rsocket/datagram_name.h).
  DatagramSocket(os::UniqueFd udp, int family);
  ~DatagramSocket() override;

  [[nodiscard]] int fd() const override { return udp_.get(); }
  [[nodiscard]] int bind(const sockaddr* address) override;
  [[nodiscard]] int connect(const sockaddr* address) override;
  [[nodiscard]] ssize_t receive(std::byte* out, std::size_t bytes, int flags,
                                Sender sender) override;
  [[nodiscard]] ssize_t receive_pieces(std::span<const iovec> pieces, int flags,
                                       Sender sender) override;
  [[nodiscard]] ssize_t send(const std::byte* data, std::size_t bytes, int flags,
                             const sockaddr* to) override;
  [[nodiscard]] ssize_t send_pieces(std::span<const iovec> pieces, int flags,
                                    const sockaddr* to) override;
  int shutdown(int how) override;
  void close() override {}

  [[nodiscard]] sockaddr_storage own_address() override;
  [[nodiscard]] sockaddr_storage peer_address() override;
  [[nodiscard]] bool is_nonblocking() override;
  [[nodiscard]] int set_nonblocking(bool nonblocking) override;
  [[nodiscard]] int take_error() override { return 0; }
  [[nodiscard]] bool is_open() override;
  [[nodiscard]] int set_id_option(int name, int value) override;
  [[nodiscard]] int segment_bytes() override { return static_cast<int>(endpoint_.max_bytes()); }
  [[nodiscard]] short readiness(short events) override;
  void watch(short events, std::vector<pollfd>& descriptors) override;
  void unwatch() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Peer = DatagramEndpoint::Peer;
  /// Objects of one peer, by its slot.
  struct PeerObjects {
    ibv_ah* path{};        // null: use UDP
    rdma_cm_id* search{};  // path query in progress
  };
  /// A received datagram.
  struct Arrived {
    DatagramName from;
    std::optional<std::uint32_t> slot;  // in the receive memory; nullopt: in `octets`
    std::size_t header_bytes{};         // offset in the slot
    std::uint32_t bytes{};
    std::vector<std::byte> octets;
  };

  /// Nullopt after refuse().
  [[nodiscard]] std::optional<DatagramName> read(const sockaddr* address) const;
  void tell(const DatagramName& from, Sender sender) const;
  [[nodiscard]] bool waits(int flags) const {
    return !is_nonblocking_ && (flags & MSG_DONTWAIT) == 0;
  }

  // Opening (datagram.cc)
  [[nodiscard]] int open(OwnNames names);
  [[nodiscard]] std::optional<IpAddress> source_address_for(const DatagramName& destination) const;
  [[nodiscard]] DatagramFamily family() const;
  [[nodiscard]] int open_for_destination(const DatagramName& destination);
  [[nodiscard]] int name_peer(DatagramName& peer) const;
  [[nodiscard]] int bind_both(OwnNames& names);
  [[nodiscard]] int create_queue_pair();
  void close_id();
  [[nodiscard]] int post_receive(std::uint32_t slot);
  [[nodiscard]] ssize_t post(const Peer& peer, const std::byte* data, std::size_t bytes);

  // Receiving (datagram.cc)
  void take_completions();
  void take_datagram(std::uint32_t slot, std::uint32_t bytes);
  void take_all();
  void take_sign();
  template <class Condition>
  [[nodiscard]] int wait(Lock& lock, bool waits, Condition condition);

  // Peers (datagram_peers.cc)
  [[nodiscard]] Peer& peer_of(const DatagramName& name);
  [[nodiscard]] PeerObjects& objects_of(const Peer& peer);
  void forget(DatagramEndpoint::Slot slot);
  void forget_path(DatagramEndpoint::Slot slot);
  [[nodiscard]] ssize_t send_by_udp(const Peer& peer, UdpOperation operation,
                                    std::span<const std::byte> data, int flags);
  void take_udp_messages();
  void take_udp_message(const sockaddr_in& sender, std::span<const std::byte> octets);
  void search(Peer& peer);
  void take_search_events();
  void end_search(PeerObjects& objects);
  void keep_path(Peer& peer, const rdma_cm_id& found);

  const os::UniqueFd udp_;
  const int family_;
  const DatagramLimits limits_{};
  DatagramEndpoint endpoint_;
  std::mutex lock_;
  bool is_nonblocking_{};
  bool may_read_{true};
  bool may_write_{true};
  rdma_cm_id* cm_{};  // with the QP; null until the socket is open

  RegisteredMemory send_memory_;
  std::vector<std::uint32_t> free_sends_;  // slots
  std::uint32_t sends_{};
  RegisteredMemory receive_memory_;
  std::deque<Arrived> arrived_;

  rdma_event_channel* searches_{};
  std::size_t searches_in_progress_{};
  std::vector<PeerObjects> objects_;  // by slot
  std::vector<ibv_ah*> old_paths_;    // still referenced by sends in flight
};

}  // namespace weft::rsockets
