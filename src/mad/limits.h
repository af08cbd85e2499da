#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::mad {

/// What a management interface holds at most (docs/ARCHITECTURE.md, decision 15). The numbers are
/// policy, not from the specification.
struct Limits {
  std::size_t agents{1'024};
  std::size_t transactions{4096};  ///< begun and not completed; those above `in_flight` wait
  std::size_t in_flight{256};      ///< requests sent and not answered
  std::size_t served_exchanges{
      256};  ///< requests of others that are received, deferred or answered in segments
  std::size_t served_exchanges_of_peer{64};  ///< of those, so that one peer keeps nobody waiting
  std::size_t queued_mads{4096};  ///< to be sent; what is above is discarded, as a network does
  std::size_t rmpp_message_bytes{std::size_t{16} << 20};
  std::size_t rmpp_total_bytes{std::size_t{64} << 20};  ///< of all messages that are being received
  std::size_t sent_bytes_of_peer{std::size_t{32}
                                 << 20};  ///< of answers that it has not acknowledged
  std::uint32_t rmpp_window{64};          ///< segments
  unsigned redirects{3};                  ///< of one transaction

  /// One MAD each `mad_interval` on average, `burst` at once; a zero interval is no limit.
  Duration mad_interval{};
  std::uint32_t burst{32};

  Duration rmpp_total_time{Duration::seconds(40)};    ///< for a whole message
  Duration rmpp_response_time{Duration::seconds(2)};  ///< for an ACK, when nobody says
  unsigned rmpp_retries{5};
  Duration linger{Duration::seconds(10)};  ///< how long a last segment that comes again is answered
  Duration deferral{Duration::seconds(60)};      ///< until a deferred answer is given up
  Duration longest_wait{Duration::seconds(60)};  ///< of a back-off
};

/// What an interface saw; all only grow.
struct Counters {
  std::uint64_t received{};
  std::uint64_t sent{};
  std::uint64_t wrong_size{};
  std::uint64_t bad_version{};        ///< base or class version
  std::uint64_t unsupported_class{};  ///< no agent of this class
  std::uint64_t unsupported_method{};
  std::uint64_t unmatched_answers{};  ///< too late, or never asked for
  std::uint64_t duplicates{};         ///< requests that are still being served
  std::uint64_t resent{};
  std::uint64_t timed_out{};
  std::uint64_t cancelled{};
  std::uint64_t busy{};
  std::uint64_t redirected{};
  std::uint64_t discarded{};           ///< a limit was reached
  std::uint64_t rmpp_refused{};        ///< STOP and ABORT sent
  std::uint64_t rmpp_ended_by_peer{};  ///< STOP and ABORT received
};

}  // namespace weft::mad
