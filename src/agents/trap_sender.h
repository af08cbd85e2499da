#pragma once

// Sender of the traps of all ports of a fabric (IBTA vol 1 §13.4.9, §14.3.11): sends them to the
// port's subnet manager, repeats them until they are repressed, and limits the same trap to the
// rate that the port's SubnetTimeOut allows. Single-threaded.

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

/// The outstanding traps of a fabric, ordered by when each is due.
class TrapSender {
 public:
  /// Limits; policy, not from the specification. After so many repetitions without a repress,
  /// nobody is assumed to listen.
  static constexpr std::size_t kMaxTraps = 16'384;
  static constexpr unsigned kMaxSends = 10;

  /// Raises a trap of `port`. If the same trap with the same details is outstanding, it gets a new
  /// transaction ID, so that a repress of the old one does not end it. `interval` is the least time
  /// between two sends.
  void raise(fabric::PortIndex port, const wire::Notice& notice, Duration interval, Instant now);

  /// Handles a TrapRepress received at `port`; true if it ended one of its traps.
  bool repress(fabric::PortIndex port, std::uint64_t transaction_id);
  /// Drops the port's traps: it is down, or has no subnet manager.
  void forget(fabric::PortIndex port);

  /// The next trap that is due, nullopt if none is.
  [[nodiscard]] std::optional<PendingTrap> poll(Instant now);
  /// When poll() has a trap next.
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] std::size_t outstanding() const { return traps_.size(); }
  [[nodiscard]] std::uint64_t discarded() const { return discarded_; }

 private:
  /// The identity of a trap. Only the last trap of each number is repeated for a port, also for bad
  /// keys, whose traps differ in the offender.
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
    bool is_over{};  // kept only to limit the rate
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
