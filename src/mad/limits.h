#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weft::mad {

/// Upper bounds of a management interface (docs/ARCHITECTURE.md, decision 15). All numbers are
/// policy, not from the specification.
struct Limits {
  std::size_t agents{1'024};
  std::size_t transactions{4096};  ///< pending; those above `in_flight` are queued
  std::size_t in_flight{256};      ///< requests that await their response
  std::size_t served_exchanges{
      256};  ///< requests of peers being received, deferred, or answered by RMPP
  std::size_t served_exchanges_of_peer{64};  ///< share of one peer
  std::size_t queued_mads{4096};  ///< send queue; MADs above it are dropped, as in a network
  std::size_t rmpp_message_bytes{std::size_t{16} << 20};
  std::size_t rmpp_total_bytes{std::size_t{64} << 20};  ///< of all messages being reassembled
  std::size_t sent_bytes_of_peer{std::size_t{32}
                                 << 20};  ///< of answers that it has not acknowledged
  std::uint32_t rmpp_window{64};          ///< segments
  unsigned redirects{3};                  ///< per transaction

  /// Rate limit: one MAD per `mad_interval` on average, in bursts of up to `burst`. Zero: no limit.
  Duration mad_interval{};
  std::uint32_t burst{32};

  Duration rmpp_total_time{Duration::seconds(40)};  ///< for a whole message
  /// for an ACK, if the class defines no other time
  Duration rmpp_response_time{Duration::seconds(2)};
  unsigned rmpp_retries{5};
  /// how long retransmissions of the last segment are acknowledged
  Duration linger{Duration::seconds(10)};
  Duration deferral{Duration::seconds(60)};  ///< until a deferred response is abandoned
  Duration max_wait{Duration::seconds(60)};  ///< upper bound of the retry back-off
};

/// Statistics since construction; counters never decrease.
struct Counters {
  std::uint64_t received{};
  std::uint64_t sent{};
  std::uint64_t wrong_size{};
  std::uint64_t bad_version{};        ///< base or class version
  std::uint64_t unsupported_class{};  ///< no agent for the class
  std::uint64_t unsupported_method{};
  std::uint64_t unmatched_answers{};  ///< late, or never requested
  std::uint64_t duplicates{};         ///< of requests still being processed
  std::uint64_t resent{};
  std::uint64_t timed_out{};
  std::uint64_t cancelled{};
  std::uint64_t busy{};
  std::uint64_t redirected{};
  std::uint64_t discarded{};           ///< dropped because of a limit
  std::uint64_t rmpp_refused{};        ///< STOP and ABORT sent
  std::uint64_t rmpp_ended_by_peer{};  ///< STOP and ABORT received
};

}  // namespace weft::mad
