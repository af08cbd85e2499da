#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "wire/cm/cm_codes.h"

namespace weft::cm {

/// What a manager holds at most (docs/ARCHITECTURE.md, decision 15). The numbers are policy, not
/// from the specification.
struct Limits {
  std::size_t ids{65'536};         ///< of users; a REQ above it is rejected for want of resources
  std::size_t time_waits{65'536};  ///< of destroyed ids; above it the oldest ends early
  unsigned backlog{16'384};        ///< of a listener: connections made for it, not established
  /// Of those, by one LID, so that it keeps nobody else out of a listener that names no backlog. A
  /// peer that asks for 10,000 at once is answered at once: what is above waits for its next try,
  /// 4.3 s later. With RDMA-CM's part one that only asks costs 3.4 KiB: one peer costs a host 41
  /// MiB, and all of them together, by `ids`, 220 MiB.
  std::size_t unanswered_of_peer{12'288};
  std::size_t service_masks{64};                 ///< that differ, of listeners
  std::size_t match_bytes{92};                   ///< of a PrivateDataMatch
  unsigned extensions{32};                       ///< MRAs that one message's sender heeds
  Duration longest_wait{Duration::seconds(60)};  ///< for one answer, whatever the peer asks for
  Duration longest_time_wait{Duration::seconds(60)};
};

/// Messages of one kind.
struct MessageCounters {
  std::uint64_t sent{};        ///< first times
  std::uint64_t retries{};     ///< sent again: nobody answered, or the peer asked again
  std::uint64_t received{};    ///< duplicates too
  std::uint64_t duplicates{};  ///< of what was known already
};

/// What a manager saw; all only grow.
struct Counters {
  std::array<MessageCounters, wire::kCmAttributeCount> messages{};
  std::uint64_t unknown_attribute{};
  std::uint64_t bad_version{};  ///< class version
  std::uint64_t malformed{};    ///< a field has no legal meaning
  std::uint64_t unmatched{};    ///< of no connection that is here
  std::uint64_t unexpected{};   ///< of a connection in whose state it means nothing
  std::uint64_t no_listener{};
  std::uint64_t no_resources{};    ///< rejected, or not remembered, because of a limit
  std::uint64_t stale{};           ///< connections found to be dead at the other side
  std::uint64_t timeouts{};        ///< messages whose retries were all in vain
  std::uint64_t send_failures{};   ///< refused by the management interface, or the port is gone
  std::uint64_t time_waits_cut{};  ///< ended early

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
