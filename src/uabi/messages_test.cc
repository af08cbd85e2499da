#include "uabi/messages.h"

#include <gtest/gtest.h>

#include "base/process_slot.h"
#include "base/random.h"

namespace weft::uabi {
namespace {

UmadPort port_of_device() {
  return {
      .number = 1,
      .state = 4,
      .physical_state = 5,
      .lmc = 1,
      .lid = Lid{2},
      .sm_lid = Lid{1},
      .sm_sl = ServiceLevel{3},
      .is_infiniband = true,
      .gigabits = 100,
      .capability_mask = 2,
      .gid = Gid{kDefaultGidPrefix, Guid{9}},
      .pkeys = {PKey{0xFFFF}, PKey{0x8001}}
  };
}

UmadHeader header_of_mad() {
  return {
      .agent = 3,
      .status = 110,
      .timeout_ms = 1'000,
      .retries = 3,
      .qpn = kQp1,
      .lid = Lid{4},
      .sl = ServiceLevel{1},
      .path_bits = 1,
      .pkey_index = 2,
      .has_grh = true,
      .hop_limit = 64,
      .traffic_class = 5,
      .flow_label = 0xFFFFF,
      .gid = Gid{kDefaultGidPrefix, Guid{8}}
  };
}

std::vector<Message> one_of_each() {
  return {
      Hello{.host = "h1"},
      OpenLane{{7, 3}},
      JoinGroup{4, Lid{0xC001}, Gid{0xFF0E'0000'0000'0000, Guid{5}}},
      LeaveGroup{4, Lid{0xC001}, Gid{0xFF0E'0000'0000'0000, Guid{5}}},
      TapReady{9},
      PeerMisbehaves{{1, 3}, Misbehaviour::ForgedSource, 4'096},
      Welcome{.self = {1, 2}, .time_scale = TimeScale{100'000}},
      Refused{"no host h9: the fabric has h1 and h2"},
      Lane{{1, 5}, 1},
      NoSuchProcess{{1, 5}},
      LaneClosed{{1, 5}},
      TablesChanged{},
      GroupMembers{Lid{0xC000}, {{0, 1}, {1, 1}}},
      OpenTap{1, 2},
      CloseTap{1},
      Query{.kind = QueryKind::Faults},
      StartCapture{.port = "s1:3"},
      AddFault{.rule = "drop p=0.01"},
      ClearFaults{.number = 7},
      Down{},
      Text{true, "{}"},
      CaptureLive{6},
      CaptureSource{{1, 1}},
      ListUmadDevices{kVersion, "s1"},
      DescribeUmadDevice{kVersion, "h1", "weft0"},
      FindIsSm{kVersion, "h1", "weft0", 1},
      OpenUmad{kVersion, "h1", "weft0", 1},
      RegisterUmadAgent{0x03, 2, 1, false, 0x1405, {1U << 2, 1U << 1}},
      UnregisterUmadAgent{31},
      UmadDevices{{"weft0", "weft1"}},
      UmadDevice{false, Guid{1}, Guid{2}, {port_of_device()}},
      IsSm{"issm0"},
      UmadOpened{},
      UmadAnswer{13, 0, "the class is another's"},
      UmadMad{header_of_mad(), std::vector<std::byte>(256, std::byte{3})},
      LongUmadMad{header_of_mad(), 100'000},
      ChangePort{.port = "s1:3", .change = "width=1x"},
      OpenXrcDomain{1, 0, true, false},
      XrcDomainOpened{1, 0, true, "no domain of that file is open"},
      CloseXrcDomain{7},
      XrcRelay{.peer = {0, 2},
            .domain = 7,
            .word = XrcWord::WantDeputy,
            .serial = 3,
            .target = Qpn{0x4001},
            .deputy = {},
            .source = Qpn{0x8001},
            .slid = Lid{5},
            .sl = 1,
            .port = 1,
            .pkey_index = 2,
            .path_mtu = 5,
            .min_rnr_timer = 12},
      ChangeNode{.change = "add host h9 link=s1:7"}
  };
}

TEST(Messages, ComeBackAsTheyWere) {
  const std::vector<Message> messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    EXPECT_EQ(message.index(), i);
    const auto bytes = encode(message);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().reason;
    EXPECT_EQ(encode(*decoded), bytes);
  }
}

TEST(Messages, RefuseEveryTruncationAndEveryTrailingByte) {
  for (const Message& message : one_of_each()) {
    auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(ByteSpan{bytes}.first(size))) << message.index() << " at " << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << message.index();
  }
}

TEST(Messages, NeverCrashOnForeignBytes) {
  Random random{1};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(random.below(64));
    for (std::byte& octet : bytes) {
      octet = static_cast<std::byte>(random());
    }
    if (bytes.size() >= 4) {
      bytes[0] = static_cast<std::byte>(random.below(std::variant_size_v<Message>));
      bytes[1] = bytes[2] = bytes[3] = std::byte{0};
    }
    static_cast<void>(decode(bytes));
  }
}

TEST(Messages, RefuseWhatNoSenderMeans) {
  auto lane = encode(Message{
      Lane{{1, kSlotCount - 1}, 1}
  });
  EXPECT_TRUE(decode(lane));
  lane[9] = std::byte{0xFF};  // slot beyond 10 bits
  EXPECT_FALSE(decode(lane));
  auto query = encode(Message{Query{}});
  query.back() = std::byte{7};
  EXPECT_FALSE(decode(query));
  auto report = encode(Message{
      PeerMisbehaves{{1, 3}, Misbehaviour::NobodyThere, 1}
  });
  EXPECT_TRUE(decode(report));
  report[12] = static_cast<std::byte>(kMisbehaviourCount + 1);
  EXPECT_FALSE(decode(report));
  report[12] = std::byte{0};
  EXPECT_FALSE(decode(report));
  auto welcome = encode(Message{
      Welcome{.self = {1, 2}, .time_scale = {}}
  });
  EXPECT_TRUE(decode(welcome));
  welcome[welcome.size() - 3] = welcome[welcome.size() - 2] = std::byte{0};  // a millionth of time
  EXPECT_FALSE(decode(welcome));
  auto mad = encode(Message{
      UmadMad{header_of_mad(), std::vector<std::byte>(kMaxMadBytesInMessage)}
  });
  ASSERT_TRUE(decode(mad));
  const auto decoded = decode(mad);
  EXPECT_EQ(std::get<UmadMad>(*decoded).header, header_of_mad());
  mad.push_back(std::byte{});
  mad[mad.size() - kMaxMadBytesInMessage - 5] = std::byte{1};  // one byte more than there may be
  EXPECT_FALSE(decode(mad));
  auto relay = encode(Message{XrcRelay{}});
  EXPECT_TRUE(decode(relay));
  relay[24] = std::byte{1};  // a QPN of 25 bits
  EXPECT_FALSE(decode(relay));
  relay[24] = std::byte{0};
  relay[16] = std::byte{9};  // no word
  EXPECT_FALSE(decode(relay));
  auto text = encode(Message{
      Text{true, "x"}
  });
  text[4] = std::byte{2};  // no bool
  EXPECT_FALSE(decode(text));
}

}  // namespace
}  // namespace weft::uabi
