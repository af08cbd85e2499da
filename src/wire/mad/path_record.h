#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/selector.h"

namespace weft::wire {

/// PathRecord (IBTA vol 1 §15.2.5.16). The ServiceID consists of two components.
struct PathRecord {
  static constexpr std::string_view kName = "PathRecord";

  std::uint8_t service_id_msb{};
  std::uint64_t service_id_lsb{};
  Gid dgid{};
  Gid sgid{};
  Lid dlid{};
  Lid slid{};
  bool raw_traffic{};
  std::uint32_t flow_label{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  bool reversible{};
  std::uint8_t path_count{};  ///< request: number of paths; response: 0
  PKey pkey{};
  std::uint16_t qos_class{};
  ServiceLevel sl{};
  Selector mtu_selector{};
  std::uint8_t mtu{};
  Selector rate_selector{};
  std::uint8_t rate{};
  Selector packet_life_time_selector{};
  std::uint8_t packet_life_time{};  ///< exponent, as TimeoutExponent
  std::uint8_t preference{};        ///< lower is better
  bool operator==(const PathRecord&) const = default;

  [[nodiscard]] constexpr std::uint64_t service_id() const {
    return std::uint64_t{service_id_msb} << 56 | service_id_lsb;
  }
  constexpr void set_service_id(std::uint64_t service_id) {
    service_id_msb = static_cast<std::uint8_t>(service_id >> 56);
    service_id_lsb = service_id & 0x00FF'FFFF'FFFF'FFFF;
  }

  // clang-format off
  using Wire = Layout<64,
      Field<"ServiceID8MSB", 8, &PathRecord::service_id_msb>,
      Field<"ServiceID56LSB", 56, &PathRecord::service_id_lsb>,
      Octets<"DGID", 16, &PathRecord::dgid>,
      Octets<"SGID", 16, &PathRecord::sgid>,
      Field<"DLID", 16, &PathRecord::dlid>,
      Field<"SLID", 16, &PathRecord::slid>,
      Field<"RawTraffic", 1, &PathRecord::raw_traffic>,
      Reserved<3>,
      Field<"FlowLabel", 20, &PathRecord::flow_label>,
      Field<"HopLimit", 8, &PathRecord::hop_limit>,
      Field<"TClass", 8, &PathRecord::tclass>,
      Field<"Reversible", 1, &PathRecord::reversible>,
      Field<"NumbPath", 7, &PathRecord::path_count>,
      Field<"P_Key", 16, &PathRecord::pkey>,
      Field<"QoSClass", 12, &PathRecord::qos_class>,
      Field<"SL", 4, &PathRecord::sl>,
      Field<"MtuSelector", 2, &PathRecord::mtu_selector>,
      Field<"Mtu", 6, &PathRecord::mtu>,
      Field<"RateSelector", 2, &PathRecord::rate_selector>,
      Field<"Rate", 6, &PathRecord::rate>,
      Field<"PacketLifeTimeSelector", 2, &PathRecord::packet_life_time_selector>,
      Field<"PacketLifeTime", 6, &PathRecord::packet_life_time>,
      Field<"Preference", 8, &PathRecord::preference>,
      Reserved<48>>;
  // clang-format on
};

}  // namespace weft::wire
