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

/// What a manager remembers of an identifier.
namespace weft::cm {

/// A message of this side that is repeated until it is answered.
struct Awaited {
  wire::CmAttribute attribute{};
  mad::MadBytes mad{};
  Duration patience{};
  unsigned retries_left{};
  unsigned extensions_left{};
};

/// An answer of this side, to give again to who asks again.
struct Answer {
  wire::CmAttribute attribute{};
  mad::MadBytes mad{};
};

/// A LAP that was answered before the last one: while a copy of it may still be under way, the same
/// octets are no new request.
struct EarlierLap {
  mad::MadBytes mad{};
  Instant until{};
};

/// Where a SIDR_REQ came from (R-CM-10).
struct SidrKey {
  std::uint32_t request_id{};
  Lid lid{};
  Gid gid{};
  friend constexpr auto operator<=>(const SidrKey&, const SidrKey&) = default;
};

/// The part of an identifier that a connection fills, and that is empty in Idle and Listen.
struct Link {
  PortKey port{};
  Guid local_ca{};
  mad::MadAddress peer{};  ///< where MADs go
  CmId listener{};
  bool is_in_backlog{};
  bool is_active{};  ///< sent the REQ

  std::uint32_t local_id{};  ///< communication ids; 0: none yet
  std::uint32_t remote_id{};
  std::uint64_t transaction_id{};
  Guid remote_ca{};
  std::optional<SidrKey> sidr{};  ///< of one that was asked
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
  std::uint8_t ack_timeout{};  ///< exponents
  std::uint8_t alternate_ack_timeout{};
  std::uint8_t remote_response_timeout{};
  bool is_peer_to_peer{};
  bool has_loaded_alternate{};  ///< by LAP and APR

  Path primary{};
  std::optional<Path> alternate{};
  std::optional<Path> candidate{};  ///< of a LAP that is not answered
  std::uint8_t candidate_ack_timeout{};
  std::uint32_t laps_sent{};

  Duration patience{};  ///< for the answer to what this side sends
  unsigned max_retries{};
  Boxed<Awaited> awaited{};
  Boxed<Answer> setup_answer{};     ///< MRA of a REQ or REP, RTU
  Boxed<Answer> later_answer{};     ///< MRA of a LAP, APR, DREP
  Boxed<mad::MadBytes> last_lap{};  ///< received
  bool is_last_lap_answered{};
  std::vector<EarlierLap> earlier_laps{};
  Instant deadline{Instant::never()};
};

struct Connection {
  CmId id{};
  CmObserver* observer{};
  std::uint64_t context{};
  State state{State::Idle};
  bool is_detached{};   ///< its user destroyed it
  bool is_announced{};  ///< its user knows of it
  // Of a listener:
  std::optional<ListenerTable::Listener> listener{};
  unsigned backlog{};
  unsigned backlog_used{};
  bool leaves_excess_unanswered{};
  unsigned shares{};  ///< by insert_listen; 0: it is one user's

  Link link{};
};

}  // namespace weft::cm
