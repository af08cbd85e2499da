#pragma once

#include <cstdint>
#include <string_view>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/selector.h"

namespace weft::wire {

/// JoinState of MCMemberRecord (IBTA vol 1 §15.2.5.17).
enum class JoinState : std::uint8_t {
  FullMember = 1U << 0,
  NonMember = 1U << 1,
  SendOnlyNonMember = 1U << 2,
  SendOnlyFullMember = 1U << 3,
};

/// MCMemberRecord (IBTA vol 1 §15.2.5.17).
struct McMemberRecord {
  static constexpr std::string_view kName = "MCMemberRecord";

  Gid mgid{};
  Gid port_gid{};
  QKey qkey{};
  Lid mlid{};
  Selector mtu_selector{};
  std::uint8_t mtu{};
  std::uint8_t tclass{};
  PKey pkey{};
  Selector rate_selector{};
  std::uint8_t rate{};
  Selector packet_life_time_selector{};
  std::uint8_t packet_life_time{};  ///< exponent, as TimeoutExponent
  ServiceLevel sl{};
  std::uint32_t flow_label{};
  std::uint8_t hop_limit{};
  std::uint8_t scope{};
  Flags<JoinState> join_state{};
  bool proxy_join{};
  bool operator==(const McMemberRecord&) const = default;

  // clang-format off
  using Wire = Layout<52,
      Octets<"MGID", 16, &McMemberRecord::mgid>,
      Octets<"PortGID", 16, &McMemberRecord::port_gid>,
      Field<"Q_Key", 32, &McMemberRecord::qkey>,
      Field<"MLID", 16, &McMemberRecord::mlid>,
      Field<"MtuSelector", 2, &McMemberRecord::mtu_selector>,
      Field<"Mtu", 6, &McMemberRecord::mtu>,
      Field<"TClass", 8, &McMemberRecord::tclass>,
      Field<"P_Key", 16, &McMemberRecord::pkey>,
      Field<"RateSelector", 2, &McMemberRecord::rate_selector>,
      Field<"Rate", 6, &McMemberRecord::rate>,
      Field<"PacketLifeTimeSelector", 2, &McMemberRecord::packet_life_time_selector>,
      Field<"PacketLifeTime", 6, &McMemberRecord::packet_life_time>,
      Field<"SL", 4, &McMemberRecord::sl>,
      Field<"FlowLabel", 20, &McMemberRecord::flow_label>,
      Field<"HopLimit", 8, &McMemberRecord::hop_limit>,
      Field<"Scope", 4, &McMemberRecord::scope>,
      Field<"JoinState", 4, &McMemberRecord::join_state>,
      Field<"ProxyJoin", 1, &McMemberRecord::proxy_join>,
      Reserved<23>>;
  // clang-format on
};

}  // namespace weft::wire
