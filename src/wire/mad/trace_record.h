#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/mad/node_info.h"

namespace weft::wire {

/// TraceRecord (IBTA vol 1 §15.2.5.19): one node on a path.
struct TraceRecord {
  static constexpr std::string_view kName = "TraceRecord";

  std::uint64_t gid_prefix{};
  std::uint16_t id_generation{};
  NodeType node_type{};
  std::uint64_t node_id{};
  std::uint64_t chassis_id{};
  std::uint64_t entry_port_id{};
  std::uint64_t exit_port_id{};
  PortNumber entry_port{};
  PortNumber exit_port{};
  bool operator==(const TraceRecord&) const = default;

  // clang-format off
  using Wire = Layout<46,
      Field<"GIDPrefix", 64, &TraceRecord::gid_prefix>,
      Field<"IDGeneration", 16, &TraceRecord::id_generation>,
      Reserved<8>,
      Field<"NodeType", 8, &TraceRecord::node_type>,
      Field<"NodeID", 64, &TraceRecord::node_id>,
      Field<"ChassisID", 64, &TraceRecord::chassis_id>,
      Field<"EntryPortID", 64, &TraceRecord::entry_port_id>,
      Field<"ExitPortID", 64, &TraceRecord::exit_port_id>,
      Field<"EntryPort", 8, &TraceRecord::entry_port>,
      Field<"ExitPort", 8, &TraceRecord::exit_port>>;
  // clang-format on
};

}  // namespace weft::wire
