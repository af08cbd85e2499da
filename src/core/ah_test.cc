#include "core/ah.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "core/testing/engine_pair.h"
#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using testing::FakeDriver;

constexpr PortNumber kPort{1};
constexpr Gid kOwn{kDefaultGidPrefix, Guid{1}};
constexpr Gid kPeer{kDefaultGidPrefix, Guid{2}};

class AhTest : public ::testing::Test {
 protected:
  AhTest() {
    driver_.gids = {kOwn};
    if (!driver_.register_as("X")) {
      ADD_FAILURE() << "the device is not registered";
    }
    pd_ = *allocate_pd(driver_.device());
  }
  ~AhTest() override {
    EXPECT_TRUE(deallocate_pd(*pd_));
    registry_.unregister_device(driver_.device());
  }

  [[nodiscard]] std::uint32_t references() {
    return driver_.device().cache(kPort).gid_at(0).value()->references() - 1;
  }
  [[nodiscard]] static AhAttributes local() {
    AhAttributes attributes;
    attributes.address.port = kPort;
    attributes.address.dlid = Lid{7};
    return attributes;
  }
  [[nodiscard]] AhAttributes global() {
    AhAttributes attributes = local();
    move_grh_sgid(attributes, kPeer, {.flow_label = 3, .hop_limit = 4, .traffic_class = 5},
                  driver_.device().cache(kPort).gid_at(0).value());
    return attributes;
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  FakeDriver driver_{registry_};
  Pd* pd_{};
};

// T-AH-1: the kernel's calls are this type's copy, assignments and reset. That the removal of a GID
// waits for the last reference is shown of RoCE's table, whose entries the core adds and removes.
TEST_F(AhTest, AttributesHoldTheirSourceGidExactlyAsLongAsTheyHaveIt) {
  ASSERT_EQ(references(), 1U);  // the table's
  AhAttributes first = global();
  EXPECT_EQ(first.address.grh.dgid, kPeer);
  EXPECT_EQ(first.address.grh.flow_label, 3U);
  EXPECT_EQ(first.address.grh.hop_limit, 4);
  EXPECT_EQ(first.address.grh.traffic_class, 5);
  EXPECT_EQ(references(), 2U);
  AhAttributes copy{first};  // rdma_copy_ah_attr
  EXPECT_EQ(references(), 3U);
  AhAttributes replaced = global();
  EXPECT_EQ(references(), 4U);
  replaced = copy;  // rdma_replace_ah_attr: one given up, one taken
  EXPECT_EQ(references(), 4U);
  AhAttributes moved = global();
  EXPECT_EQ(references(), 5U);
  moved = std::move(copy);  // rdma_move_ah_attr: one given up, none taken
  EXPECT_EQ(references(), 4U);
  EXPECT_FALSE(copy.sgid);  // NOLINT(bugprone-use-after-move): it has no reference any more
  for (AhAttributes* const each : {&first, &copy, &replaced, &moved}) {
    each->reset();  // rdma_destroy_ah_attr
    each->reset();
  }
  EXPECT_EQ(references(), 1U);

  FakeDriver roce{registry_, PortCapabilities{PortCapability::ProtocolRoceUdp}};
  ASSERT_TRUE(roce.register_as("roce"));
  PortCache& cache = roce.device().cache(kPort);
  ASSERT_TRUE(cache.add_gid(kOwn, GidType::RoceV2, {}));
  AhAttributes holder;
  move_grh_sgid(holder, kPeer, {}, cache.gid_at(0).value());
  ASSERT_TRUE(cache.remove_gid(kOwn, GidType::RoceV2, nullptr));
  EXPECT_TRUE(roce.removed_gids.empty());
  holder.reset();
  EXPECT_EQ(roce.removed_gids.size(), 1U);
  registry_.unregister_device(roce.device());
}

// T-AH-2, of the core's own check; the engine has it besides.
TEST_F(AhTest, IsRefusedWithAWrongPortGidIndexOrRate) {
  const auto code_of = [&](const AhAttributes& attributes) {
    const auto made = create_ah(*pd_, attributes);
    return made ? std::optional<ErrorCode>{} : made.error().code;
  };
  AhAttributes attributes = local();
  attributes.address.port = PortNumber{0};
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes.address.port = PortNumber{3};
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes = local();
  attributes.address.static_rate = 1;
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes.address.static_rate = 24;
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes = local();
  attributes.address.is_global = true;
  attributes.address.grh.sgid_index = 4;  // beyond the table
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes.address.grh.sgid_index = 1;  // an empty entry
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  attributes = global();
  attributes.address.port = PortNumber{2};  // the GID that it holds is port 1's
  EXPECT_EQ(code_of(attributes), ErrorCode::InvalidArgument);
  EXPECT_EQ(pd_->uses(), 0U);
}

TEST_F(AhTest, HoldsItsPdAndItsSourceGid) {
  AhAttributes attributes = local();
  attributes.address.is_global = true;  // the index says which GID
  attributes.address.grh.dgid = kPeer;
  const auto ah = create_ah(*pd_, attributes);
  ASSERT_TRUE(ah);
  EXPECT_EQ((*ah)->sgid()->gid(), kOwn);
  EXPECT_EQ(references(), 2U);
  EXPECT_EQ(deallocate_pd(*pd_).error().code, ErrorCode::Busy);
  EXPECT_EQ(modify_ah(**ah, local()).error().code, ErrorCode::NotSupported);
  EXPECT_EQ(query_ah(**ah).error().code, ErrorCode::NotSupported);
  ASSERT_TRUE(destroy_ah(**ah));
  EXPECT_EQ(references(), 1U);
}

TEST_F(AhTest, LeadsBackToTheSenderOfADatagram) {
  Wc wc;
  wc.slid = Lid{9};
  wc.sl = ServiceLevel{3};
  wc.dlid_path_bits = 1;
  const auto plain = ah_attributes_from_wc(driver_.device(), kPort, wc, nullptr);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->address.dlid, Lid{9});
  EXPECT_EQ(plain->address.sl, ServiceLevel{3});
  EXPECT_EQ(plain->address.source_path_bits, 1);
  EXPECT_FALSE(plain->address.is_global);
  wc.flags = verbs::Completion::Grh;
  EXPECT_FALSE(ah_attributes_from_wc(driver_.device(), kPort, wc, nullptr));
  wire::Grh grh;
  grh.sgid = kPeer;
  grh.dgid = kOwn;
  grh.traffic_class = 8;
  grh.flow_label = 77;
  {
    const auto with_grh = ah_attributes_from_wc(driver_.device(), kPort, wc, &grh);
    ASSERT_TRUE(with_grh);
    EXPECT_TRUE(with_grh->address.is_global);
    EXPECT_EQ(with_grh->address.grh.dgid, kPeer);
    EXPECT_EQ(with_grh->address.grh.flow_label, 77U);
    EXPECT_EQ(with_grh->address.grh.traffic_class, 8);
    EXPECT_EQ(with_grh->sgid->gid(), kOwn);
  }
  grh.dgid = kPeer;  // not ours
  EXPECT_EQ(ah_attributes_from_wc(driver_.device(), kPort, wc, &grh).error().code,
            ErrorCode::NotFound);
  const auto ah = create_ah_from_wc(*pd_, Wc{}, nullptr, kPort);
  ASSERT_TRUE(ah);
  ASSERT_TRUE(destroy_ah(**ah));
}

TEST_F(AhTest, OfAProgramOnEthernetNeedsAMacAddress) {
  static bool resolves = false;
  static NetDevice::MacAddress used;
  resolves = false;
  const PortCapabilities roce =
      PortCapabilities{PortCapability::ProtocolRoceUdp} | PortCapability::EthernetAddressHandles;
  FakeDriver driver{registry_, roce, [](DeviceInit& init) {
                      init.operations.resolve_mac = [](Device&, const AhAttributes&) {
                        return resolves ? Result<NetDevice::MacAddress>{NetDevice::MacAddress{
                                              std::byte{2}, std::byte{0xAB}}}
                                        : Result<NetDevice::MacAddress>{
                                              fail(ErrorCode::NoSuchDevice, "no neighbour")};
                      };
                      init.operations.create_ah = [](Ah&, const AhAttributes& attributes, AhFlags,
                                                     UserData*) {
                        used = attributes.destination_mac;
                        return Result<void>{};
                      };
                    }};
  ASSERT_TRUE(driver.register_as("roce"));
  ASSERT_TRUE(driver.device().cache(kPort).add_gid(kOwn, GidType::RoceV2, {}));
  Pd* const pd = *allocate_pd(driver.device());
  EXPECT_EQ(create_user_ah(*pd, local(), nullptr).error().code, ErrorCode::InvalidArgument);
  AhAttributes attributes = local();
  attributes.address.is_global = true;
  attributes.address.grh.dgid = kPeer;
  EXPECT_EQ(create_user_ah(*pd, attributes, nullptr).error().code, ErrorCode::NoSuchDevice);
  resolves = true;
  const auto ah = create_user_ah(*pd, attributes, nullptr);
  ASSERT_TRUE(ah);
  EXPECT_EQ(used[1], std::byte{0xAB});
  ASSERT_TRUE(destroy_ah(**ah));
  ASSERT_TRUE(deallocate_pd(*pd));
  registry_.unregister_device(driver.device());
}

/// Where it comes to, on a wire that goes by the DLID, and what it has there.
TEST(AhOfADatagram, LeadsToTheNodeOfItsDlidWithItsClass) {  // T-AH-3
  using testing::EngineNetwork;
  testing::EnginePair pair{{.type = verbs::QpType::Ud}};
  pair.network.add_host(pair.registry);
  testing::End c;
  testing::open_end(c, pair.network.host(2).device(), {.type = verbs::QpType::Ud});
  testing::connect_end(c, EngineNetwork::lid_of(0), pair.a.qp->number());
  std::vector<EngineNetwork::Flight> flights;
  pair.network.filter = [&](const EngineNetwork::Flight& flight) {
    flights.push_back(flight);
    return true;
  };
  const std::array ends{&pair.b, &c};
  std::array<testing::CountedRequest, 2> receives;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::array into{ends.at(i)->sge(0, 128)};
    ASSERT_TRUE(
        post_recv(*ends.at(i)->qp, {.wr_id = wr_id_of(receives.at(i).handler), .sges = into}));
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    SCOPED_TRACE(i);
    const auto number = static_cast<std::uint8_t>(i);
    AhAttributes attributes;
    attributes.address.port = kPort;
    attributes.address.dlid = EngineNetwork::lid_of(i + 1);
    attributes.address.sl = ServiceLevel{static_cast<std::uint8_t>(3 + number)};
    move_grh_sgid(attributes, Gid{kDefaultGidPrefix, Guid{0x101 + i}},
                  {.flow_label = 0xABCDEU - number,
                   .hop_limit = static_cast<std::uint8_t>(33 + number),
                   .traffic_class = static_cast<std::uint8_t>(0x9C + number)},
                  pair.a.device->cache(kPort).gid_at(0).value());
    Ah* const ah = *create_ah(*pair.a.pd, attributes);
    testing::CountedRequest sent;
    const std::array from{pair.a.sge(0, 8)};
    SendWr wr = testing::signaled(sent, verbs::WrOpcode::Send, from);
    wr.ah = ah;
    wr.remote_qpn = ends.at(i)->qp->number();
    ASSERT_TRUE(post_send(*pair.a.qp, wr));
    pair.environment.advance(Duration::milliseconds(1));
    EXPECT_EQ(sent.status, verbs::WcStatus::Success);
    EXPECT_EQ(receives[0].calls, 1U);
    EXPECT_EQ(receives[1].calls, i) << "this one's alone";
    ASSERT_EQ(flights.size(), i + 1);
    const hca::PacketHeader& header = flights[i].header;
    EXPECT_EQ(header.sl, attributes.address.sl);
    EXPECT_EQ(header.dlid, attributes.address.dlid);
    ASSERT_TRUE(header.has_grh);
    EXPECT_EQ(header.grh.traffic_class, attributes.address.grh.traffic_class);
    EXPECT_EQ(header.grh.flow_label, attributes.address.grh.flow_label);
    EXPECT_EQ(header.grh.hop_limit, attributes.address.grh.hop_limit);
    EXPECT_EQ(header.grh.dgid, attributes.address.grh.dgid);
    ASSERT_TRUE(destroy_ah(*ah));
  }
  for (const testing::CountedRequest& receive : receives) {
    EXPECT_EQ(receive.status, verbs::WcStatus::Success);
    EXPECT_EQ(receive.byte_length, 8U + 40U);
  }
  testing::close_end(c);
}

}  // namespace
}  // namespace weft::core
