#include "ulp/srp/managed_ports.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace weft::srp {
namespace {

constexpr std::uint64_t kPrefix = kDefaultGidPrefix;

[[nodiscard]] wire::PortInfoRecord port(unsigned lid, bool is_managed,
                                        wire::LinkState state = wire::LinkState::Active) {
  wire::PortInfoRecord record{.lid = Lid{lid}};
  record.port_info.gid_prefix = kPrefix;
  record.port_info.port_state = state;
  record.port_info.capability_mask = wire::PortCapability::IsCommunicationManagementSupported;
  if (is_managed) {
    record.port_info.capability_mask |= wire::PortCapability::IsDeviceManagementSupported;
  }
  return record;
}

[[nodiscard]] wire::NodeRecord node(unsigned lid, std::string_view name) {
  wire::NodeRecord record{.lid = Lid{lid}};
  record.node_info.port_guid = Guid{0x100 + lid};
  std::memcpy(record.node_description.text.data(), name.data(), name.size());
  return record;
}

TEST(SrpManagedPorts, AreActiveAndSayThatTheyAnswer) {  // R-SRPI-8
  const std::vector ports{port(7, true),  port(3, true),
                          port(4, false), port(5, true, wire::LinkState::Armed),
                          port(6, true),  // no NodeRecord
                          port(0, true),  port(3, true)};
  const std::vector nodes{node(3, "h1"), node(4, "h2"), node(5, "h3"), node(7, "h4"), node(0, "")};
  EXPECT_EQ(managed_ports(ports, nodes),
            (std::vector<ManagedPort>{
                {.lid = Lid{3}, .gid = Gid{kPrefix, Guid{0x103}}, .node = "h1"},
                {.lid = Lid{7}, .gid = Gid{kPrefix, Guid{0x107}}, .node = "h4"}
  }));
  EXPECT_TRUE(managed_ports({}, nodes).empty());
}

}  // namespace
}  // namespace weft::srp
