#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "wire/cm/cm_codes.h"

namespace weft::cm {

/// Upper bounds of a manager's tables and waits (docs/ARCHITECTURE.md, decision 15). All numbers
/// are policy, not from the specification.
struct Limits {
  std::size_t ids{65'536};  ///< ids with a user; a REQ above it is rejected (no resources)
  /// destroyed ids in TimeWait; above it the oldest is released early
  std::size_t time_waits{65'536};
  unsigned backlog{16'384};  ///< per listener: connections created for it that are not established
  /// Share of the backlog that one LID may use, so that it cannot starve others at a listener
  /// without an explicit backlog. A burst of 10,000 REQs from one peer is accepted at once; those
  /// above the limit are accepted at their next retry, 4.3 s later. A pending request costs 3.4 KiB
  /// including RDMA-CM: one peer costs a host at most 41 MiB, all peers together (bounded by `ids`)
  /// 220 MiB.
  std::size_t unanswered_of_peer{12'288};
  std::size_t service_masks{64};  ///< distinct service masks of all listeners
  std::size_t match_bytes{92};    ///< length of a PrivateDataMatch
  unsigned extensions{32};        ///< MRAs accepted for one message
  /// for one answer, whatever timeout the peer requests
  Duration max_wait{Duration::seconds(60)};
  Duration max_time_wait{Duration::seconds(60)};
};

/// Counters of one message type.
struct MessageCounters {
  std::uint64_t sent{};  ///< first transmissions
  /// retransmissions: no answer, or a duplicate request was answered again
  std::uint64_t retries{};
  std::uint64_t received{};    ///< including duplicates
  std::uint64_t duplicates{};  ///< received again after they had been processed
};

/// Statistics of a manager since its construction; counters never decrease.
struct Counters {
  std::array<MessageCounters, wire::kCmAttributeCount> messages{};
  std::uint64_t unknown_attribute{};
  std::uint64_t bad_version{};  ///< class version
  std::uint64_t malformed{};    ///< a field has an illegal value
  std::uint64_t unmatched{};    ///< no such connection
  std::uint64_t unexpected{};   ///< not valid in the connection's state
  std::uint64_t no_listener{};
  std::uint64_t no_resources{};   ///< rejected or dropped because of a limit
  std::uint64_t stale{};          ///< connections that the peer turned out to have lost
  std::uint64_t timeouts{};       ///< messages whose retries were exhausted
  std::uint64_t send_failures{};  ///< refused by the management interface, or the port was removed
  std::uint64_t time_waits_evicted{};  ///< TimeWaits ended early

  [[nodiscard]] MessageCounters& of(wire::CmAttribute attribute) {
    return messages[static_cast<std::size_t>(attribute) -
                    static_cast<std::size_t>(wire::CmAttribute::Req)];
  }
  [[nodiscard]] const MessageCounters& of(wire::CmAttribute attribute) const {
    return messages[static_cast<std::size_t>(attribute) -
                    static_cast<std::size_t>(wire::CmAttribute::Req)];
  }
};

}  // namespace weft::cm
