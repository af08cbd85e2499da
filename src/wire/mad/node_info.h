#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// NodeType (IBTA vol 1 §14.2.5.3).
enum class NodeType : std::uint8_t { ChannelAdapter = 1, Switch = 2, Router = 3 };

/// NodeInfo (IBTA vol 1 §14.2.5.3) of a node, as reported through one of its ports.
struct NodeInfo {
  static constexpr std::string_view kName = "NodeInfo";

  std::uint8_t base_version{1};
  std::uint8_t class_version{1};
  NodeType node_type{NodeType::ChannelAdapter};
  std::uint8_t port_count{};  ///< physical ports, not counting port 0 of a switch
  Guid system_image_guid{};
  Guid node_guid{};
  Guid port_guid{};               ///< for a switch, its NodeGUID
  std::uint16_t partition_cap{};  ///< entries of each port's P_Key table
  std::uint16_t device_id{};
  std::uint32_t revision{};
  PortNumber local_port{};  ///< port at which the SMP arrived
  std::uint32_t vendor_id{};
  bool operator==(const NodeInfo&) const = default;

  // clang-format off
  using Wire = Layout<40,
      Field<"BaseVersion", 8, &NodeInfo::base_version>,
      Field<"ClassVersion", 8, &NodeInfo::class_version>,
      Field<"NodeType", 8, &NodeInfo::node_type>,
      Field<"NumPorts", 8, &NodeInfo::port_count>,
      Field<"SystemImageGUID", 64, &NodeInfo::system_image_guid>,
      Field<"NodeGUID", 64, &NodeInfo::node_guid>,
      Field<"PortGUID", 64, &NodeInfo::port_guid>,
      Field<"PartitionCap", 16, &NodeInfo::partition_cap>,
      Field<"DeviceID", 16, &NodeInfo::device_id>,
      Field<"Revision", 32, &NodeInfo::revision>,
      Field<"LocalPortNum", 8, &NodeInfo::local_port>,
      Field<"VendorID", 24, &NodeInfo::vendor_id>>;
  // clang-format on
};

/// NodeDescription (IBTA vol 1 §14.2.5.2): UTF-8, zero-padded.
struct NodeDescription {
  static constexpr std::string_view kName = "NodeDescription";

  std::array<std::byte, 64> text{};
  bool operator==(const NodeDescription&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Octets<"NodeString", 64, &NodeDescription::text>>;
  // clang-format on
};

}  // namespace weft::wire
