#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "base/time.h"
#include "verbs/async_event.h"
#include "verbs/connection_parameters.h"
#include "verbs/path.h"
#include "verbs/port_attributes.h"
#include "verbs/qp_attributes.h"
#include "verbs/qp_state.h"
#include "verbs/qp_type.h"
#include "wire/encodings.h"

/// The vocabulary of the communication manager (IBTA vol 1 chapter 12).
namespace weft::cm {

using verbs::Access;
using verbs::AddressVector;
using verbs::AsyncEventType;
using verbs::Ece;
using verbs::MigrationState;
using verbs::Path;
using verbs::QpAttribute;
using verbs::QpAttributeMask;
using verbs::QpModification;
using verbs::QpState;
using verbs::QpType;

/// Identifies a connection within one manager (R-CM-1). Never reused; 0 means none.
using CmId = Ordered<struct CmIdTag, std::uint64_t>;
inline constexpr CmId kNoCmId{};

/// A port of the host, numbered by the manager's owner.
using PortKey = Ordered<struct PortKeyTag, std::uint32_t>;

/// Connection states, those of the 2004 interface (R-CM-4). The four LAP states are substates of an
/// established connection (`is_established`); they exclude each other, so one variable suffices.
enum class State : std::uint8_t {
  Idle,
  Listen,
  ReqSent,
  ReqRcvd,
  MraReqSent,
  MraReqRcvd,
  RepSent,
  RepRcvd,
  MraRepSent,
  MraRepRcvd,
  Established,
  LapSent,
  LapRcvd,
  MraLapSent,
  MraLapRcvd,
  DreqSent,
  DreqRcvd,
  Timewait,
  SidrReqSent,
  SidrReqRcvd,
};
inline constexpr unsigned kStateCount = 20;

[[nodiscard]] constexpr bool is_established(State state) {
  return state >= State::Established && state <= State::MraLapRcvd;
}

[[nodiscard]] std::string_view name_of(State state);

/// A port with what the CM says of it. Indices in QpAttributes refer to its tables.
struct PortAddress : verbs::PortAttributes {
  PortNumber number{1};
  Guid ca_guid{};
  std::uint8_t ack_delay{};  ///< Local CA ACK Delay of the CA, an exponent
};

}  // namespace weft::cm
