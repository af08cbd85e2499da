#pragma once

// Exchanges of a port mapper with its peers: what was sent and is not yet answered, and what is
// remembered so that a message that comes twice is answered twice but counts once. A request or
// accept is sent again after each second, three times; what is done is remembered for ten seconds.
// One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "wire/iwpm/peer_message.h"

namespace weft::iwpm {

using wire::iwpm::SocketAddress;

/// Which of a mapper's sockets: Linux's iwpmd asks from one with a port of its own, and answers
/// from the well-known one.
enum class PeerSocket : std::uint8_t { Client, Server };

enum class ExchangeState : std::uint8_t {
  Asking,    ///< a request was sent, an accept or reject is waited for
  Accepted,  ///< of an own request: the accept came, and was acknowledged
  Offering,  ///< an accept was sent, its acknowledgement is waited for
  Closed,    ///< of a peer's request: acknowledged, or given up
};

/// Who asked the mapper, so that it can be answered.
struct Asker {
  std::uint8_t client{};
  std::uint32_t sequence{};
  SocketAddress local;
  SocketAddress remote;
};

struct Exchange {
  ExchangeState state{};
  std::uint64_t handle{};
  PeerSocket socket{};
  SocketAddress peer;            ///< where to send
  wire::iwpm::PeerMessage sent;  ///< the request or accept
  Asker asker;                   ///< of an own request
  unsigned repeats_left{};
  Instant due;  ///< next repetition, or the end of memory
};

struct ExchangeOptions {
  Duration interval{Duration::seconds(1)};  ///< as iwpmd
  unsigned repeats{3};
  Duration memory{Duration::seconds(10)};  ///< as iwpmd
  std::size_t most{4096};                  ///< policy, of each direction
};

class Exchanges {
 public:
  explicit Exchanges(const ExchangeOptions& options) : options_(options) {}

  /// Begins one; null if there are too many. `handle` must be new for an own request.
  Exchange* begin_asking(Exchange exchange, Instant now);
  Exchange* begin_offering(Exchange exchange, Instant now);

  /// An own request, in any state; null without one.
  [[nodiscard]] Exchange* find_own(std::uint64_t handle);
  /// A peer's request. Handles of different hosts may be equal, so the connecting peer's address
  /// and the accepting one count, too.
  [[nodiscard]] Exchange* find_peers(const wire::iwpm::PeerMessage& message);

  /// Acknowledged, accepted or given up: it is remembered until its memory ends.
  void close(Exchange& exchange, Instant now);

  /// What is to be done at `now`: each exchange once whose time has come.
  struct Due {
    Exchange exchange;
    bool is_given_up{};  ///< no repetition is left
  };
  [[nodiscard]] std::vector<Due> take_due(Instant now);
  [[nodiscard]] Instant first_deadline() const;

  [[nodiscard]] std::size_t size() const { return own_.size() + peers_.size(); }
  [[nodiscard]] std::size_t open() const;
  /// Own requests of this local address that wait for a peer.
  [[nodiscard]] unsigned asking(const SocketAddress& local) const;

 private:
  struct PeerKey {
    std::uint64_t handle{};
    IpAddress connecting_ip;
    std::uint16_t connecting_port{};
    auto operator<=>(const PeerKey&) const = default;
  };
  [[nodiscard]] static PeerKey key_of(const wire::iwpm::PeerMessage& message);
  template <class Table>
  void take_due_of(Table& table, Instant now, std::vector<Due>& due) const;

  ExchangeOptions options_;
  std::map<std::uint64_t, Exchange> own_;
  std::map<PeerKey, Exchange> peers_;
};

}  // namespace weft::iwpm
