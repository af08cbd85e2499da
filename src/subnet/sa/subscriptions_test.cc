#include "subnet/sa/subscriptions.h"

#include <gtest/gtest.h>

namespace weft::subnet {
namespace {

constexpr wire::InformInfo kEverything{.lid_range_begin = kPermissiveLid,
                                       .is_generic = 1,
                                       .subscribe = 1,
                                       .type = 0xFFFF,
                                       .trap_number = 0xFFFF,
                                       .producer_type = 0xFF'FFFF};

[[nodiscard]] wire::SaNotice link_state(Lid issuer) {
  return {
      .notice = {.type = wire::NoticeType::Urgent,
                 .producer_type = 2,
                 .trap_number = 128,
                 .issuer_lid = issuer},
      .issuer_gid = Gid{kDefaultGidPrefix, Guid{issuer.value()}}
  };
}

TEST(SaSubscriptions, WantWhatEveryComponentAllows) {  // §13.4.8.3
  const wire::SaNotice notice = link_state(Lid{7});
  EXPECT_TRUE(matches_notice(kEverything, notice));
  const auto with = [&](auto&& change) {
    wire::InformInfo info = kEverything;
    change(info);
    return matches_notice(info, notice);
  };
  EXPECT_FALSE(with([](auto& info) { info.is_generic = 0; }));
  EXPECT_TRUE(with([](auto& info) { info.type = 1; }));
  EXPECT_FALSE(with([](auto& info) { info.type = 3; }));
  EXPECT_TRUE(with([](auto& info) { info.trap_number = 128; }));
  EXPECT_FALSE(with([](auto& info) { info.trap_number = 129; }));
  EXPECT_TRUE(with([](auto& info) { info.producer_type = 2; }));
  EXPECT_FALSE(with([](auto& info) { info.producer_type = 1; }));
}

TEST(SaSubscriptions, WantIssuersByGidOrByLidRange) {
  const auto from = [](Lid begin, Lid end, Gid gid = {}) {
    wire::InformInfo info = kEverything;
    info.lid_range_begin = begin;
    info.lid_range_end = end;
    info.gid = gid;
    return matches_notice(info, link_state(Lid{7}));
  };
  EXPECT_TRUE(from(Lid{5}, Lid{7}));
  EXPECT_TRUE(from(Lid{7}, Lid{9}));
  EXPECT_FALSE(from(Lid{8}, Lid{9}));
  EXPECT_FALSE(from(Lid{1}, Lid{6}));
  EXPECT_TRUE(from(Lid{7}, Lid{}));
  EXPECT_FALSE(from(Lid{6}, Lid{}));
  const Gid issuer{kDefaultGidPrefix, Guid{7}};
  EXPECT_TRUE(from(Lid{1}, Lid{1}, issuer)) << "with a GID the range says nothing";
  EXPECT_FALSE(from(Lid{5}, Lid{9}, Gid{kDefaultGidPrefix, Guid{8}}));
}

TEST(SaSubscriptions, AreFoundByWhoAndWhat) {
  Subscriptions subscriptions{{}};
  Subscription one{.wanted = kEverything, .port = Guid{1}};
  const SubscriptionId id = subscriptions.add(one);
  EXPECT_EQ(subscriptions.find(one), id);
  Subscription other = one;
  other.wanted.subscribe = 0;
  other.wanted.resp_time_value = 9;
  EXPECT_EQ(subscriptions.find(other), id);
  other.wanted.trap_number = 64;
  EXPECT_FALSE(subscriptions.find(other));
  other = one;
  other.port = Guid{2};
  EXPECT_FALSE(subscriptions.find(other));
  other = one;
  other.report_to.qp = Qpn{77};
  EXPECT_FALSE(subscriptions.find(other));
}

TEST(SaSubscriptions, HaveLimitsAndGoWithTheirPort) {
  Subscriptions subscriptions{
      {.subscriptions = 3, .subscriptions_of_port = 2}
  };
  Subscription one{.wanted = kEverything, .port = Guid{1}};
  const SubscriptionId first = subscriptions.add(one);
  one.wanted.trap_number = 64;
  subscriptions.add(one);
  EXPECT_FALSE(subscriptions.has_room_for(Guid{1}));
  EXPECT_TRUE(subscriptions.has_room_for(Guid{2}));
  subscriptions.remove(first);
  subscriptions.remove(first);
  EXPECT_TRUE(subscriptions.has_room_for(Guid{1}));
  EXPECT_EQ(subscriptions.find(first), nullptr);
  one.port = Guid{2};
  subscriptions.add(one);
  subscriptions.remove_port(Guid{1});
  EXPECT_EQ(subscriptions.all().size(), 1U);
  EXPECT_EQ(subscriptions.count_of(Guid{1}), 0U);
}

}  // namespace
}  // namespace weft::subnet
