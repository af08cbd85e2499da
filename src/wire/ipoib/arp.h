#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/ipoib/hardware_address.h"
#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint16_t kArpHardwareInfiniBand = 32;

enum class ArpOperation : std::uint16_t { Request = 1, Reply = 2 };

/// ARP over IPoIB (RFC 826, RFC 4391 §9.2).
struct IpoibArp {
  static constexpr std::string_view kName = "ARP";

  std::uint16_t hardware_type{kArpHardwareInfiniBand};
  std::uint16_t protocol_type{0x0800};
  std::uint8_t hardware_bytes{20};
  std::uint8_t protocol_bytes{4};
  ArpOperation operation{};
  IpoibHardwareAddress sender_hardware{};
  std::array<std::byte, 4> sender_protocol{};
  IpoibHardwareAddress target_hardware{};  ///< zero in a request
  std::array<std::byte, 4> target_protocol{};
  bool operator==(const IpoibArp&) const = default;

  // clang-format off
  using Wire = Layout<56,
      Field<"HardwareType", 16, &IpoibArp::hardware_type>,
      Field<"ProtocolType", 16, &IpoibArp::protocol_type>,
      Field<"HardwareLength", 8, &IpoibArp::hardware_bytes>,
      Field<"ProtocolLength", 8, &IpoibArp::protocol_bytes>,
      Field<"Operation", 16, &IpoibArp::operation>,
      Nested<&IpoibArp::sender_hardware>,
      Octets<"SenderProtocolAddress", 4, &IpoibArp::sender_protocol>,
      Nested<&IpoibArp::target_hardware>,
      Octets<"TargetProtocolAddress", 4, &IpoibArp::target_protocol>>;
  // clang-format on
};

}  // namespace weft::wire
