#include "host/foreign/xrc_proxies.h"

#include <gtest/gtest.h>

#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

constexpr uabi::ProcessAddress kHome{.node = 0, .slot = 5};
constexpr uabi::ProcessAddress kOther{.node = 0, .slot = 6};
constexpr Qpn kTarget{0x14'0001};

class ProxyQps : public ::testing::Test {
 protected:
  [[nodiscard]] uabi::XrcRelay question(Qpn target = kTarget, bool is_for_reads = false) const {
    uabi::XrcRelay message;
    message.peer = kHome;
    message.domain = domain_.name;
    message.action = uabi::XrcMessage::RequestProxy;
    message.serial = 3;
    message.target = target;
    message.is_for_reads = is_for_reads;
    message.source = Qpn{0x18'0001};
    message.slid = Lid{2};
    message.port = PortNumber{1};
    message.path_mtu = verbs::Mtu::Mtu1024;
    return message;
  }
  uabi::XrcRelay make(const uabi::XrcRelay& message) {
    return proxies_.make(message, 1, 0, domain_);
  }

  testing::FakeObjects objects_;
  hca::XrcDomain& domain_ = **objects_.adapter.open_xrc_domain(9);
  XrcProxies proxies_{objects_, 3};
};

TEST_F(ProxyQps, AreNamedToWhoAsked) {
  const uabi::XrcRelay answer = make(question());
  EXPECT_EQ(answer.action, uabi::XrcMessage::Proxy);
  EXPECT_EQ(answer.peer, kHome);
  EXPECT_EQ(answer.serial, 3U);
  EXPECT_NE(answer.proxy, Qpn{});
  EXPECT_EQ(objects_.proxies, 1);
}

TEST_F(ProxyQps, AreOneForReadsAndOneForAllElseOfATarget) {
  const Qpn first = make(question()).proxy;
  make(question(kTarget, true));
  EXPECT_EQ(proxies_.count(9), 2U);
  EXPECT_NE(make(question()).proxy, first);  // for its newest connection
  EXPECT_EQ(proxies_.count(9), 2U);
  EXPECT_EQ(objects_.destroyed, 1);
}

TEST_F(ProxyQps, AreRefusedBeyondTheirLimit) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(make(question(Qpn{kTarget.value() + i})).action, uabi::XrcMessage::Proxy);
  }
  EXPECT_EQ(make(question(Qpn{kTarget.value() + 3})).action, uabi::XrcMessage::NoProxy);
  EXPECT_EQ(make(question()).action, uabi::XrcMessage::Proxy) << "instead of the one it had";
}

TEST_F(ProxyQps, AreRefusedToWhoSaysWhatNoQpCanBe) {
  uabi::XrcRelay lie = question();
  lie.port = PortNumber{9};
  EXPECT_EQ(make(lie).action, uabi::XrcMessage::NoProxy);
  EXPECT_EQ(proxies_.count(9), 0U);
}

TEST_F(ProxyQps, EndWithTheirTargetTheirHomeOrTheDomain) {
  make(question());
  make(question(Qpn{kTarget.value() + 1}));
  proxies_.end_of_target(9, kOther, kTarget);
  proxies_.end_of_target(8, kHome, kTarget);
  EXPECT_EQ(proxies_.count(9), 2U);
  proxies_.end_of_target(9, kHome, kTarget);
  EXPECT_EQ(proxies_.count(9), 1U);
  proxies_.end_of_process(9, kOther);
  EXPECT_EQ(proxies_.count(9), 1U);
  proxies_.end_of_process(9, kHome);
  EXPECT_EQ(proxies_.count(9), 0U);
  make(question());
  proxies_.end_of_domain(9);
  EXPECT_EQ(proxies_.count(9), 0U);
  EXPECT_EQ(objects_.destroyed, 3);
  EXPECT_EQ(domain_.uses.load(), 0U);
}

}  // namespace
}  // namespace weft::host
