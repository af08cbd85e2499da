#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "base/time.h"
#include "wire/encodings.h"

/// The vocabulary of the communication manager (IBTA vol 1 chapter 12).
namespace weft::cm {

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

/// Types of QPs that are connected, or resolved; numbers of the verbs API.
enum class QpType : std::uint8_t { Rc = 2, Uc = 3, Ud = 4, XrcInitiator = 9, XrcTarget = 10 };

/// Numbers of the verbs API.
enum class QpState : std::uint8_t { Reset, Init, Rtr, Rts };

/// A path between two ports, as seen from this side: `sgid` and `slid` are its own.
struct Path {
  Gid sgid{};
  Gid dgid{};
  Lid slid{};
  Lid dlid{};
  ServiceLevel sl{};
  PKey pkey{kDefaultPKey};
  wire::Mtu mtu{wire::Mtu::Mtu2048};
  std::uint8_t rate{};              ///< a PathRecord's code, 0 the port's own
  std::uint8_t packet_life_time{};  ///< exponent, as TimeoutExponent
  std::uint8_t traffic_class{};
  std::uint8_t hop_limit{};
  std::uint32_t flow_label{};
  bool is_reversible{true};
  friend bool operator==(const Path&, const Path&) = default;

  /// Packets need a GRH: the other side is behind a router, as SA says it by a hop limit above 1.
  [[nodiscard]] constexpr bool is_global() const { return hop_limit > 1; }
  /// As the other side sees it.
  [[nodiscard]] Path reversed() const;
};

/// A port's addresses and attributes. Indices in QpAttributes refer to these tables.
struct PortAddress {
  PortNumber number{1};
  Lid lid{};
  std::uint8_t lmc{};
  std::vector<Gid> gids{};
  std::vector<PKey> pkeys{};
  Guid ca_guid{};
  wire::Mtu mtu{wire::Mtu::Mtu4096};  ///< active MTU
  std::uint8_t ack_delay{};           ///< Local CA ACK Delay of the CA, an exponent
};

/// Enhanced connection establishment (ECE): vendor options beside a REQ, REP or SIDR_REP.
struct Ece {
  std::uint32_t vendor_id{};  ///< 24 bits, also in a SIDR_REP; 0 means no options
  std::uint32_t options{};
  friend constexpr bool operator==(const Ece&, const Ece&) = default;
};

}  // namespace weft::cm
