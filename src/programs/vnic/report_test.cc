#include "programs/vnic/report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::programs::vnic {
namespace {

std::vector<VnicView> one_vnic() {
  return {
      {.name = "opa0",
       .is_up = true,
       .mtu = 1500,
       .mac = wire::MacAddress::from_number(0x0011'7506'4001),
       .fabric_id = 0,
       .vesw_id = 100,
       .summary = {.tx_errors = 3, .tx_packets = 7},
       .errors = {.tx_errors = 3, .tx_dlid_zero = 3},
       .not_for_us = 2,
       .lost = 1}
  };
}

TEST(VnicReport, SaysWhatCountsInText) {
  const auto text = show_vnics({.lid = Lid{5}, .is_announced = true, .counters = {.tx_no_peer = 4}},
                               one_vnic(), false);
  EXPECT_TRUE(text.starts_with("port with LID 5, announced\n")) << text;
  EXPECT_NE(text.find("opa0: up, mtu 1500, link address 00:11:75:06:40:01, virtual switch 100\n"),
            std::string::npos);
  for (const char* const name :
       {"port_tx_no_peer", "tx_packets", "tx_dlid_zero", "rx_not_for_us"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(text.find("rx_runt"), std::string::npos) << "what has not happened is left out";
}

TEST(VnicReport, HasEveryCounterInJson) {
  const auto text = show_vnics({.lid = Lid{5}}, one_vnic(), true);
  EXPECT_TRUE(text.starts_with(R"({"link": "infiniband", "lid": 5, "announced": false, )"
                               R"("mad_qp": 0, "packet_qp": 0, "interfaces": [{)"))
      << text;
  EXPECT_TRUE(text.ends_with("}\n"));
  EXPECT_NE(text.find(R"("rx_runt": 0)"), std::string::npos);
  EXPECT_NE(text.find(R"("tx_dlid_zero": 3)"), std::string::npos);
  EXPECT_EQ(text.find(R"("tx_errors": 3)"), text.rfind(R"("tx_errors": 3)")) << "once";
}

TEST(VnicReport, SaysWhichKindOfLinkCarriesIt) {
  const PortView port{.is_omni_path = true, .lid = Lid{0x01'0001}, .is_announced = true};
  EXPECT_TRUE(show_vnics(port, one_vnic(), false)
                  .starts_with("Omni-Path port with LID 0x010001, announced\n"));
  EXPECT_TRUE(show_vnics(port, one_vnic(), true).starts_with(R"({"link": "opa", "lid": 65537, )"));
}

TEST(VnicReport, SaysThatAPortIsOfNoSwitch) {
  auto vnics = one_vnic();
  vnics.front().vesw_id = 0;
  EXPECT_NE(show_vnics({}, vnics, false).find("of no virtual switch"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::vnic
