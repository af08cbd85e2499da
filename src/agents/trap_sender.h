#pragma once

// Traps of all ports of a fabric (IBTA vol 1 §13.4.9, §14.3.11): sent to the subnet manager of the
// port, repeated until they are repressed, and not faster than the port's SubnetTimeOut for the
// same trap. One thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/identifiers.h"
#include "base/time.h"
#include "carriage/node_agents.h"
#include "fabric/tables.h"
#include "mad/mad_address.h"
#include "wire/mad/notice.h"

namespace weft::agents {

using carriage::PendingTrap;

class TrapSender {
 public:
  /// Limits; policy, not from the specification. What is repeated so often and not repressed has
  /// nobody who listens.
  static constexpr std::size_t kMaxTraps = 16'384;
  static constexpr unsigned kMaxSends = 10;

  /// `port` has something to say. What it says already with the same number and details is said
  /// again, under a new TID: a repress of the one before does not answer this one.
  void raise(fabric::PortIndex port, const wire::Notice& notice, Duration interval, Instant now);

  /// A TrapRepress came to `port`; true if it was for one of its traps.
  bool repress(fabric::PortIndex port, std::uint64_t transaction_id);
  /// The port is down, or has lost its subnet manager: it says nothing more.
  void forget(fabric::PortIndex port);

  [[nodiscard]] std::optional<PendingTrap> poll(Instant now);
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] std::size_t outstanding() const { return traps_.size(); }
  [[nodiscard]] std::uint64_t discarded() const { return discarded_; }

 private:
  /// Bad keys differ by whom they are of; of a port only the last of each number is repeated.
  struct Key {
    fabric::PortIndex port;
    std::uint16_t number{};
    friend constexpr auto operator<=>(const Key&, const Key&) = default;
  };
  struct Trap {
    wire::Notice notice;
    std::uint64_t transaction_id{};
    Duration interval;
    Instant last_sent;
    Instant due{Instant::never()};
    unsigned sends{};
    bool is_over{};  // kept only for the rate
  };
  using Traps = std::map<Key, Trap>;

  void schedule(Traps::iterator place, Instant due);
  void settle(Traps::iterator place);

  Traps traps_;
  std::set<std::pair<Instant, Key>> schedule_;
  std::uint64_t last_transaction_{};
  std::uint64_t discarded_{};
};

}  // namespace weft::agents
