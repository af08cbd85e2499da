#include "wire/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "wire/mad/smp.h"
#include "wire/sriov/tunnel_headers.h"
#include "wire/wire_types.h"

namespace weft::wire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

IbPacket write_packet(std::span<const std::byte> payload) {
  IbPacket packet;
  packet.lrh.slid = Lid{1};
  packet.lrh.dlid = Lid{2};
  packet.transport.bth.opcode = Opcode::RcRdmaWriteOnly;
  packet.transport.bth.pkey = kDefaultPKey;
  packet.transport.bth.dest_qp = Qpn{0x12};
  packet.transport.bth.psn = Psn{77};
  packet.transport.reth.dma_length = 3;
  packet.payload = payload;
  return packet;
}

IbPacket mad_packet(Qpn dest_qp, std::span<const std::byte> payload) {
  IbPacket packet;
  packet.transport.bth.opcode = Opcode::UdSendOnly;
  packet.transport.bth.dest_qp = dest_qp;
  packet.payload = payload;
  return packet;
}

TEST(Print, SpellsABthAsTheSpecificationDoes) {
  constexpr Bth kBth{.opcode = Opcode::RcSendOnly,
                     .solicited = false,
                     .migrated = true,
                     .pad_count = 2,
                     .transport_version = 0,
                     .pkey = kDefaultPKey,
                     .fecn = false,
                     .becn = false,
                     .dest_qp = Qpn{0x10},
                     .ack_request = true,
                     .psn = Psn{5}};
  EXPECT_EQ(to_text(kBth),
            "BTH OpCode=RC SEND Only(4) SE=0 M=1 PadCnt=2 TVer=0 P_Key=0xffff FECN=0 BECN=0 "
            "DestQP=0x10 A=1 PSN=5");
}

TEST(Print, ShowsLidsDecimalAndKeysAndAddressesInHex) {
  EXPECT_EQ(to_text(Lrh{.vl = VirtualLane{1},
                        .link_version = 0,
                        .sl = ServiceLevel{2},
                        .lnh = LinkNextHeader::Global,
                        .dlid = Lid{49152},
                        .packet_length = 17,
                        .slid = Lid{10}}),
            "LRH VL=1 LVer=0 SL=2 LNH=global(3) DLID=49152 PktLen=17 SLID=10");
  EXPECT_EQ(
      to_text(Reth{.virtual_address = 0x7F00'0000'1000, .rkey = RKey{0x1234}, .dma_length = 64}),
      "RETH VA=0x7f0000001000 R_Key=0x1234 DMALen=64");
  EXPECT_EQ(to_text(Deth{.qkey = kGsiQKey, .src_qp = kQp1}), "DETH Q_Key=0x80010000 SrcQP=0x1");
  Grh grh;
  grh.sgid = Gid{kDefaultGidPrefix, Guid{0x10}};
  EXPECT_THAT(to_text(grh), HasSubstr("NxtHdr=IBA transport(27) HopLmt=0 SGID=fe80::10 DGID=::"));
}

TEST(Print, SaysWhatAnAcknowledgementMeans) {
  EXPECT_EQ(to_text(Aeth{.syndrome = Syndrome::ack(31), .msn = Msn{9}}),
            "AETH Syndrome=ACK without credit limit(31) MSN=9");
  EXPECT_EQ(to_text(Aeth{.syndrome = Syndrome::ack(9), .msn = Msn{9}}),
            "AETH Syndrome=ACK 24 credits(9) MSN=9");
  EXPECT_EQ(to_text(Aeth{.syndrome = Syndrome::rnr(12), .msn = Msn{9}}),
            "AETH Syndrome=RNR NAK 640 us(44) MSN=9");
  EXPECT_EQ(to_text(Aeth{.syndrome = Syndrome::nak(NakCode::PsnSequenceError), .msn = Msn{9}}),
            "AETH Syndrome=NAK PSN Sequence Error(96) MSN=9");
  EXPECT_EQ(to_text(Aeth{.syndrome = Syndrome{0x45}, .msn = Msn{9}}),
            "AETH Syndrome=reserved(69) MSN=9");
}

TEST(Print, NamesClassMethodStatusAndAttributeOfAMad) {
  MadHeader mad;
  mad.mgmt_class = ManagementClass::SubnAdm;
  mad.class_version = 2;
  mad.method = MadMethod::GetResp;
  mad.status = 0x0300;
  mad.transaction_id = 0xAB;
  mad.attribute_id = 0x35;
  EXPECT_EQ(to_text(mad),
            "MAD BaseVersion=1 MgmtClass=SubnAdm(3) ClassVersion=2 Method=GetResp(129) "
            "Status=no records(0x300) ClassSpecific=0x0 TransactionID=0xab "
            "AttributeID=PathRecord(0x35) AttributeModifier=0x0");
}

TEST(Print, HasAPlaceForEveryFieldOfEveryStructure) {
  Random random{5};
  AllWireTypes::for_each([&]<class T>() {
    const PrintedHeader header = printed_header(arbitrary<T>(random));
    EXPECT_EQ(header.name, T::kName);
    EXPECT_EQ(header.bytes, kSizeOf<T>);
    for (const PrintedField& field : header.fields) {
      EXPECT_FALSE(field.text.empty()) << T::kName << " " << field.name;
      EXPECT_TRUE(field.meaning.empty() || field.text.starts_with(field.meaning + "("));
    }
  });
}

TEST(Print, ListsTheHeadersOfAPacketInWireOrder) {
  const std::array<std::byte, 3> payload{};
  const PrintedPacket packet = printed(write_packet(payload));
  EXPECT_EQ(packet.summary, "LID 1 -> 2 RC RDMA WRITE Only DestQP 0x12 PSN 77 3 bytes");
  ASSERT_EQ(packet.headers.size(), 3U);
  EXPECT_EQ(packet.headers[0].name, "LRH");
  EXPECT_EQ(packet.headers[1].name, "BTH");
  EXPECT_EQ(packet.headers[2].name, "RETH");
  EXPECT_THAT(to_text(packet), HasSubstr("\n  RETH VA=0x0 R_Key=0x0 DMALen=3\n"));
}

TEST(Print, ShowsTheAddressesOfARocePacket) {
  RocePacket packet;
  Ipv4 ip;
  ip.source = {std::byte{10}, std::byte{0}, std::byte{0}, std::byte{1}};
  ip.destination = {std::byte{10}, std::byte{0}, std::byte{0}, std::byte{2}};
  packet.ip = ip;
  packet.vlan.emplace();
  packet.vlan->priority = 3;
  packet.vlan->vlan_id = 100;
  packet.vlan->ether_type = kEtherTypeIpv4;
  packet.transport.bth.opcode = Opcode::RcAcknowledge;
  const PrintedPacket out = printed(packet);
  EXPECT_EQ(out.summary, "RoCEv2 10.0.0.1 -> 10.0.0.2 RC Acknowledge DestQP 0x0 PSN 0 0 bytes");
  EXPECT_THAT(to_text(out), HasSubstr("VLAN PCP=3 DEI=0 VID=100 EtherType=IPv4(0x800)"));
}

TEST(Print, ShowsTheMadOfAPacketToQp1) {
  Mad mad;
  mad.header.mgmt_class = ManagementClass::ComMgt;
  mad.header.method = MadMethod::Send;
  mad.header.attribute_id = 0x10;
  const auto payload = pack(mad);
  const PrintedPacket packet = printed(mad_packet(kQp1, payload));
  EXPECT_THAT(packet.summary, EndsWith("256 bytes, ComMgt Send ConnectRequest"));
  EXPECT_EQ(packet.headers.back().name, "REQ");
  EXPECT_EQ((packet.headers.end() - 2)->name, "MAD");
  EXPECT_EQ(packet.payload_bytes, kMadBytes);
}

TEST(Print, ShowsTheWholeSmpOfAPacketToQp0) {
  SmpDirected smp;
  smp.header.method = MadMethod::GetResp;
  smp.header.direction = true;  // no part of the status
  smp.header.attribute_id = 0x11;
  smp.header.hop_count = 3;
  const auto payload = pack(smp);
  const PrintedPacket packet = printed(mad_packet(kQp0, payload));
  EXPECT_THAT(packet.summary, EndsWith(", Subn directed route GetResp NodeInfo"));
  EXPECT_EQ(packet.headers.back().name, "NodeInfo");
  EXPECT_THAT(to_text(*(packet.headers.end() - 2)),
              HasSubstr("D=1 Status=ok(0x0) HopPointer=0 HopCount=3"));

  SmpLidRouted routed;
  routed.header.method = MadMethod::Set;
  routed.header.attribute_id = 0x15;
  routed.header.status = kMadStatusInvalidField;
  const auto routed_payload = pack(routed);
  EXPECT_THAT(printed(mad_packet(kQp0, routed_payload)).summary,
              EndsWith(", Subn LID routed Set PortInfo (invalid field)"));
}

/// A datagram of a tunnel's QPs, as `weft capture --tunnels` has it.
IbPacket tunnel_packet(Qpn from, Qpn to, std::span<const std::byte> payload) {
  IbPacket packet = mad_packet(to, payload);
  packet.lrh.slid = packet.lrh.dlid = Lid{3};
  packet.transport.deth = {.qkey = QKey{0xFFFF'000A}, .src_qp = from};
  return packet;
}

std::array<std::byte, kMadBytes> path_query() {
  Mad mad;
  mad.header.mgmt_class = ManagementClass::SubnAdm;
  mad.header.method = MadMethod::Get;
  mad.header.attribute_id = 0x35;
  return pack(mad);
}

TEST(Print, ShowsWhereATunnelledMadIsToGo) {
  TunnelSend send;
  send.header = {
      .address = {.port = PortNumber{1}, .pd = 5, .dlid = Lid{9}, .sl = ServiceLevel{2}},
      .remote_qpn = kQp1,
      .qkey = kGsiQKey,
      .pkey_index = 1
  };
  send.mad = path_query();
  const auto payload = pack(send);
  const PrintedPacket packet = printed(tunnel_packet(Qpn{0x280A}, Qpn{0x2C0A}, payload));
  EXPECT_THAT(packet.summary,
              EndsWith("312 bytes, from a virtual function, SubnAdm Get PathRecord"));
  EXPECT_THAT(
      to_text(packet),
      HasSubstr("  DETH Q_Key=0xffff000a SrcQP=0x280a\n"
                "  tunnel send header Port=1 PD=0x5 G=0 SourcePathBits=0 DLID=9 GIDIndex=0 "
                "StaticRate=0 HopLimit=0 SL=2 TClass=0x0 FlowLabel=0x0 DGID=:: RemoteQPN=0x1 "
                "Q_Key=0x80010000 VLAN=0x0 MAC=0x0 P_KeyIndex=0x1\n"
                "  SA MAD BaseVersion=1 MgmtClass=SubnAdm(3) "));
}

TEST(Print, ShowsWhenceATunnelledMadCame) {
  TunnelReceive receive;
  receive.header = {.source_qpn = kQp1, .pkey_index = 1, .sl = ServiceLevel{2}, .slid = Lid{9}};
  receive.mad = path_query();
  const auto local = pack(receive);
  const PrintedPacket packet = printed(tunnel_packet(Qpn{0x2C0A}, Qpn{0x280A}, local));
  EXPECT_THAT(packet.summary, EndsWith("312 bytes, to a virtual function, SubnAdm Get PathRecord"));
  EXPECT_THAT(to_text(packet),
              HasSubstr("  DETH Q_Key=0xffff000a SrcQP=0x2c0a\n"
                        "  tunnel receive header Flags=0 SourceQPN=0x1 G=0 PathBits=0 "
                        "P_KeyIndex=0x1 SL=2 VLAN=0x0 SLID=9 MACLow=0x0\n"
                        "  SA MAD BaseVersion=1 MgmtClass=SubnAdm(3) "));
  EXPECT_THAT(to_text(packet), Not(HasSubstr("GRH")));
  receive.header.is_global = true;
  const auto global = pack(receive);
  EXPECT_THAT(to_text(printed(tunnel_packet(Qpn{0x2C0A}, Qpn{0x280A}, global))), HasSubstr("GRH"));
}

TEST(Print, TakesADatagramForATunnelledMadByItsQKeyLidsAndLength) {
  const auto payload = pack(TunnelSend{});
  const auto last = [](const IbPacket& packet) { return printed(packet).headers.back().name; };
  const IbPacket tunnelled = tunnel_packet(Qpn{0x280A}, Qpn{0x2C0A}, payload);
  EXPECT_NE(last(tunnelled), "DETH");
  IbPacket other = tunnelled;
  other.transport.deth.qkey = QKey{0xFFFE'FFFF};
  EXPECT_EQ(last(other), "DETH");
  other = tunnelled;
  other.lrh.dlid = Lid{4};
  EXPECT_EQ(last(other), "DETH");
  other = tunnelled;
  other.payload = other.payload.first<kMadBytes>();
  EXPECT_EQ(last(other), "DETH");
}

TEST(Print, TakesNoPayloadForAMadUnlessItGoesToQp0OrQp1) {
  const std::vector<std::byte> payload(kMadBytes);
  EXPECT_EQ(printed(mad_packet(Qpn{2}, payload)).headers.back().name, "DETH");
  EXPECT_EQ(printed(write_packet(payload)).headers.back().name, "RETH");
}

TEST(Print, SaysWhenAPacketToQp1IsTooShortForAMad) {
  const std::array<std::byte, 23> payload{};
  EXPECT_THAT(printed(mad_packet(kQp1, payload)).summary, EndsWith(", too short for a MAD"));
}

}  // namespace
}  // namespace weft::wire
