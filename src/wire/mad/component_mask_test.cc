#include "wire/mad/component_mask.h"

#include <gtest/gtest.h>

#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/multi_path_record.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/service_record.h"

namespace weft::wire {
namespace {

// The bit numbers below are the specification's tables of components (IBTA vol 1 §15.2.5), and as
// other implementations have them.
static_assert(kComponent<PathRecord, "ServiceID8MSB"> == 1U << 0);
static_assert(kComponent<PathRecord, "ServiceID56LSB"> == 1U << 1);
static_assert(kComponent<PathRecord, "DGID"> == 1U << 2);
static_assert(kComponent<PathRecord, "RawTraffic"> == 1U << 6);
static_assert(kComponent<PathRecord, "FlowLabel"> == 1U << 8);
static_assert(kComponent<PathRecord, "NumbPath"> == 1U << 12);
static_assert(kComponent<PathRecord, "QoSClass"> == 1U << 14);
static_assert(kComponent<PathRecord, "PacketLifeTime"> == 1U << 21);
static_assert(kComponent<PathRecord, "Preference"> == 1U << 22);
static_assert(kComponent<McMemberRecord, "MGID"> == 1U << 0);
static_assert(kComponent<McMemberRecord, "MtuSelector"> == 1U << 4);
static_assert(kComponent<McMemberRecord, "P_Key"> == 1U << 7);
static_assert(kComponent<McMemberRecord, "SL"> == 1U << 12);
static_assert(kComponent<McMemberRecord, "JoinState"> == 1U << 16);
static_assert(kComponent<McMemberRecord, "ProxyJoin"> == 1U << 17);
static_assert(kComponent<MultiPathRecord, "FlowLabel"> == 1U << 2);
static_assert(kComponent<MultiPathRecord, "ServiceID8MSB"> == 1U << 16);
static_assert(kComponent<MultiPathRecord, "DGIDCount"> == 1U << 20);
static_assert(kComponent<MultiPathRecord, "ServiceID56LSB"> == 1U << 21);
static_assert(kComponent<ServiceRecord, "ServiceLease"> == 1U << 4);
static_assert(kComponent<ServiceRecord, "ServiceName"> == 1U << 6);
static_assert(kComponent<ServiceRecord, "ServiceData8"> == 1U << 7);
static_assert(kComponent<ServiceRecord, "ServiceData16"> == 1U << 23);
static_assert(kComponent<ServiceRecord, "ServiceData32"> == std::uint64_t{1} << 31);
static_assert(kComponent<ServiceRecord, "ServiceData64"> == std::uint64_t{1} << 35);
static_assert(kComponent<NodeRecord, "BaseVersion"> == 1U << 2);
static_assert(kComponent<NodeRecord, "NodeGUID"> == 1U << 7);
static_assert(kComponent<NodeRecord, "NodeString"> == 1U << 14);
static_assert(kComponent<PortInfoRecord, "EndportOrPortNum"> == 1U << 1);
static_assert(kComponent<PortInfoRecord, "CapabilityMask"> == 1U << 7);
static_assert(kComponent<PortInfoRecord, "LMC"> == 1U << 20);
static_assert(kComponent<PortInfoRecord, "HOQLife"> == std::uint64_t{1} << 33);
static_assert(kComponent<PortInfoRecord, "ClientReregister"> == std::uint64_t{1} << 43);
static_assert(kComponent<PortInfoRecord, "RespTimeValue"> == std::uint64_t{1} << 47);
static_assert(kComponent<PortInfoRecord, "LinkRoundTripLatency"> == std::uint64_t{1} << 52);
static_assert(kComponent<PortInfoRecord, "CapabilityMask2"> == std::uint64_t{1} << 53);
static_assert(kComponent<PortInfoRecord, "LinkSpeedExtEnabled"> == std::uint64_t{1} << 57);
static_assert(kComponent<MulticastForwardingTableRecord, "Position"> == 1U << 1);
static_assert(kComponent<MulticastForwardingTableRecord, "BlockNum"> == 1U << 3);
static_assert(kComponent<GuidInfoRecord, "GUID"> == 1U << 4);
static_assert(kComponent<PKeyTableRecord, "PortNum"> == 1U << 2);
static_assert(kComponent<SmInfoRecord, "GUID"> == 1U << 2);
static_assert(kComponent<SmInfoRecord, "SMState"> == 1U << 6);
static_assert(kComponent<LinkRecord, "ToLID"> == 1U << 3);
static_assert(kComponent<InformInfoRecord, "Enum"> == 1U << 1);
static_assert(kComponent<InformInfoRecord, "TrapNumber"> == 1U << 10);
static_assert(kComponent<InformInfoRecord, "RespTimeValue"> == 1U << 13);
static_assert(kComponent<InformInfoRecord, "ProducerType"> == 1U << 15);
static_assert(all_components<PathRecord>() == 0xFF'FFFF);
static_assert(component_at<PathRecord>(7)->name.empty());  // reserved
static_assert(component_at<PathRecord>(13)->name == "P_Key");
static_assert(component_at<PathRecord>(13)->first_bit == 50 * 8);
static_assert(!component_at<PathRecord>(24));

TEST(ComponentMask, ComparesOnlyWhatItNames) {
  PathRecord wanted{.service_id_msb = 0, .dlid = Lid{5}, .slid = Lid{9}, .sl = ServiceLevel{3}};
  PathRecord record = wanted;
  record.slid = Lid{8};
  EXPECT_TRUE(components_match(wanted, record, kComponent<PathRecord, "DLID">));
  EXPECT_FALSE(components_match(wanted, record, kComponent<PathRecord, "SLID">));
  EXPECT_FALSE(components_match(wanted, record, all_components<PathRecord>()));
  record.slid = wanted.slid;
  EXPECT_TRUE(components_match(wanted, record, all_components<PathRecord>()));
}

TEST(ComponentMask, ComparesAllBytesOfWideComponents) {
  PathRecord wanted;
  wanted.dgid = Gid{kDefaultGidPrefix, Guid{7}};
  PathRecord record = wanted;
  record.dgid = Gid{kDefaultGidPrefix, Guid{8}};
  EXPECT_FALSE(components_match(wanted, record, kComponent<PathRecord, "DGID">));
  EXPECT_TRUE(components_match(wanted, record, kComponent<PathRecord, "SGID">));
}

TEST(ComponentMask, SaysNothingByBitsOfNoComponent) {
  const PathRecord wanted{.preference = 1};
  const PathRecord record;
  EXPECT_TRUE(components_match(wanted, record, ~all_components<PathRecord>()));
  EXPECT_TRUE(components_match(wanted, record, std::uint64_t{1} << 7));
}

}  // namespace
}  // namespace weft::wire
