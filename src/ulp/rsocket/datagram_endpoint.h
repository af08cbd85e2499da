#pragma once

// One datagram socket as its peers see it: its names, whom it speaks to, and what is known of each
// of them (librdmacm's docs/rsocket). Pure: messages of UDP and of the QP go in, and what has to be
// done about them comes out. One thread at a time.
//
// A peer whose QP is not known is sent its datagrams over UDP, each of which asks for the QP; once
// the QPN and a path to it are known, they go by the QP. The caller looks for paths and keeps what
// it has of a peer by the peer's slot.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ulp/rsocket/datagram_name.h"
#include "ulp/rsocket/datagram_protocol.h"

namespace weft::rsockets {

/// What a socket holds at most (docs/ARCHITECTURE.md, decision 15). The numbers are policy.
struct DatagramLimits {
  std::size_t peers{1'024};  ///< known; above it the oldest is forgotten
  std::size_t searches{64};  ///< for paths to peers, at once; others wait for their next datagram
  std::size_t messages{64};  ///< over UDP that one call takes
  int search_ms{2'000};      ///< for an address, and for a path
  int ports{8};              ///< tried, when the program leaves the choice
};

class DatagramEndpoint {
 public:
  /// Of a peer, below DatagramLimits::peers; another peer's after that one is forgotten.
  using Slot = std::uint32_t;
  enum class Path : std::uint8_t { Unknown, Searched, Known };
  struct Peer {
    DatagramName name;
    Slot slot{};
    std::uint64_t age{};  // the lowest is the oldest
    std::uint32_t qpn{};  // as it said last
    Path path{Path::Unknown};
  };
  struct Found {
    Peer* peer{};
    bool is_slot_used_anew{};  ///< what the caller has there is of a peer that is forgotten
  };

  /// `family` is the socket's, AF_INET or AF_INET6.
  DatagramEndpoint(IpFamily family, const AddressBook& book, const DatagramLimits& limits);

  // --- names
  void open(const OwnNames& names) { own_ = names; }
  [[nodiscard]] const OwnNames& own() const { return own_; }
  /// What is meant by a peer's name. NetworkUnreachable: this socket has no address of its family.
  [[nodiscard]] Result<DatagramName> named(DatagramName peer) const;
  /// From now on this peer alone speaks to the socket.
  void connect(const DatagramName& peer) { connected_to_ = peer; }
  [[nodiscard]] const std::optional<DatagramName>& connected_to() const { return connected_to_; }
  [[nodiscard]] bool is_wanted(const DatagramName& from) const {
    return !connected_to_ || *connected_to_ == from;
  }
  /// The longest datagram for every peer that the socket may have.
  [[nodiscard]] std::size_t max_bytes() const {
    return family_ == IpFamily::V4 ? kMaxDatagramBytes : kMaxDatagram6Bytes;
  }

  // --- peers
  /// Who has this name; the oldest is forgotten for somebody new beyond the limit.
  [[nodiscard]] Found peer_of(const DatagramName& name);
  [[nodiscard]] Peer& peer_at(Slot slot) { return *by_slot_.at(slot); }
  [[nodiscard]] std::size_t known() const { return peers_.size(); }

  // --- what comes
  /// The header of a datagram that the QP received; nothing: it is for nobody here.
  [[nodiscard]] std::optional<DatagramOrigin> take_datagram(ByteSpan octets) const;

  /// What a message over UDP asks for.
  struct UdpMessage {
    DatagramName from;
    Slot peer{};
    bool is_slot_used_anew{};
    bool wants_answer{};           ///< the own QPN, by a header alone
    bool is_path_stale{};          ///< the peer has another QP than before: its path is Unknown now
    bool needs_path{};             ///< there is none, and nobody looks for one
    std::optional<ByteSpan> data;  ///< a datagram, and it is wanted
  };
  /// `sender` is what the system says: an IPv4 address and its port. Nothing: it is no rsocket's,
  /// or is for an address that this socket does not have.
  [[nodiscard]] std::optional<UdpMessage> take_udp(const DatagramName& sender, ByteSpan octets);

  // --- what goes; both return how many octets the header has
  [[nodiscard]] std::size_t write_header_to(const DatagramName& peer, std::byte* to) const;
  [[nodiscard]] std::size_t write_udp_header_to(const DatagramName& peer, UdpOperation operation,
                                                std::uint32_t qpn, std::byte* to) const;
  /// Where UDP finds whoever has this name; nothing: nowhere.
  [[nodiscard]] std::optional<DatagramName> udp_name_of(const DatagramName& name) const;

 private:
  [[nodiscard]] Slot next_slot(bool& is_used_anew);

  const IpFamily family_;
  const AddressBook book_;
  const DatagramLimits limits_;
  OwnNames own_;
  std::optional<DatagramName> connected_to_;
  std::map<DatagramName, Peer> peers_;
  std::vector<Peer*> by_slot_;
  std::uint64_t next_age_{};
};

}  // namespace weft::rsockets
