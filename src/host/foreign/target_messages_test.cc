#include "host/foreign/target_messages.h"

#include <gtest/gtest.h>

namespace weft::host {
namespace {

TEST(TargetMessages, KeepAttributesAsTheyWere) {
  hca::QpAttributes to;
  to.state = hca::QpState::Rtr;
  to.path_mtu = wire::Mtu::Mtu2048;
  to.dest_qpn = Qpn{0x1234};
  to.rq_psn = Psn{0xABCDEF};
  to.address.dlid = Lid{7};
  to.address.port = PortNumber{1};
  to.alternate_address.dlid = Lid{8};
  to.min_rnr_timer = 12;
  const auto back = from_words(to_words(to, 5), static_cast<std::uint8_t>(hca::QpState::Init));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->state, hca::QpState::Rtr);
  EXPECT_EQ(back->current_state, hca::QpState::Init);
  EXPECT_EQ(back->path_mtu, wire::Mtu::Mtu2048);
  EXPECT_EQ(back->dest_qpn, Qpn{0x1234});
  EXPECT_EQ(back->rq_psn, Psn{0xABCDEF});
  EXPECT_EQ(back->address.dlid, Lid{7});
  EXPECT_EQ(back->alternate_address.dlid, Lid{8});
  EXPECT_EQ(back->min_rnr_timer, 12U);
}

TEST(TargetMessages, RefuseValuesThatDoNotExist) {
  const uabi::RdmaCmQpAttributes good = to_words({}, 0);
  ASSERT_TRUE(from_words(good, 0));
  EXPECT_FALSE(from_words(good, 200)) << "the current state";
  const auto is_refused = [&](auto change) {
    uabi::RdmaCmQpAttributes bad = good;
    change(bad);
    return !from_words(bad, 0);
  };
  EXPECT_TRUE(is_refused([](auto& bad) { bad.state = 100; }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.path_mtu = 0; }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.path_mtu = 6; }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.path_mig_state = 9; }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.timeout = 32; }));
  EXPECT_TRUE(is_refused([](auto& bad) { bad.rq_psn = 0x100'0000; }));
}

}  // namespace
}  // namespace weft::host
