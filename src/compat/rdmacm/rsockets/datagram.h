#pragma once

// A datagram socket over a UD QP (rsocket(7)). Any thread may call anything; one lock a socket,
// which nobody holds while waiting for a peer.
//
// A UDP socket of the same address finds the peers' QPs (datagram_protocol.h), and carries what is
// sent before they are found; its descriptor is the socket's number. There is no thread behind it:
// whoever calls takes what has come, and brings forward the search for ways to peers. A socket has
// one address, of the host's port that it was bound to or first sent from, and one QP.

#include <netinet/in.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "compat/rdmacm/rsockets/datagram_protocol.h"
#include "compat/rdmacm/rsockets/socket.h"
#include "host/unique_fd.h"

namespace weft::rsockets {

/// What a socket holds at most (docs/ARCHITECTURE.md, decision 15). The numbers are policy.
struct DatagramLimits {
  std::size_t peers{1'024};  ///< known; above it the oldest is forgotten
  std::size_t searches{64};  ///< for ways to peers, at once; others wait for their next datagram
  std::size_t messages{64};  ///< over UDP that one call takes
  int search_ms{2'000};      ///< for an address, and for a path
  int ports{8};              ///< tried, when the program leaves the choice
};

class DatagramSocket final : public Socket {
 public:
  /// Owns the UDP socket.
  explicit DatagramSocket(host::UniqueFd udp);
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
  [[nodiscard]] int segment_bytes() override { return static_cast<int>(kMostDatagramBytes); }
  [[nodiscard]] short readiness(short events) override;
  void watch(short events, std::vector<pollfd>& descriptors) override;
  void unwatch() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// An IPv4 address and a UDP port, in the host's order.
  using Key = std::uint64_t;

  /// Somebody whose QP is known, looked for, or not known yet.
  struct Peer {
    sockaddr_in address{};
    std::uint64_t age{};   // the lowest is the oldest
    std::uint32_t qpn{};   // as it said last
    ibv_ah* way{};         // null: by UDP
    rdma_cm_id* search{};  // for the way
  };
  struct Arrived {
    sockaddr_in from{};
    std::optional<std::uint32_t> slot;  // of the receive memory; none: `octets`
    std::uint32_t bytes{};
    std::vector<std::byte> octets;
  };

  [[nodiscard]] static Key key_of(const sockaddr_in& address);
  [[nodiscard]] bool waits(int flags) const {
    return !is_nonblocking_ && (flags & MSG_DONTWAIT) == 0;
  }

  // Opening (datagram.cc)
  [[nodiscard]] int open(sockaddr_in address);
  [[nodiscard]] std::optional<sockaddr_in> address_towards(sockaddr_in destination) const;
  [[nodiscard]] int open_towards(const sockaddr_in& destination);
  [[nodiscard]] int bind_both(sockaddr_in& address);
  [[nodiscard]] int create_queue_pair();
  void close_id();
  [[nodiscard]] int post_receive(std::uint32_t slot);
  [[nodiscard]] ssize_t post(const Peer& peer, const std::byte* data, std::size_t bytes);

  // What comes (datagram.cc)
  void take_completions();
  void take_datagram(std::uint32_t slot, std::uint32_t bytes);
  void take_all();
  [[nodiscard]] bool is_wanted(const sockaddr_in& from) const;
  void take_sign();
  template <class Condition>
  [[nodiscard]] int wait(Lock& lock, bool waits, Condition condition);

  // Peers (datagram_peers.cc)
  [[nodiscard]] Peer& peer_of(const sockaddr_in& address);
  void forget(Peer& peer);
  [[nodiscard]] ssize_t send_by_udp(const Peer& peer, UdpOperation operation,
                                    std::span<const std::byte> data, int flags);
  void take_udp_messages();
  void take_udp_message(const sockaddr_in& from, std::span<const std::byte> octets);
  void search(Peer& peer);
  void take_search_events();
  void end_search(Peer& peer);
  void keep_way(Peer& peer, const rdma_cm_id& found);

  const host::UniqueFd udp_;
  const DatagramLimits limits_{};
  std::mutex lock_;
  bool is_nonblocking_{};
  bool may_read_{true};
  bool may_write_{true};
  rdma_cm_id* cm_{};  // with the QP; null until the socket is open
  sockaddr_in own_{};
  std::optional<sockaddr_in> connected_to_;

  RegisteredMemory send_memory_;
  std::vector<std::uint32_t> free_sends_;  // slots
  std::uint32_t sends_{};
  RegisteredMemory receive_memory_;
  std::deque<Arrived> arrived_;

  rdma_event_channel* searches_{};
  std::size_t searches_under_way_{};
  std::map<Key, Peer> peers_;
  std::uint64_t next_age_{};
  std::vector<ibv_ah*> old_ways_;  // while something may be under way there
};

}  // namespace weft::rsockets
