// MADs captured from an independent subnet manager, SA and performance manager
// (tests/golden/management): each is unpacked and packed to the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "wire/ib_packet.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/node_info.h"
#include "wire/mad/path_record.h"
#include "wire/mad/perf_mad.h"
#include "wire/mad/port_counters.h"
#include "wire/mad/port_info.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/sm_info.h"
#include "wire/mad/smp.h"
#include "wire/mad/switch_info.h"
#include "wire/testing/golden_captures.h"

namespace weft::wire {
namespace {

using MadBytes = std::array<std::byte, kMadBytes>;

std::vector<MadBytes> golden_mads() {
  std::vector<MadBytes> mads;
  for (const auto& bytes : golden_management_packets()) {
    const auto packet = parse_ib_packet(bytes, CrcCheck::Verify);
    EXPECT_TRUE(packet.has_value());
    EXPECT_EQ(packet->payload.size(), kMadBytes);
    MadBytes mad{};
    std::copy(packet->payload.begin(), packet->payload.end(), mad.begin());
    mads.push_back(mad);
  }
  return mads;
}

/// Counts packets by name; records those that do not pack to the same bytes.
class Seen {
 public:
  template <WireType T>
  [[nodiscard]] T take(ByteSpan bytes, std::size_t compared = kSizeOf<T>) {
    ++counts[std::string{T::kName}];
    const T value = unpack<T>(bytes.first<kSizeOf<T>>());
    const auto again = pack(value);
    EXPECT_TRUE(std::ranges::equal(std::span{again}.first(compared), bytes.first(compared)))
        << T::kName << " number " << counts[std::string{T::kName}];
    return value;
  }
  std::map<std::string, int> counts;
};

void take_smp_attribute(Seen& seen, MadMethod method, std::uint16_t attribute, ByteSpan data) {
  if (method == MadMethod::Get) {
    return;  // its data says nothing
  }
  switch (static_cast<SmpAttribute>(attribute)) {
    case SmpAttribute::NodeInfo:
      (void)seen.take<NodeInfo>(data);
      break;
    case SmpAttribute::NodeDescription:
      (void)seen.take<NodeDescription>(data);
      break;
    case SmpAttribute::SwitchInfo:
      (void)seen.take<SwitchInfo>(data);
      break;
    case SmpAttribute::PortInfo:
      (void)seen.take<PortInfo>(data);
      break;
    case SmpAttribute::PKeyTable:
      (void)seen.take<PKeyTable>(data);
      break;
    case SmpAttribute::LinearForwardingTable:
      (void)seen.take<LinearForwardingTable>(data);
      break;
    case SmpAttribute::SmInfo:
      (void)seen.take<SmInfo>(data);
      break;
    default:
      ADD_FAILURE() << "attribute " << attribute;
  }
}

/// The simulator that this was captured in passes on the first MAD of a table, without RMPP.
template <WireType Record>
void take_records(Seen& seen, const SaMad& mad, std::size_t most = kSaDataBytes) {
  ASSERT_EQ(mad.sa.attribute_offset, sa_attribute_offset(kSizeOf<Record>));
  const std::size_t step = std::size_t{mad.sa.attribute_offset} * 8;
  for (std::size_t at = 0; at + kSizeOf<Record> <= kSaDataBytes && most != 0; at += step) {
    --most;
    (void)seen.take<Record>(ByteSpan{mad.data}.subspan(at));
  }
}

void take_sa(Seen& seen, ByteSpan bytes) {
  const auto mad = seen.take<SaMad>(bytes);
  if (!is_response(mad.sa.header.method)) {
    return;
  }
  switch (static_cast<SaAttribute>(mad.sa.header.attribute_id)) {
    case SaAttribute::ClassPortInfo:
      (void)seen.take<ClassPortInfo>(mad.data);
      break;
    case SaAttribute::NodeRecord:
      return take_records<NodeRecord>(seen, mad);
    case SaAttribute::PathRecord:
      return take_records<PathRecord>(seen, mad);
    case SaAttribute::McMemberRecord:
      return take_records<McMemberRecord>(seen, mad, 1);  // there was one group
    case SaAttribute::LinkRecord:
      return take_records<LinkRecord>(seen, mad);
    default:
      ADD_FAILURE() << "attribute " << mad.sa.header.attribute_id;
  }
}

TEST(GoldenManagement, ComesBackToTheByte) {
  Seen seen;
  for (const MadBytes& bytes : golden_mads()) {
    const auto header = seen.take<MadHeader>(bytes);
    switch (header.mgmt_class) {
      case ManagementClass::SubnDirectedRoute: {
        const auto smp = seen.take<SmpDirected>(bytes);
        take_smp_attribute(seen, smp.header.method, smp.header.attribute_id, smp.data);
        break;
      }
      case ManagementClass::SubnLidRouted: {
        // One sender left stack contents in the reserved bytes after the data.
        constexpr std::size_t kEndOfData = 128;
        const auto smp = seen.take<SmpLidRouted>(bytes, kEndOfData);
        take_smp_attribute(seen, smp.header.method, smp.header.attribute_id, smp.data);
        break;
      }
      case ManagementClass::SubnAdm:
        take_sa(seen, bytes);
        break;
      case ManagementClass::Perf: {
        const auto mad = seen.take<PerfMad>(bytes);
        if (mad.header.attribute_id == static_cast<std::uint16_t>(PerfAttribute::PortCounters)) {
          (void)seen.take<PortCounters>(mad.data);
        }
        break;
      }
      default:
        ADD_FAILURE() << "class " << static_cast<unsigned>(header.mgmt_class);
    }
  }
  for (const auto name :
       {"NodeInfo", "NodeDescription", "SwitchInfo", "PortInfo", "P_KeyTable",
        "LinearForwardingTable", "SMInfo", "SA MAD", "ClassPortInfo", "NodeRecord", "PathRecord",
        "MCMemberRecord", "LinkRecord", "Performance MAD", "PortCounters"}) {
    EXPECT_NE(seen.counts[name], 0) << name;
  }
}

TEST(GoldenManagement, MeansWhatTheFabricIs) {
  int switches = 0;
  for (const MadBytes& bytes : golden_mads()) {
    const auto smp = unpack<SmpDirected>(bytes);
    if (smp.header.mgmt_class != ManagementClass::SubnDirectedRoute ||
        smp.header.method != MadMethod::GetResp) {
      continue;
    }
    if (smp.header.attribute_id == static_cast<std::uint16_t>(SmpAttribute::NodeInfo)) {
      const auto node = unpack<NodeInfo>(std::span{smp.data}.first<40>());
      EXPECT_TRUE(node.node_type == NodeType::ChannelAdapter || node.node_type == NodeType::Switch);
      EXPECT_EQ(node.base_version, 1);
      switches += node.node_type == NodeType::Switch ? 1 : 0;
    }
    if (smp.header.attribute_id == static_cast<std::uint16_t>(SmpAttribute::PortInfo)) {
      const auto port = unpack<PortInfo>(smp.data);
      EXPECT_TRUE(port.gid_prefix == kDefaultGidPrefix || port.gid_prefix == 0);
      EXPECT_LE(port.port_state, LinkState::Active);
      EXPECT_LE(port.mtu_cap, Mtu::Mtu4096);
    }
  }
  EXPECT_GT(switches, 0);
}

}  // namespace
}  // namespace weft::wire
