#include "daemon/mad_capture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "carriage/omni_path_packet.h"
#include "fabric/topology.h"
#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "host/tap_record.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"
#include "wire/ib_packet.h"
#include "wire/ipoib/message.h"
#include "wire/ipoib/mgid.h"
#include "wire/opa/packet_16b.h"
#include "wire/sriov/tunnel_headers.h"

namespace weft::daemon {
namespace {

[[nodiscard]] std::vector<std::byte> wire_of(const hca::Packet& packet) {
  std::vector<std::byte> record(hca::kMaxRecordHeaderBytes);  // by way of a capture's ring
  record.resize(hca::encode_record_header(packet.header, record));
  record.insert(record.end(), packet.payload.begin(), packet.payload.end());
  std::vector<std::byte> bytes;
  if (const auto read = hca::decode_record(record)) {
    hca::to_wire(*read, bytes);
  }
  return bytes;
}

[[nodiscard]] std::vector<std::byte> wire_of(const carriage::PacketOnCable& mad) {
  return wire_of(packet_of(mad, Gid{kDefaultGidPrefix, Guid{5}}));
}

[[nodiscard]] sriov::TunnelDatagram tunnelled(ByteSpan payload) {
  return {.function = sriov::FunctionId{1},
          .source_qp = Qpn{0x2802},
          .dest_qp = Qpn{0x2C02},
          .qkey = QKey{0xFFFF'0002},
          .payload = payload};
}

TEST(MadCapture, ShowsATunnelledMadAsADatagramBetweenItsQps) {
  std::array<std::byte, wire::kSizeOf<wire::TunnelSend>> payload{std::byte{1}};
  payload.back() = std::byte{7};
  const auto bytes = wire_of(packet_of(tunnelled(payload), Lid{4}));
  const auto packet = wire::parse_ib_packet(bytes, wire::CrcCheck::Verify);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->lrh.slid, Lid{4});
  EXPECT_EQ(packet->lrh.dlid, Lid{4});
  EXPECT_EQ(packet->transport.bth.opcode, wire::Opcode::UdSendOnly);
  EXPECT_EQ(packet->transport.bth.dest_qp, Qpn{0x2C02});
  EXPECT_EQ(packet->transport.deth.src_qp, Qpn{0x2802});
  EXPECT_EQ(packet->transport.deth.qkey, QKey{0xFFFF'0002});
  EXPECT_TRUE(std::ranges::equal(packet->payload, payload));
}

TEST(MadCapture, ShowsSmpsOnVl15WithQp0OnBothEnds) {
  const mad::MadBytes mad{std::byte{1}, std::byte{0x81}};
  const mad::MadAddress to{.lid = kPermissiveLid, .qp = kQp0};
  const auto bytes = wire_of({.kind = mad::InterfaceKind::Smi,
                              .slid = kPermissiveLid,
                              .dlid = kPermissiveLid,
                              .psn = Psn{9},
                              .source = fabric::PortIndex{},
                              .to = to,
                              .bytes = mad});
  const auto packet = wire::parse_ib_packet(bytes, wire::CrcCheck::Verify);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->lrh.vl, VirtualLane{15});
  EXPECT_EQ(packet->lrh.slid, kPermissiveLid);
  EXPECT_EQ(packet->lrh.dlid, kPermissiveLid);
  EXPECT_EQ(packet->transport.bth.opcode, wire::Opcode::UdSendOnly);
  EXPECT_EQ(packet->transport.bth.dest_qp, kQp0);
  EXPECT_EQ(packet->transport.bth.psn, Psn{9});
  EXPECT_EQ(packet->transport.deth.src_qp, kQp0);
  EXPECT_EQ(packet->transport.deth.qkey, QKey{});
  EXPECT_EQ(packet->payload.size(), mad.size());
}

TEST(MadCapture, ShowsGeneralServicesAsOtherDatagrams) {
  const mad::MadBytes mad{};
  const mad::MadAddress to{.lid = Lid{7},
                           .sl = ServiceLevel{2},
                           .global = mad::GlobalRoute{.dgid = Gid{kDefaultGidPrefix, Guid{6}}}};
  const auto bytes = wire_of({.kind = mad::InterfaceKind::Gsi,
                              .slid = Lid{3},
                              .dlid = Lid{7},
                              .psn = Psn{1},
                              .source = fabric::PortIndex{},
                              .to = to,
                              .bytes = mad});
  const auto packet = wire::parse_ib_packet(bytes, wire::CrcCheck::Verify);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->lrh.vl, VirtualLane{0});
  EXPECT_EQ(packet->lrh.sl, ServiceLevel{2});
  EXPECT_EQ(packet->transport.bth.dest_qp, kQp1);
  EXPECT_EQ(packet->transport.deth.src_qp, kQp1);
  EXPECT_EQ(packet->transport.deth.qkey, kGsiQKey);
  ASSERT_TRUE(packet->grh);
  EXPECT_EQ(packet->grh->sgid, (Gid{kDefaultGidPrefix, Guid{5}}));
  EXPECT_EQ(packet->grh->dgid, (Gid{kDefaultGidPrefix, Guid{6}}));
}

TEST(MadCapture, ShowsOtherDatagramsOfKernelsWithTheirHeaders) {
  const auto payload = wire::to_payload(wire::ArpMessage{
      .operation = wire::ArpOperation::Request,
      .sender_hardware = {.qpn = Qpn{0x100}, .gid = Gid{kDefaultGidPrefix, Guid{5}}},
      .sender = IpAddress::v4(0x7F4D'0002),
      .target_hardware = {},
      .target = IpAddress::v4(0x7F4D'0001)
  });
  const Gid mgid = wire::ipoib_broadcast_group(kDefaultPKey);
  const mad::MadAddress to{
      .lid = Lid{0xC000},
      .qp = kMulticastQpn,
      .qkey = QKey{0x0B1B},
      .global = mad::GlobalRoute{.dgid = mgid, .hop_limit = 1}
  };
  const auto bytes = wire_of({.kind = mad::InterfaceKind::Gsi,
                              .slid = Lid{3},
                              .dlid = to.lid,
                              .psn = Psn{1},
                              .source = fabric::PortIndex{},
                              .to = to,
                              .bytes = payload,
                              .source_qp = Qpn{0x100}});
  const auto packet = wire::parse_ib_packet(bytes, wire::CrcCheck::Verify);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->lrh.dlid, Lid{0xC000});
  EXPECT_EQ(packet->transport.bth.dest_qp, kMulticastQpn);
  EXPECT_EQ(packet->transport.deth.src_qp, Qpn{0x100});
  EXPECT_EQ(packet->transport.deth.qkey, QKey{0x0B1B});
  ASSERT_TRUE(packet->grh);
  EXPECT_EQ(packet->grh->dgid, mgid);
  EXPECT_TRUE(wire::parse_ipoib(packet->payload).has_value());
}

class FullCapture : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(ring_); }

  [[nodiscard]] bool has_room() { return capture_.has_room({&kHop, 1}, wire::kMadBytes, 1); }
  void show() {
    const mad::MadBytes mad{};
    const mad::MadAddress to{};
    capture_.show(kHop, {.kind = mad::InterfaceKind::Gsi,
                         .slid = {},
                         .dlid = {},
                         .psn = {},
                         .source = fabric::PortIndex{0},
                         .to = to,
                         .bytes = mad});
  }
  static constexpr fabric::Hop kHop{fabric::PortIndex{0}, fabric::PortIndex{1}};

  fabric::TablesBuilder tables_{fabric::generate_pair()};
  MadCapture capture_{tables_};
  Result<os::UniqueFd> ring_ = capture_.open(1, fabric::PortIndex{0});
};

TEST_F(FullCapture, SaysSoBeforeItMissesOne) {
  constexpr int kMore = 10'000;  // than a ring holds
  int shown = 0;
  for (; shown < kMore && has_room(); ++shown) {
    show();
  }
  EXPECT_GT(shown, 1'000);
  EXPECT_LT(shown, kMore);
  EXPECT_EQ(capture_.take_missed_count(), 0U);
}

TEST_F(FullCapture, OfTunnelsIsOfThoseOnly) {
  constexpr int kMore = 10'000;
  const std::array<std::byte, wire::kSizeOf<wire::TunnelSend>> payload{};
  const auto show_tunnelled = [&](fabric::PortIndex port) {
    for (int i = 0; i < kMore; ++i) {
      capture_.show(port, tunnelled(payload));
    }
    return capture_.take_missed_count();
  };
  EXPECT_EQ(show_tunnelled(fabric::PortIndex{0}), 0U);  // which is not asked for
  ASSERT_TRUE(capture_.open_tunnels(1, fabric::PortIndex{0}));
  EXPECT_EQ(show_tunnelled(fabric::PortIndex{1}), 0U);  // another port's
  EXPECT_TRUE(has_room());
  const std::uint64_t missed = show_tunnelled(fabric::PortIndex{0});
  EXPECT_GT(missed, 0U);
  EXPECT_LT(missed, std::uint64_t{kMore});
  EXPECT_TRUE(has_room());  // MADs on cables do not wait for it
  capture_.close(1);
  EXPECT_EQ(show_tunnelled(fabric::PortIndex{0}), 0U);
}

TEST_F(FullCapture, HasPacketsOfOmniPathWhole) {
  const auto packet = carriage::to_omni_path_packet(
      wire::to_opa_packet({.slid = Lid{0x12'3401}, .dlid = Lid{2}}, std::vector<std::byte>(77)));
  ASSERT_TRUE(packet);
  const mad::MadAddress to{};
  capture_.show(kHop, {.kind = mad::InterfaceKind::Gsi,
                       .slid = Lid{0x12'3401},
                       .dlid = Lid{2},
                       .psn = {},
                       .source = fabric::PortIndex{0},
                       .to = to,
                       .bytes = packet->octets,
                       .omni_path = &*packet});
  constexpr std::size_t kBytes = ring::ring_bytes(host::kTapRingCapacity);
  const auto memory = os::map_shared(*ring_, os::Protection::ReadWrite, kBytes, kBytes);
  ASSERT_TRUE(memory);
  ring::Consumer<> reader{memory->bytes()};
  const auto front = reader.front();
  ASSERT_EQ(front.state, ring::Consumer<>::State::Record);
  host::TapRecord record;
  ASSERT_EQ(front.body.size(), sizeof record + packet->octets.size());
  std::memcpy(&record, front.body.data(), sizeof record);
  EXPECT_EQ(record.format, host::TapFormat::OmniPath16b);
  EXPECT_EQ(record.direction, host::TapDirection::Out);
  EXPECT_TRUE(std::ranges::equal(front.body.subspan(sizeof record), packet->octets));
}

TEST_F(FullCapture, CountsWhatPassesUnseen) {
  constexpr int kMore = 10'000;
  for (int i = 0; i < kMore; ++i) {
    show();
  }
  const std::uint64_t missed = capture_.take_missed_count();
  EXPECT_GT(missed, 0U);
  EXPECT_LT(missed, std::uint64_t{kMore});
  EXPECT_EQ(capture_.take_missed_count(), 0U);
}

}  // namespace
}  // namespace weft::daemon
