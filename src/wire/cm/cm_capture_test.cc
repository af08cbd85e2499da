// CM messages captured from an independent kernel implementation (tests/golden/pcaps): each is
// unpacked and packed to the same bytes (T-PACK-1).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/testing/golden.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/mad/mad.h"
#include "wire/mad/mad_print.h"
#include "wire/roce_packet.h"
#include "wire/testing/golden_captures.h"

namespace weft::wire {
namespace {

std::vector<std::vector<std::byte>> golden_cm_mads(std::string_view file_name) {
  std::vector<std::vector<std::byte>> mads;
  for (const auto& file : golden_captures()) {
    if (!file.ends_with(std::string{file_name} + ".pcap")) {
      continue;
    }
    for_each_frame(file, [&](ByteSpan frame) {
      const auto packet = parse_roce_packet(frame, CrcCheck::Skip);
      if (packet && packet->transport.bth.dest_qp == kQp1 && packet->payload.size() == kMadBytes) {
        mads.emplace_back(packet->payload.begin(), packet->payload.end());
      }
    });
  }
  return mads;
}

[[nodiscard]] ByteSpan data_of(ByteSpan mad) { return mad.subspan(kSizeOf<MadHeader>); }

template <WireType T>
[[nodiscard]] T message(ByteSpan mad) {
  return unpack<T>(data_of(mad).first<kSizeOf<T>>());
}

template <WireType T>
void expect_same_bytes(ByteSpan mad) {
  EXPECT_TRUE(std::ranges::equal(pack(message<T>(mad)), data_of(mad))) << T::kName;
}

void expect_same_bytes(ByteSpan mad, CmAttribute attribute) {
  switch (attribute) {
    case CmAttribute::Req:
      return expect_same_bytes<Req>(mad);
    case CmAttribute::Rej:
      return expect_same_bytes<Rej>(mad);
    case CmAttribute::Rep:
      return expect_same_bytes<Rep>(mad);
    case CmAttribute::Rtu:
      return expect_same_bytes<Rtu>(mad);
    case CmAttribute::Dreq:
      return expect_same_bytes<Dreq>(mad);
    case CmAttribute::Drep:
      return expect_same_bytes<Drep>(mad);
    case CmAttribute::SidrReq:
      return expect_same_bytes<SidrReq>(mad);
    case CmAttribute::SidrRep:
      return expect_same_bytes<SidrRep>(mad);
    default:
      ADD_FAILURE() << "attribute " << static_cast<unsigned>(attribute);
  }
}

TEST(GoldenCm, FromCaptureComesBackToTheByte) {
  std::map<CmAttribute, int> seen;
  for (const auto& mad : golden_cm_mads("")) {
    const auto header = unpack<MadHeader>(ByteSpan{mad}.first<kSizeOf<MadHeader>>());
    ASSERT_EQ(header.mgmt_class, ManagementClass::ComMgt);
    EXPECT_EQ(header.class_version, kCmClassVersion);
    EXPECT_EQ(header.method, MadMethod::Send);
    const auto attribute = static_cast<CmAttribute>(header.attribute_id);
    ++seen[attribute];
    expect_same_bytes(mad, attribute);
  }
  for (const auto attribute :
       {CmAttribute::Req, CmAttribute::Rej, CmAttribute::Rep, CmAttribute::Rtu, CmAttribute::Dreq,
        CmAttribute::Drep, CmAttribute::SidrReq, CmAttribute::SidrRep}) {
    EXPECT_NE(seen[attribute], 0) << name_of(attribute);
  }
}

constexpr std::uint64_t kTcpPortSpace = 0x0106;

/// rping between 10.77.0.2 and port 7174 of 10.77.0.1.
TEST(GoldenCm, MeansWhatTheProgramsDid) {
  const auto mads = golden_cm_mads("cm_rping");
  ASSERT_EQ(mads.size(), 5U);
  const auto req = message<Req>(mads[0]);
  EXPECT_EQ(req.service_id, kTcpPortSpace << 16 | 7174);
  EXPECT_EQ(req.transport, CmTransport::Rc);
  EXPECT_EQ(req.local_qpn, Qpn{0x11});
  EXPECT_EQ(req.starting_psn, Psn{0x161C20});
  EXPECT_EQ(req.path_mtu, static_cast<std::uint8_t>(Mtu::Mtu1024));
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.primary.local_lid, kPermissiveLid);  // RoCE has none
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.alternate.remote_gid, Gid{});

  const auto rep = message<Rep>(mads[1]);
  EXPECT_EQ(rep.remote_communication_id, req.local_communication_id);
  EXPECT_EQ(rep.starting_psn, Psn{0x258CED});
  const auto rtu = message<Rtu>(mads[2]);
  EXPECT_EQ(rtu.local_communication_id, req.local_communication_id);
  EXPECT_EQ(rtu.remote_communication_id, rep.local_communication_id);
  const auto dreq = message<Dreq>(mads[3]);
  EXPECT_EQ(dreq.remote_qpn, rep.local_qpn);
  const auto drep = message<Drep>(mads[4]);
  EXPECT_EQ(drep.remote_communication_id, dreq.local_communication_id);
}

TEST(GoldenCm, StartingPsnIsWhatTheOtherSideBeginsWith) {
  std::map<Qpn, Psn> first_send;
  for_each_frame(weft::testing::golden("pcaps/cm_rping.pcap"), [&](ByteSpan frame) {
    const auto packet = parse_roce_packet(frame, CrcCheck::Skip);
    if (packet && packet->transport.bth.opcode == Opcode::RcSendOnly) {
      first_send.emplace(packet->transport.bth.dest_qp, packet->transport.bth.psn);
    }
  });
  const auto mads = golden_cm_mads("cm_rping");
  ASSERT_EQ(mads.size(), 5U);
  // The client sends first, with the PSN that the REP named.
  EXPECT_EQ(first_send.at(message<Rep>(mads[1]).local_qpn), message<Rep>(mads[1]).starting_psn);
}

TEST(GoldenCm, RejectsAnUnknownServiceWithoutACommunicationId) {
  const auto mads = golden_cm_mads("cm_rej_no_listener");
  ASSERT_EQ(mads.size(), 2U);
  const auto rej = message<Rej>(mads[1]);
  EXPECT_EQ(rej.local_communication_id, 0U);
  EXPECT_EQ(rej.remote_communication_id, message<Req>(mads[0]).local_communication_id);
  EXPECT_EQ(rej.reason, RejectReason::InvalidServiceId);
  EXPECT_EQ(rej.subject, CmSubject::Req);
}

TEST(GoldenCm, ResolvesAServiceToAQp) {
  const auto mads = golden_cm_mads("ud_sidr_udaddy");
  ASSERT_EQ(mads.size(), 2U);
  const auto request = message<SidrReq>(mads[0]);
  const auto reply = message<SidrRep>(mads[1]);
  EXPECT_EQ(request.service_id >> 16, 0x0111U);  // the port space of UDP
  EXPECT_EQ(reply.request_id, request.request_id);
  EXPECT_EQ(reply.service_id, request.service_id);
  EXPECT_EQ(reply.status, SidrStatus::Success);
  EXPECT_EQ(reply.qkey, QKey{0x0123'4567});
}

TEST(RdmaCmHeader, FromCapture) {
  const auto mads = golden_cm_mads("cm_rping");
  ASSERT_FALSE(mads.empty());
  const auto req = message<Req>(mads[0]);
  const auto header = unpack<RdmaCmHeader>(std::span{req.private_data}.first<36>());
  EXPECT_EQ(header.major_version, 0);
  EXPECT_EQ(header.ip_version, 4);
  EXPECT_NE(header.source_port, 0);
  const auto ends_with = [](const RdmaCmAddress& address, std::array<unsigned, 4> octets) {
    return std::ranges::equal(std::span{address}.last<4>(), octets, {},
                              [](std::byte octet) { return std::to_integer<unsigned>(octet); });
  };
  EXPECT_TRUE(ends_with(header.source_address, {10, 77, 0, 2}));
  EXPECT_TRUE(ends_with(header.destination_address, {10, 77, 0, 1}));

  const auto six = golden_cm_mads("cm_rping_ipv6");
  ASSERT_FALSE(six.empty());
  const auto req6 = message<Req>(six[0]);
  const auto header6 = unpack<RdmaCmHeader>(std::span{req6.private_data}.first<36>());
  EXPECT_EQ(header6.ip_version, 6);
  EXPECT_EQ(header6.destination_address[0], std::byte{0xFD});
}

TEST(MadPrint, ShowsACmMessageInPlaceOfItsData) {
  const auto mads = golden_cm_mads("cm_rej_no_listener");
  ASSERT_EQ(mads.size(), 2U);
  const auto headers = printed_mad(mads[1]);
  ASSERT_EQ(headers.size(), 2U);
  const std::string text = to_text(headers[1]);
  EXPECT_NE(text.find("REJ "), std::string::npos) << text;
  EXPECT_NE(text.find("Reason=invalid service ID(8)"), std::string::npos) << text;
  EXPECT_NE(to_text(printed_mad(mads[0])[1]).find("PathPacketPayloadMTU=1024(3)"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::wire
