#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "wire/dissect.h"
#include "wire/print.h"

namespace weft::wire {
namespace {

using nlohmann::json;

IbPacket send_packet() {
  IbPacket packet;
  packet.lrh.slid = Lid{1};
  packet.lrh.dlid = Lid{2};
  packet.transport.bth.opcode = Opcode::RcSendOnly;
  packet.transport.bth.pkey = kDefaultPKey;
  packet.transport.bth.psn = Psn{77};
  return packet;
}

TEST(PrintJson, HasNumbersWhereTextIsDecimalAndStringsWhereItIsHex) {
  const json bth = json::parse(to_json(printed(send_packet()))).at("headers").at(1);
  EXPECT_EQ(bth.at("header"), "BTH");
  EXPECT_EQ(bth.at("bytes"), 12);
  EXPECT_EQ(bth.at("fields").at("PSN"), 77);
  EXPECT_EQ(bth.at("fields").at("P_Key"), "0xffff");
  EXPECT_EQ(bth.at("fields").at("OpCode"), (json{
                                               {"value", 4             },
                                               {"name",  "RC SEND Only"}
  }));
}

TEST(PrintJson, KeepsHeadersAndFieldsInWireOrderInOneLine) {
  const std::string text = to_json(printed(send_packet()));
  EXPECT_LT(text.find("\"LRH\""), text.find("\"BTH\""));
  EXPECT_LT(text.find("\"OpCode\""), text.find("\"DestQP\""));
  EXPECT_LT(text.find("\"DestQP\""), text.find("\"PSN\""));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(PrintJson, TellsOfBothCrcsAndExpectsAnotherWhereOneIsWrong) {
  std::vector<std::byte> bytes;
  serialise(send_packet(), bytes);
  json good = json::parse(to_json(*dissect_infiniband(bytes)));
  EXPECT_EQ(good.at("icrc").at("right"), true);
  EXPECT_EQ(good.at("vcrc").at("right"), true);
  EXPECT_FALSE(good.at("vcrc").contains("expected"));

  const std::string right_vcrc = good.at("vcrc").at("found");
  bytes.back() ^= std::byte{1};
  const json bad = json::parse(to_json(*dissect_infiniband(bytes)));
  EXPECT_EQ(bad.at("icrc").at("right"), true);
  EXPECT_EQ(bad.at("vcrc").at("right"), false);
  EXPECT_EQ(bad.at("vcrc").at("expected"), right_vcrc);
  EXPECT_EQ(bad.at("payload_bytes"), 0);
}

}  // namespace
}  // namespace weft::wire
