#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// Global route header (IBTA vol 1 §8.3).
struct Grh {
  static constexpr std::string_view kName = "GRH";

  std::uint8_t ip_version{6};
  std::uint8_t traffic_class{};
  std::uint32_t flow_label{};      // 20 bits
  std::uint16_t payload_length{};  // bytes after the GRH through ICRC
  std::uint8_t next_header{0x1B};
  std::uint8_t hop_limit{};
  Gid sgid;
  Gid dgid;
  bool operator==(const Grh&) const = default;

  // clang-format off
  using Wire = Layout<40,
      Field<"IPVer", 4, &Grh::ip_version>,
      Field<"TClass", 8, &Grh::traffic_class>,
      Field<"FlowLabel", 20, &Grh::flow_label>,
      Field<"PayLen", 16, &Grh::payload_length>,
      Field<"NxtHdr", 8, &Grh::next_header>,
      Field<"HopLmt", 8, &Grh::hop_limit>,
      Octets<"SGID", 16, &Grh::sgid>,
      Octets<"DGID", 16, &Grh::dgid>>;
  // clang-format on
};

}  // namespace weft::wire
