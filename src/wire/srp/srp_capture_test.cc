// SRP as Linux's initiator and target send it (tests/golden/pcaps): each unit is judged by the
// decoder of testing/srp_tables.h, and read and built again to the same octets by ours.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "wire/cm/rdma_cm_header.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/mad/mad.h"
#include "wire/roce_packet.h"
#include "wire/srp/information_unit.h"
#include "wire/testing/golden_captures.h"
#include "wire/testing/srp_tables.h"

namespace weft::wire {
namespace {

using Bytes = std::vector<std::byte>;

struct SrpCapture {
  std::vector<Bytes> units;                // of SENDs
  std::map<std::uint16_t, Bytes> cm_data;  // by attribute, behind the MAD header
};

[[nodiscard]] SrpCapture read_capture(const std::string& name) {
  SrpCapture capture;
  for (const auto& file : golden_captures()) {
    if (!file.ends_with(name + ".pcap")) {
      continue;
    }
    for_each_frame(file, [&](ByteSpan frame) {
      const auto packet = parse_roce_packet(frame, CrcCheck::Skip);
      if (!packet) {
        return;
      }
      const ByteSpan payload = packet->payload;
      if (packet->transport.bth.opcode == Opcode::RcSendOnly) {
        capture.units.emplace_back(payload.begin(), payload.end());
      } else if (packet->transport.bth.dest_qp == kQp1 && payload.size() == kMadBytes) {
        const auto header = unpack<MadHeader>(payload.first<kSizeOf<MadHeader>>());
        const ByteSpan data = payload.subspan(kSizeOf<MadHeader>);
        capture.cm_data[header.attribute_id] = {data.begin(), data.end()};
      }
    });
  }
  return capture;
}

void expect_comes_back(ByteSpan unit) {
  const auto opcode = srp_opcode(unit);
  ASSERT_TRUE(opcode.has_value());
  if (*opcode == SrpOpcode::TskMgmt) {
    const auto function = parse<SrpTskMgmt>(unit);
    ASSERT_TRUE(function.has_value()) << function.error().reason;
    EXPECT_TRUE(std::ranges::equal(to_unit(*function), unit));
  } else if (*opcode == SrpOpcode::Cmd) {
    const auto command = parse_srp_command(unit, kSrpDefaultImmediateOffset);
    ASSERT_TRUE(command.has_value()) << command.error().reason;
    EXPECT_TRUE(std::ranges::equal(to_unit(*command, kSrpDefaultImmediateOffset), unit));
  } else {
    ASSERT_EQ(*opcode, SrpOpcode::Rsp);
    const auto response = parse_srp_response(unit);
    ASSERT_TRUE(response.has_value()) << response.error().reason;
    EXPECT_TRUE(std::ranges::equal(to_unit(*response), unit));
  }
}

TEST(SrpCapture, UnitsFromCaptureComeBackToTheByte) {  // T-SRPI-2
  std::map<std::string_view, int> seen;
  for (const std::string name : {"srp_login", "srp_rw", "srp_logout"}) {
    for (const Bytes& unit : read_capture(name).units) {
      const auto judged = srp_tables::decode_unit(unit);
      EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
      ++seen[judged.name];
      expect_comes_back(unit);
    }
  }
  EXPECT_GT(seen["SRP_CMD"], 20);
  EXPECT_EQ(seen["SRP_CMD"], seen["SRP_RSP"]);
}

TEST(SrpCapture, AbortAndResetFromCaptureComeBackToTheByte) {  // T-SRPI-2
  std::map<SrpTaskFunction, int> functions;
  for (const Bytes& unit : read_capture("srp_abort").units) {
    const auto judged = srp_tables::decode_unit(unit);
    EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
    expect_comes_back(unit);
    if (srp_opcode(unit) == SrpOpcode::TskMgmt) {
      ++functions[parse<SrpTskMgmt>(unit)->function];
    }
  }
  EXPECT_EQ(functions,
            (std::map<SrpTaskFunction, int>{
                {SrpTaskFunction::AbortTask,        1},
                {SrpTaskFunction::LogicalUnitReset, 1}
  }));
}

TEST(SrpCapture, LoginFromCaptureComesBackToTheByte) {
  SrpCapture capture = read_capture("srp_login");
  const auto req = parse<Req>(capture.cm_data[0x10]);
  const auto rep = parse<Rep>(capture.cm_data[0x13]);
  ASSERT_TRUE(req.has_value() && rep.has_value());

  const ByteSpan login = ByteSpan{req->private_data}.subspan(kSizeOf<RdmaCmHeader>);
  const auto judged = srp_tables::decode({"login", 56, srp_tables::kLoginReqRdmaCm}, login);
  EXPECT_TRUE(judged.faults.empty()) << judged.faults.front();
  const auto request = parse<SrpLoginReqRdmaCm>(login);
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(std::ranges::equal(pack(*request), login.first(56)));
  EXPECT_EQ(request->required_formats, kSrpDirectFormat | kSrpIndirectFormat);
  EXPECT_TRUE(request->immediate_data);
  EXPECT_EQ(request->immediate_offset, kSrpDefaultImmediateOffset);
  EXPECT_EQ(request->requested_iu_length, 0x2044U);

  const ByteSpan answer = ByteSpan{rep->private_data}.first(52);
  EXPECT_TRUE(srp_tables::decode_unit(answer).faults.empty());
  const auto response = parse<SrpLoginRsp>(answer);
  ASSERT_TRUE(response.has_value());
  EXPECT_TRUE(std::ranges::equal(pack(*response), answer));
  EXPECT_EQ(response->request_limit_delta, 128);
  EXPECT_TRUE(response->immediate_data);
}

}  // namespace
}  // namespace weft::wire
