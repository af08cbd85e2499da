#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/selector.h"

namespace weft::wire {

/// MultiPathRecord (IBTA vol 1 §15.2.5.20), the request of GetMulti; followed by SGIDCount source
/// and DGIDCount destination GIDs.
struct MultiPathRecord {
  static constexpr std::string_view kName = "MultiPathRecord";

  bool raw_traffic{};
  std::uint32_t flow_label{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  bool reversible{};
  std::uint8_t path_count{};
  PKey pkey{};
  std::uint16_t qos_class{};
  ServiceLevel sl{};
  Selector mtu_selector{};
  std::uint8_t mtu{};
  Selector rate_selector{};
  std::uint8_t rate{};
  Selector packet_life_time_selector{};
  std::uint8_t packet_life_time{};  ///< exponent, as TimeoutExponent
  std::uint8_t service_id_msb{};
  std::uint8_t independence_selector{};  ///< 1: paths that share as few components as possible
  std::uint8_t sgid_count{};
  std::uint8_t dgid_count{};
  std::uint64_t service_id_lsb{};
  bool operator==(const MultiPathRecord&) const = default;

  [[nodiscard]] constexpr std::uint64_t service_id() const {
    return std::uint64_t{service_id_msb} << 56 | service_id_lsb;
  }
  constexpr void set_service_id(std::uint64_t service_id) {
    service_id_msb = static_cast<std::uint8_t>(service_id >> 56);
    service_id_lsb = service_id & 0x00FF'FFFF'FFFF'FFFF;
  }

  // clang-format off
  using Wire = Layout<24,
      Field<"RawTraffic", 1, &MultiPathRecord::raw_traffic>,
      Reserved<3>,
      Field<"FlowLabel", 20, &MultiPathRecord::flow_label>,
      Field<"HopLimit", 8, &MultiPathRecord::hop_limit>,
      Field<"TClass", 8, &MultiPathRecord::tclass>,
      Field<"Reversible", 1, &MultiPathRecord::reversible>,
      Field<"NumbPath", 7, &MultiPathRecord::path_count>,
      Field<"P_Key", 16, &MultiPathRecord::pkey>,
      Field<"QoSClass", 12, &MultiPathRecord::qos_class>,
      Field<"SL", 4, &MultiPathRecord::sl>,
      Field<"MtuSelector", 2, &MultiPathRecord::mtu_selector>,
      Field<"Mtu", 6, &MultiPathRecord::mtu>,
      Field<"RateSelector", 2, &MultiPathRecord::rate_selector>,
      Field<"Rate", 6, &MultiPathRecord::rate>,
      Field<"PacketLifeTimeSelector", 2, &MultiPathRecord::packet_life_time_selector>,
      Field<"PacketLifeTime", 6, &MultiPathRecord::packet_life_time>,
      Field<"ServiceID8MSB", 8, &MultiPathRecord::service_id_msb>,
      Field<"IndependenceSelector", 2, &MultiPathRecord::independence_selector>,
      Reserved<6>,
      Field<"SGIDCount", 8, &MultiPathRecord::sgid_count>,
      Field<"DGIDCount", 8, &MultiPathRecord::dgid_count>,
      Field<"ServiceID56LSB", 56, &MultiPathRecord::service_id_lsb>>;
  // clang-format on
};

}  // namespace weft::wire
