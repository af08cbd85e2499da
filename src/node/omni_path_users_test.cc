#include "node/omni_path_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fabric/testing/omni_path_star.h"
#include "node/fabric.h"
#include "wire/mad/mad.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"

namespace weft::node {
namespace {

using fabric::ExtendedLid;
using fabric::PortIndex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ExtendedLid kGroup{0xF0'0064};
constexpr OmniPathUse kEthernet{.takes_ethernet = true};

/// o1 to o3 on one switch, beside hosts of InfiniBand.
class OmniPathPrograms : public ::testing::Test {
 protected:
  OmniPathPrograms()
      : made_(
            std::move(*Fabric::create(fabric::testing::omni_path_beside_infiniband(), Instant{}))) {
    settle();
  }
  void settle() {
    while (made_->run_management(Instant{})) {
    }
  }
  [[nodiscard]] OmniPathUsers& users() { return made_->management().omni_path_users(); }
  [[nodiscard]] OmniPathManager& manager() { return made_->management().omni_path(); }
  [[nodiscard]] PortIndex port(std::string_view name) const {
    return made_->find_ports(name)->front();
  }
  [[nodiscard]] Lid lid(std::string_view name) const {
    return made_->builder().port(port(name)).lid;
  }
  OmniPathUserId attach(std::string_view name, const OmniPathUse& use = kEthernet) {
    const auto user = users().attach(port(name), use);
    EXPECT_TRUE(user) << user.error().reason;
    return *user;
  }
  [[nodiscard]] std::vector<std::byte> frame(std::string_view from, Lid to,
                                             std::size_t bytes = 60) const {
    return wire::to_opa_packet({.slid = lid(from), .dlid = to, .pkey = kDefaultPKey, .vesw_id = 9},
                               std::vector<std::byte>(bytes, std::byte{7}));
  }
  [[nodiscard]] std::vector<std::byte> mad(std::string_view from, Lid to, wire::MadMethod method,
                                           Qpn qp = kQp1,
                                           wire::ManagementClass kind = wire::kVemaClass) const {
    const auto packed = wire::pack(wire::VemaMad{
        .header = {.base_version = wire::kOpaMadVersion,
                   .mgmt_class = kind,
                   .class_version = wire::kOpaMadVersion,
                   .method = method}
    });
    return wire::to_opa_mad_packet({.slid = lid(from), .dlid = to, .pkey = kDefaultPKey},
                                   {.dest_qp = qp, .source_qp = kQp1}, packed);
  }
  std::vector<std::vector<std::byte>> all_of(OmniPathUserId user) {
    settle();
    std::vector<std::vector<std::byte>> all;
    while (users().next_bytes(user) != 0) {
      const std::size_t bytes = users().next_bytes(user);
      all.push_back(users().take_next(user));
      EXPECT_EQ(all.back().size(), bytes);
    }
    return all;
  }

  std::unique_ptr<Fabric> made_;
};

TEST_F(OmniPathPrograms, GetWhatIsForTheirPortToTheOctetAndInOrder) {
  const OmniPathUserId first = attach("o1:1");
  const OmniPathUserId second = attach("o2:1");
  const auto one = frame("o1:1", lid("o2:1"), 60);
  const auto other = frame("o1:1", lid("o2:1"), 10'238);
  EXPECT_TRUE(users().send(first, one));
  EXPECT_TRUE(users().send(first, other));
  EXPECT_THAT(all_of(second), ElementsAre(one, other));
  EXPECT_THAT(all_of(first), IsEmpty());
}

TEST_F(OmniPathPrograms, AttachToOmniPathPortsOfHostsAlone) {
  EXPECT_THAT(users().attach(port("h1:1"), kEthernet).error().reason,
              HasSubstr("no Omni-Path port"));
  EXPECT_FALSE(users().attach(port("os1:1"), kEthernet));
  EXPECT_FALSE(users().attach(PortIndex{10'000}, kEthernet));
}

TEST_F(OmniPathPrograms, AreTwoAtAPortIfTheyTakeDifferentThings) {
  const OmniPathUserId agent =
      attach("o2:1", {.takes_ethernet = true,
                      .requests = mad::methods({wire::MadMethod::Get, wire::MadMethod::Set})});
  const OmniPathUserId manager =
      attach("o2:1", {.takes_answers = true, .requests = mad::methods({wire::MadMethod::Trap})});
  for (const OmniPathUse& use : {kEthernet, OmniPathUse{.takes_answers = true},
                                 OmniPathUse{.requests = mad::methods({wire::MadMethod::Set})}}) {
    EXPECT_EQ(users().attach(port("o2:1"), use).error().code, ErrorCode::Exists);
  }
  const OmniPathUserId sender = attach("o1:1", {});
  const auto get = mad("o1:1", lid("o2:1"), wire::MadMethod::Get);
  const auto trap = mad("o1:1", lid("o2:1"), wire::MadMethod::Trap);
  const auto answer = mad("o1:1", lid("o2:1"), wire::MadMethod::GetResp);
  for (const auto& packet : {trap, get, answer, frame("o1:1", lid("o2:1"))}) {
    EXPECT_TRUE(users().send(sender, packet));
  }
  EXPECT_THAT(all_of(agent), ElementsAre(get, frame("o1:1", lid("o2:1"))));
  EXPECT_THAT(all_of(manager), ElementsAre(trap, answer));
}

TEST_F(OmniPathPrograms, AreNotGivenWhatNobodyTakes) {
  const OmniPathUserId sender = attach("o1:1");
  const OmniPathUserId agent = attach("o2:1", {.requests = mad::methods({wire::MadMethod::Get})});
  EXPECT_TRUE(users().send(sender, frame("o1:1", lid("o2:1"))));
  EXPECT_TRUE(users().send(sender, mad("o1:1", lid("o2:1"), wire::MadMethod::Set)));
  EXPECT_TRUE(users().send(sender, frame("o1:1", lid("o3:1"))));
  EXPECT_THAT(all_of(agent), IsEmpty());
  EXPECT_EQ(users().counters().nobodys, 3U);
}

TEST_F(OmniPathPrograms, SendNothingThatIsNoPacketOfTheirKinds) {
  const OmniPathUserId sender = attach("o1:1");
  const OmniPathUserId receiver = attach("o2:1", {.requests = ~mad::MethodSet{}});
  auto cut = frame("o1:1", lid("o2:1"));
  cut.pop_back();
  EXPECT_FALSE(users().send(sender, cut));
  EXPECT_FALSE(users().send(sender, {}));
  EXPECT_FALSE(users().send(sender, mad("o1:1", lid("o2:1"), wire::MadMethod::Get, Qpn{2})));
  EXPECT_FALSE(users().send(
      sender, mad("o1:1", lid("o2:1"), wire::MadMethod::Get, kQp1, wire::ManagementClass{0x03})));
  EXPECT_FALSE(users().send(sender, wire::to_opa_16b({.slid = lid("o1:1"),
                                                      .dlid = lid("o2:1"),
                                                      .pkey = kDefaultPKey,
                                                      .l4_type = wire::kOpaL4IbLocal},
                                                     std::vector<std::byte>(64))));
  EXPECT_THAT(all_of(receiver), IsEmpty());
  EXPECT_EQ(users().counters().no_packet, 5U);
}

TEST_F(OmniPathPrograms, DoNotSendInAnothersName) {
  const OmniPathUserId sender = attach("o1:1");
  const OmniPathUserId receiver = attach("o2:1");
  EXPECT_TRUE(users().send(sender, frame("o3:1", lid("o2:1"))));
  EXPECT_THAT(all_of(receiver), IsEmpty());
}

TEST_F(OmniPathPrograms, LoseWhatTheyDoNotTakeAndSeeHowMuch) {
  const OmniPathUserId sender = attach("o1:1");
  const OmniPathUserId receiver = attach("o2:1");
  for (std::size_t count = 0; count < OmniPathUsers::kMaxQueued + 3; ++count) {
    EXPECT_TRUE(users().has_room());
    users().send(sender, frame("o1:1", lid("o2:1")));
    settle();
  }
  EXPECT_EQ(all_of(receiver).size(), OmniPathUsers::kMaxQueued);
  EXPECT_EQ(users().lost(receiver), 3U);
  EXPECT_EQ(users().lost(sender), 0U);
  const auto longest = frame("o1:1", lid("o2:1"), 10'000);
  const std::size_t fit = OmniPathUsers::kMaxQueuedBytes / longest.size();
  for (std::size_t count = 0; count < fit + 2; ++count) {
    users().send(sender, longest);
    settle();
  }
  EXPECT_EQ(all_of(receiver).size(), fit);
  EXPECT_EQ(users().lost(receiver), 5U);
  users().send(sender, longest);
  EXPECT_EQ(all_of(receiver).size(), 1U);
}

TEST_F(OmniPathPrograms, HaveNoRoomWhileMuchIsUnderWay) {
  const OmniPathUserId sender = attach("o1:1");
  for (std::size_t count = 0; count < OmniPathUsers::kEnoughUnderWay; ++count) {
    EXPECT_TRUE(users().has_room());
    users().send(sender, frame("o1:1", lid("o2:1")));
  }
  EXPECT_FALSE(users().has_room());
  settle();
  EXPECT_TRUE(users().has_room());
}

TEST_F(OmniPathPrograms, TakeTheirGroupsAlongWhenTheyEnd) {
  const OmniPathUserId sender = attach("o1:1");
  const OmniPathUserId stays = attach("o2:1");
  OmniPathUserId goes = attach("o3:1");
  for (const OmniPathUserId user : {stays, goes, goes}) {
    ASSERT_TRUE(users().join(user, kGroup));
  }
  EXPECT_FALSE(users().join(stays, ExtendedLid{0xC001}));
  settle();
  const auto flooded = frame("o1:1", Lid{kGroup.value()});
  users().send(sender, flooded);
  EXPECT_THAT(all_of(stays), ElementsAre(flooded));
  EXPECT_THAT(all_of(goes), ElementsAre(flooded));
  users().detach(goes);
  settle();
  goes = attach("o3:1");  // another, which has joined nothing
  users().send(sender, flooded);
  EXPECT_THAT(all_of(stays), ElementsAre(flooded));
  EXPECT_THAT(all_of(goes), IsEmpty());
  users().leave(stays, kGroup);
  users().leave(stays, kGroup);
  users().send(sender, flooded);
  EXPECT_THAT(all_of(stays), IsEmpty());
}

TEST_F(OmniPathPrograms, SetCapabilitiesOfTheirPortUntilTheyEnd) {  // R-VN-12
  constexpr std::uint16_t kEthernetOnFabric = 1U << 13;
  const OmniPathUserId agent = attach("o1:1");
  const OmniPathUserId other = attach("o1:1", {.takes_answers = true});
  const auto mask = [&] { return manager().capabilities(port("o1:1")).mask; };
  EXPECT_EQ(mask(), 0U);
  std::uint64_t before = manager().changes();
  users().set_capabilities(agent, kEthernetOnFabric);
  EXPECT_EQ(mask(), kEthernetOnFabric);
  EXPECT_GT(manager().changes(), before);
  before = manager().changes();
  users().set_capabilities(agent, kEthernetOnFabric);
  EXPECT_EQ(manager().changes(), before);
  users().set_capabilities(other, 1);
  EXPECT_EQ(mask(), kEthernetOnFabric | 1);
  const auto first = manager().capabilities(port("o1:1"));
  users().detach(agent);
  EXPECT_EQ(mask(), 1U);
  users().set_capabilities(attach("o1:1"), kEthernetOnFabric);
  EXPECT_NE(manager().capabilities(port("o1:1")), first) << "it is another program's";
  EXPECT_EQ(manager().capabilities(port("o2:1")), OmniPathManager::Capabilities{});
}

}  // namespace
}  // namespace weft::node
