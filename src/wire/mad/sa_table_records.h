#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/node_info.h"
#include "wire/mad/port_info.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/sm_info.h"
#include "wire/mad/switch_info.h"

/// SA records that contain an SMP attribute, preceded by LID (and port or block) (IBTA vol 1
/// §15.2.5).
namespace weft::wire {

/// IBTA vol 1 §15.2.5.2.
struct NodeRecord {
  static constexpr std::string_view kName = "NodeRecord";

  Lid lid{};
  NodeInfo node_info{};
  NodeDescription node_description{};
  bool operator==(const NodeRecord&) const = default;

  // clang-format off
  using Wire = Layout<108,
      Field<"LID", 16, &NodeRecord::lid>,
      Reserved<16>,
      Nested<&NodeRecord::node_info>,
      Nested<&NodeRecord::node_description>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.3.
struct PortInfoRecord {
  static constexpr std::string_view kName = "PortInfoRecord";

  Lid lid{};
  PortNumber port{};
  std::uint8_t options{};
  PortInfo port_info{};
  bool operator==(const PortInfoRecord&) const = default;

  // clang-format off
  using Wire = Layout<68,
      Field<"LID", 16, &PortInfoRecord::lid>,
      Field<"EndportOrPortNum", 8, &PortInfoRecord::port>,
      Field<"Options", 8, &PortInfoRecord::options>,
      Nested<&PortInfoRecord::port_info>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.4.
struct SlToVlMappingTableRecord {
  static constexpr std::string_view kName = "SLtoVLMappingTableRecord";

  Lid lid{};
  PortNumber input_port{};
  PortNumber output_port{};
  SlToVlMappingTable table{};
  bool operator==(const SlToVlMappingTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"LID", 16, &SlToVlMappingTableRecord::lid>,
      Field<"InputPortNum", 8, &SlToVlMappingTableRecord::input_port>,
      Field<"OutputPortNum", 8, &SlToVlMappingTableRecord::output_port>,
      Reserved<32>,
      Nested<&SlToVlMappingTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.5.
struct SwitchInfoRecord {
  static constexpr std::string_view kName = "SwitchInfoRecord";

  Lid lid{};
  SwitchInfo switch_info{};
  bool operator==(const SwitchInfoRecord&) const = default;

  // clang-format off
  using Wire = Layout<24,
      Field<"LID", 16, &SwitchInfoRecord::lid>,
      Reserved<16>,
      Nested<&SwitchInfoRecord::switch_info>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.6.
struct LinearForwardingTableRecord {
  static constexpr std::string_view kName = "LinearForwardingTableRecord";

  Lid lid{};
  std::uint16_t block{};
  LinearForwardingTable table{};
  bool operator==(const LinearForwardingTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &LinearForwardingTableRecord::lid>,
      Field<"BlockNum", 16, &LinearForwardingTableRecord::block>,
      Reserved<32>,
      Nested<&LinearForwardingTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.7.
struct RandomForwardingTableRecord {
  static constexpr std::string_view kName = "RandomForwardingTableRecord";

  Lid lid{};
  std::uint16_t block{};
  RandomForwardingTable table{};
  bool operator==(const RandomForwardingTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &RandomForwardingTableRecord::lid>,
      Field<"BlockNum", 16, &RandomForwardingTableRecord::block>,
      Reserved<32>,
      Nested<&RandomForwardingTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.8.
struct MulticastForwardingTableRecord {
  static constexpr std::string_view kName = "MulticastForwardingTableRecord";

  Lid lid{};
  std::uint8_t position{};
  std::uint16_t block{};
  MulticastForwardingTable table{};
  bool operator==(const MulticastForwardingTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &MulticastForwardingTableRecord::lid>,
      Field<"Position", 4, &MulticastForwardingTableRecord::position>,
      Reserved<3>,
      Field<"BlockNum", 9, &MulticastForwardingTableRecord::block>,
      Reserved<32>,
      Nested<&MulticastForwardingTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.10.
struct SmInfoRecord {
  static constexpr std::string_view kName = "SMInfoRecord";

  Lid lid{};
  SmInfo sm_info{};
  bool operator==(const SmInfoRecord&) const = default;

  // clang-format off
  using Wire = Layout<25,
      Field<"LID", 16, &SmInfoRecord::lid>,
      Reserved<16>,
      Nested<&SmInfoRecord::sm_info>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.18.
struct GuidInfoRecord {
  static constexpr std::string_view kName = "GUIDInfoRecord";

  Lid lid{};
  std::uint8_t block{};
  GuidInfo guid_info{};
  bool operator==(const GuidInfoRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &GuidInfoRecord::lid>,
      Field<"BlockNum", 8, &GuidInfoRecord::block>,
      Reserved<8>,
      Reserved<32>,
      Nested<&GuidInfoRecord::guid_info>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.11.
struct PKeyTableRecord {
  static constexpr std::string_view kName = "P_KeyTableRecord";

  Lid lid{};
  std::uint16_t block{};
  PortNumber port{};
  PKeyTable table{};
  bool operator==(const PKeyTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &PKeyTableRecord::lid>,
      Field<"BlockNum", 16, &PKeyTableRecord::block>,
      Field<"PortNum", 8, &PKeyTableRecord::port>,
      Reserved<24>,
      Nested<&PKeyTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.9.
struct VlArbitrationTableRecord {
  static constexpr std::string_view kName = "VLArbitrationTableRecord";

  Lid lid{};
  PortNumber output_port{};
  std::uint8_t block{};
  VlArbitrationTable table{};
  bool operator==(const VlArbitrationTableRecord&) const = default;

  // clang-format off
  using Wire = Layout<72,
      Field<"LID", 16, &VlArbitrationTableRecord::lid>,
      Field<"OutputPortNum", 8, &VlArbitrationTableRecord::output_port>,
      Field<"BlockNum", 8, &VlArbitrationTableRecord::block>,
      Reserved<32>,
      Nested<&VlArbitrationTableRecord::table>>;
  // clang-format on
};

/// IBTA vol 1 §15.2.5.13.
struct LinkRecord {
  static constexpr std::string_view kName = "LinkRecord";

  Lid from_lid{};
  PortNumber from_port{};
  PortNumber to_port{};
  Lid to_lid{};
  bool operator==(const LinkRecord&) const = default;

  // clang-format off
  using Wire = Layout<6,
      Field<"FromLID", 16, &LinkRecord::from_lid>,
      Field<"FromPort", 8, &LinkRecord::from_port>,
      Field<"ToPort", 8, &LinkRecord::to_port>,
      Field<"ToLID", 16, &LinkRecord::to_lid>>;
  // clang-format on
};

}  // namespace weft::wire
