#include "hca/receive_scaling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "wire/ethernet.h"
#include "wire/ipoib/encapsulation.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using verbs::HashField;
using verbs::HashFields;
using verbs::ReceiveHash;

/// The key, flows and hashes that are published for verifying receive side scaling; the flows of
/// one client follow, whose hashes a bit-by-bit evaluation of the definition gave.
constexpr auto kKeyOctets = std::to_array<std::uint8_t>(
    {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
     0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
     0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa});
constexpr std::array<std::byte, verbs::kReceiveHashKeyBytes> kKey = [] {
  std::array<std::byte, verbs::kReceiveHashKeyBytes> key{};
  std::ranges::transform(kKeyOctets, key.begin(),
                         [](std::uint8_t octet) { return static_cast<std::byte>(octet); });
  return key;
}();

struct Flow {
  const char* source;
  std::uint16_t source_port;
  const char* destination;
  std::uint16_t destination_port;
  std::uint32_t of_addresses;
  std::uint32_t with_ports;
};
constexpr auto kFlows = std::to_array<Flow>({
    {"66.9.149.187",                        2794,  "161.142.100.80",           1766,  0x323e8fc2, 0x51ccc178},
    {"199.92.111.2",                        14230, "65.69.140.83",             4739,  0xd718262a, 0xc626b0ea},
    {"24.19.198.95",                        12898, "12.22.207.184",            38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30",                        48228, "209.142.163.6",            2217,  0x82989176, 0xafc7327f},
    {"153.39.163.191",                      44251, "202.188.127.2",            1303,  0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7",               2794,  "3ffe:2501:200:3::1",       1766,  0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab",      14230, "ff02::1",                  4739,  0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x4b61e985,
     0x02d1feef                                                                                             },
    {"10.0.0.1",                            1000,  "10.0.0.2",                 80,    0x02b7c9b1, 0x3fde25d2},
    {"10.0.0.1",                            1001,  "10.0.0.2",                 80,    0x02b7c9b1, 0xad408403},
    {"10.0.0.1",                            1004,  "10.0.0.2",                 80,    0x02b7c9b1, 0xdb798da6},
    {"10.0.0.1",                            1005,  "10.0.0.2",                 80,    0x02b7c9b1, 0x49e72c77},
    {"10.0.0.1",                            1008,  "10.0.0.2",                 80,    0x02b7c9b1, 0x74a41bf5},
    {"10.0.0.1",                            1009,  "10.0.0.2",                 80,    0x02b7c9b1, 0xe63aba24},
});

constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;

[[nodiscard]] HashFields fields(std::initializer_list<HashField> list) {
  HashFields all;
  for (const HashField field : list) {
    all |= field;
  }
  return all;
}
const HashFields kIpv4Pair = fields({HashField::SourceIpv4, HashField::DestinationIpv4});
const HashFields kIpv6Pair = fields({HashField::SourceIpv6, HashField::DestinationIpv6});
const HashFields kTcpPair = fields({HashField::SourcePortTcp, HashField::DestinationPortTcp});
const HashFields kUdpPair = fields({HashField::SourcePortUdp, HashField::DestinationPortUdp});

void append(std::vector<std::byte>& to, ByteSpan octets) {
  to.insert(to.end(), octets.begin(), octets.end());
}

struct Look {
  std::uint8_t protocol{kTcp};
  std::uint8_t option_dwords{};
  bool is_fragment{};
};

/// The flow's packet as IPoIB has it.
[[nodiscard]] std::vector<std::byte> packet_of(const Flow& flow, const Look& look = {}) {
  const IpAddress source = *parse_ip_address(flow.source);
  const IpAddress destination = *parse_ip_address(flow.destination);
  std::vector<std::byte> packet;
  if (source.is_v4()) {
    append(packet, wire::pack(wire::IpoibEncapsulation{.type = wire::kEtherTypeIpv4}));
    wire::Ipv4 header{.protocol = look.protocol};
    header.header_dwords = static_cast<std::uint8_t>(5 + look.option_dwords);
    header.more_fragments = look.is_fragment;
    std::ranges::copy(source.octets(), header.source.begin());
    std::ranges::copy(destination.octets(), header.destination.begin());
    append(packet, wire::pack(header));
    packet.resize(packet.size() + std::size_t{4} * look.option_dwords, std::byte{1});
  } else {
    append(packet, wire::pack(wire::IpoibEncapsulation{.type = wire::kEtherTypeIpv6}));
    wire::Ipv6 header{.next_header = look.protocol};
    std::ranges::copy(source.octets(), header.source.begin());
    std::ranges::copy(destination.octets(), header.destination.begin());
    append(packet, wire::pack(header));
  }
  for (const std::uint16_t port : {flow.source_port, flow.destination_port}) {
    packet.push_back(static_cast<std::byte>(port >> 8));
    packet.push_back(static_cast<std::byte>(port & 0xFF));
  }
  packet.resize(packet.size() + 16);
  return packet;
}

TEST(ReceiveHash, IsThePublishedOneOfEveryFlow) {
  for (const Flow& flow : kFlows) {
    SCOPED_TRACE(flow.source);
    const HashFields addresses = parse_ip_address(flow.source)->is_v4() ? kIpv4Pair : kIpv6Pair;
    EXPECT_EQ(receive_hash({addresses, kKey}, packet_of(flow)), flow.of_addresses);
    EXPECT_EQ(receive_hash({addresses | kTcpPair, kKey}, packet_of(flow)), flow.with_ports);
    EXPECT_EQ(receive_hash({addresses | kUdpPair, kKey}, packet_of(flow, {.protocol = kUdp})),
              flow.with_ports);
    EXPECT_EQ(receive_hash({addresses | kUdpPair, kKey}, packet_of(flow)), flow.of_addresses)
        << "of TCP, and only UDP's ports count";
  }
}

TEST(ReceiveHash, FindsPortsBehindOptionsAndTakesNoneOfFragments) {
  const Flow& flow = kFlows[0];
  const ReceiveHash by{kIpv4Pair | kTcpPair, kKey};
  EXPECT_EQ(receive_hash(by, packet_of(flow, {.option_dwords = 10})), flow.with_ports);
  EXPECT_EQ(receive_hash(by, packet_of(flow, {.is_fragment = true})), flow.of_addresses);
}

TEST(ReceiveHash, OfWhatHasNoneOfTheFieldsIsZero) {
  EXPECT_EQ(receive_hash({kIpv6Pair | kTcpPair, kKey}, std::vector<std::byte>(3)), 0U);
  EXPECT_EQ(receive_hash({kIpv4Pair, kKey}, packet_of(kFlows[5])), 0U) << "IPv6, and IPv4 counts";
  const auto arp = wire::pack(wire::IpoibEncapsulation{.type = wire::kEtherTypeArp});
  EXPECT_EQ(receive_hash({kIpv4Pair, kKey}, arp), 0U);
}

/// Whatever is received, and wherever it ends.
TEST(ReceiveHash, ReadsNothingBehindTheEnd) {
  Random random{3};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> packet = packet_of(kFlows[random.below(kFlows.size())]);
    packet.resize(random.below(packet.size() + 1));
    if (!packet.empty()) {
      packet[random.below(packet.size())] = static_cast<std::byte>(random());
    }
    const std::vector<std::byte> exactly{packet.begin(), packet.end()};  // ASan sees its end
    (void)receive_hash({HashFields::from_bits(static_cast<std::uint32_t>(random.below(256))), kKey},
                       exactly);
  }
}

/// Four work queues in a table of eight, and a UD QP that receives through it.
class ReceiveScalingTest : public ::testing::Test {
 protected:
  static constexpr std::array<std::size_t, 8> kEntries{0, 1, 2, 3, 2, 3, 0, 1};
  static constexpr std::uint32_t kReceiveBytes = 256;

  ReceiveScalingTest() {
    testing::Side& b = pair_.b();
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      cqs_[i] = *b.hca.create_cq(16);
      queues_[i] = *b.hca.create_wq({.pd = b.pd, .cq = cqs_[i], .depth = 16, .max_sge = 1});
    }
    std::vector<WorkQueue*> entries;
    for (const std::size_t entry : kEntries) {
      entries.push_back(queues_[entry]);
    }
    table_ = *b.hca.create_indirection_table(entries);
    qp_ = *b.hca.create_qp(init());
    plain_ = std::exchange(b.qp, qp_);  // the harness sends to it from now on
    pair_.connect();
  }

  [[nodiscard]] QpInit init() {
    QpInit init;
    init.type = QpType::Ud;
    init.pd = pair_.b().pd;
    init.send_cq = pair_.b().send_cq;
    init.capabilities.max_send_wr = 1;
    init.scaling = {
        .table = table_, .hash = {kIpv4Pair | kTcpPair, kKey}
    };
    return init;
  }
  void make_ready(std::size_t queue, unsigned receives, std::uint32_t bytes = kReceiveBytes) {
    ASSERT_TRUE(queues_[queue]->modify(std::nullopt, WorkQueueState::Ready));
    for (unsigned i = 0; i < receives; ++i) {
      const std::array sges{pair_.b().sge(0x1000 * (queue + 1) + i * std::size_t{256}, bytes)};
      ASSERT_TRUE(queues_[queue]->post({.wr_id = queue * 100 + i, .sges = sges}));
    }
  }
  void send(const Flow& flow) {
    const auto packet = packet_of(flow);
    std::ranges::copy(packet, pair_.a().memory.begin());
    testing::request(pair_, {.length = static_cast<std::uint32_t>(packet.size())});
    ASSERT_TRUE(pair_.run());
  }

  LoopbackPair pair_{{.type = QpType::Ud}};
  std::array<CompletionQueue*, 4> cqs_{};
  std::array<WorkQueue*, 4> queues_{};
  IndirectionTable* table_{};
  Qp* qp_{};
  Qp* plain_{};
};

TEST_F(ReceiveScalingTest, SpreadsFlowsOverItsQueuesByTheirHash) {  // T-WQ-2
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
    make_ready(queue, 16);
  }
  std::array<unsigned, 4> wanted{};
  for (int round = 0; round < 2; ++round) {  // the packets of a flow stay in one queue
    for (const Flow& flow : kFlows) {
      const bool is_v4 = parse_ip_address(flow.source)->is_v4();
      const std::size_t entry = is_v4 ? flow.with_ports % 8 : 0;
      ++wanted[kEntries[entry]];
      send(flow);
    }
  }
  EXPECT_EQ(wanted, (std::array<unsigned, 4>{10, 4, 10, 4}));
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
    const auto received = pair_.poll(*cqs_[queue]);
    ASSERT_EQ(received.size(), wanted[queue]) << queue;
    for (std::size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(received[i].status, WcStatus::Success);
      EXPECT_EQ(received[i].wr_id, queue * 100 + i) << "in the order of its receives";
      EXPECT_EQ(received[i].qpn, queues_[queue]->number());
      EXPECT_EQ(received[i].src_qpn, pair_.a().qp->number());
    }
  }
  const auto last = packet_of(kFlows.back());  // of 0xe63aba24: entry 4, queue 2, its 10th receive
  EXPECT_TRUE(std::ranges::equal(
      last, std::span{pair_.b().memory}.subspan(0x3000 + 9 * 256 + 40, last.size())));
}

TEST_F(ReceiveScalingTest, DropsWhatItsQueueCannotTakeAndKeepsTheReceive) {
  send(kFlows[0]);  // in RESET
  make_ready(0, 0);
  send(kFlows[0]);  // without a receive
  const std::array small{pair_.b().sge(0x1000, 50)};
  ASSERT_TRUE(queues_[0]->post({.wr_id = 1, .sges = small}));
  send(kFlows[0]);  // longer than that
  EXPECT_TRUE(pair_.poll(*cqs_[0]).empty());
  EXPECT_EQ(queues_[0]->state(), WorkQueueState::Ready);
  EXPECT_EQ(qp_->query().state, QpState::Rts);
  ASSERT_TRUE(queues_[0]->modify(std::nullopt, WorkQueueState::Error));
  const auto flushed = pair_.poll(*cqs_[0]);
  ASSERT_EQ(flushed.size(), 1U) << "the receive was kept";
  EXPECT_EQ(flushed[0].wr_id, 1U);
  EXPECT_EQ(flushed[0].status, WcStatus::WorkRequestFlushed);
}

TEST_F(ReceiveScalingTest, AReceiveThatCannotBeWrittenEndsItsQueueAlone) {
  ASSERT_TRUE(queues_[0]->modify(std::nullopt, WorkQueueState::Ready));
  const std::array bad{
      Sge{.address = 0x10, .length = 256, .lkey = LKey{0x999}}
  };
  ASSERT_TRUE(queues_[0]->post({.wr_id = 1, .sges = bad}));
  ASSERT_TRUE(queues_[0]->post({.wr_id = 2, .sges = bad}));
  make_ready(2, 1);
  send(kFlows[0]);
  const auto failed = pair_.poll(*cqs_[0]);
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].status, WcStatus::LocalProtectionError);
  EXPECT_EQ(failed[1].status, WcStatus::WorkRequestFlushed);
  EXPECT_EQ(queues_[0]->state(), WorkQueueState::Error);
  send(kFlows[1]);  // entry 2
  EXPECT_EQ(pair_.poll(*cqs_[2]).size(), 1U) << "others are not concerned";
  EXPECT_EQ(qp_->query().state, QpState::Rts);
}

TEST_F(ReceiveScalingTest, HoldsTheTableAndTheTableItsQueues) {  // R-WQ-2
  Hca& hca = pair_.b().hca;
  EXPECT_EQ(hca.destroy_wq(*queues_[0]).error().code, ErrorCode::Busy);
  EXPECT_EQ(hca.destroy_indirection_table(*table_).error().code, ErrorCode::Busy);
  const RecvWr wr{.wr_id = 1, .sges = {}};
  EXPECT_EQ(qp_->post_recv(wr).error().code, ErrorCode::InvalidArgument) << "has no receive queue";
  ASSERT_TRUE(hca.destroy_qp(*std::exchange(pair_.b().qp, plain_)));
  ASSERT_TRUE(hca.destroy_indirection_table(*table_));
  EXPECT_TRUE(hca.destroy_wq(*queues_[0]));
}

TEST_F(ReceiveScalingTest, IsRefusedWhereItDoesNotGoTogether) {
  Hca& hca = pair_.b().hca;
  const auto refusal = [&](auto change) {
    QpInit asked = init();
    change(asked);
    const auto made = hca.create_qp(asked);
    return made ? ErrorCode::Exists : made.error().code;
  };
  EXPECT_EQ(refusal([](QpInit& asked) { asked.type = QpType::Rc; }), ErrorCode::NotSupported);
  EXPECT_EQ(refusal([&](QpInit& asked) { asked.recv_cq = cqs_[0]; }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refusal([](QpInit& asked) { asked.capabilities.max_recv_wr = 1; }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(refusal([](QpInit& asked) { asked.scaling.hash.fields = kIpv4Pair | kIpv6Pair; }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(refusal([](QpInit& asked) { asked.scaling.hash.fields = kTcpPair | kUdpPair; }),
            ErrorCode::InvalidArgument);
  const std::array three{queues_[0], queues_[1], queues_[2]};
  EXPECT_EQ(hca.create_indirection_table(three).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(hca.create_indirection_table({}).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::hca
