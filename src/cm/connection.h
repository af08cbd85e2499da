#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/boxed.h"
#include "base/identifiers.h"
#include "base/serial.h"
#include "base/time.h"
#include "cm/events.h"
#include "cm/listeners.h"
#include "cm/parameters.h"
#include "cm/state_table.h"
#include "cm/types.h"
#include "mad/mad_address.h"
#include "wire/cm/cm_codes.h"

/// What the connection manager keeps for each identifier.
namespace weft::cm {

/// A message that this side resends until the peer answers it.
struct PendingMessage {
  wire::CmAttribute attribute{};
  mad::MadBytes mad{};
  Duration response_timeout{};  ///< interval between attempts
  unsigned retries_left{};
  /// MRAs that may still extend the wait
  unsigned extensions_left{};
};

/// The last answer of this side, kept so that a duplicate of the peer's message can be answered
/// again.
struct Answer {
  wire::CmAttribute attribute{};
  mad::MadBytes mad{};
};

/// An earlier LAP that was answered already. Until no copy of it can be in flight any more, a LAP
/// with the same octets is a duplicate and not a new request.
struct EarlierLap {
  mad::MadBytes mad{};
  Instant until{};
};

/// Identifies the sender of a SIDR_REQ (R-CM-10).
struct SidrKey {
  std::uint32_t request_id{};
  Lid lid{};
  Gid gid{};
  friend constexpr auto operator<=>(const SidrKey&, const SidrKey&) = default;
};

/// The connection-specific part of an identifier; empty in Idle and Listen.
struct Link {
  PortKey port{};
  Guid local_ca{};
  mad::MadAddress peer{};  ///< destination of this connection's MADs
  CmId listener{};
  bool is_in_backlog{};  ///< counts against the listener's backlog
  bool is_active{};      ///< this side sent the REQ

  std::uint32_t local_id{};  ///< communication IDs; 0 means not allocated
  std::uint32_t remote_id{};
  std::uint64_t transaction_id{};
  Guid remote_ca{};
  std::optional<SidrKey> sidr{};  ///< set on the passive side of SIDR
  std::uint64_t service_id{};

  QpType qp_type{};
  Qpn local_qpn{};
  Qpn remote_qpn{};
  Psn rq_psn{};
  Psn sq_psn{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry_count{};
  std::uint8_t ack_timeout{};  ///< timeouts are exponents: 4.096 us * 2^n
  std::uint8_t alternate_ack_timeout{};
  std::uint8_t remote_response_timeout{};
  bool is_peer_to_peer{};
  bool has_loaded_alternate{};  ///< an alternate path was loaded by LAP and APR

  Path primary{};
  std::optional<Path> alternate{};
  std::optional<Path> candidate{};  ///< path of a LAP that is not yet answered
  std::uint8_t candidate_ack_timeout{};
  std::uint32_t laps_sent{};

  Duration response_timeout{};  ///< how long to wait for the answer to a message
  unsigned max_retries{};
  Boxed<PendingMessage> pending_message{};
  Boxed<Answer> setup_answer{};     ///< MRA of a REQ or REP, or RTU
  Boxed<Answer> later_answer{};     ///< MRA of a LAP, APR or DREP
  Boxed<mad::MadBytes> last_lap{};  ///< last LAP received
  bool is_last_lap_answered{};
  std::vector<EarlierLap> earlier_laps{};
  Instant deadline{Instant::never()};
};

/// One identifier of the manager: a listener, a connection, or a SIDR exchange.
struct Connection {
  CmId id{};
  CmObserver* observer{};
  std::uint64_t context{};
  State state{State::Idle};
  bool is_detached{};  ///< destroyed by its user; only protocol obligations remain
  bool is_reported{};  ///< reported to its user
  // Valid for listeners only:
  std::optional<ListenerTable::Listener> listener{};
  unsigned backlog{};
  unsigned backlog_used{};
  bool drops_excess_requests{};
  /// number of users sharing it through insert_listen; 0 if it has a single owner
  unsigned shares{};

  Link link{};
};

}  // namespace weft::cm
