#include "programs/host/omni_path_attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft::programs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Octets = std::vector<std::byte>;

/// The test is the daemon.
class AnOmniPathAttachment : public ::testing::Test {
 protected:
  struct Ends {
    os::PacketSocket ours;
    os::PacketSocket theirs;
  };
  static Ends make_ends() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {.ours = os::PacketSocket{os::UniqueFd{ends[0]}},
            .theirs = os::PacketSocket{os::UniqueFd{ends[1]}}};
  }
  void daemon_says(const uabi::Message& message) {
    ASSERT_TRUE(control_.ours.send(uabi::encode(message), {}));
  }
  /// All that the daemon can read now.
  static std::vector<uabi::Message> heard(const os::PacketSocket& socket) {
    std::vector<uabi::Message> all;
    std::vector<std::byte> room(uabi::kMaxMessageBytes);
    while (const auto received = socket.receive(room)) {
      all.push_back(*uabi::decode(ByteSpan{room}.first(received->bytes)));
    }
    return all;
  }
  [[nodiscard]] std::vector<std::size_t> batches_heard() {
    std::vector<std::size_t> sizes;
    for (const uabi::Message& message : heard(packets_.ours)) {
      sizes.push_back(message.get<uabi::OmniPathPackets>().packets.size());
    }
    return sizes;
  }

  Ends control_{make_ends()};
  Ends packets_{make_ends()};
  OmniPathAttachment attachment_{std::move(control_.theirs), std::move(packets_.theirs),
                                 uabi::OmniPathPortState{.lid = Lid{0x01'0001}}};
};

TEST_F(AnOmniPathAttachment, IsToldWhatHappens) {
  EXPECT_EQ(attachment_.lid(), Lid{0x01'0001});
  EXPECT_FALSE(attachment_.is_active());
  daemon_says(
      uabi::OmniPathPortState{.lid = Lid{0x01'0002}, .is_active = true, .pkeys = {kDefaultPKey}});
  daemon_says(uabi::OmniPathGroupJoined{.mlid = Lid{0xF0'0001}, .reason = ""});
  daemon_says(uabi::OmniPathGroupJoined{.mlid = Lid{0xC001}, .reason = "no"});
  daemon_says(uabi::OmniPathPortsChanged{});
  const auto news = attachment_.take_news();
  ASSERT_TRUE(news);
  EXPECT_TRUE(news->has_port_changed);
  EXPECT_TRUE(news->have_ports_changed);
  EXPECT_THAT(news->joined, ElementsAre(Pair(Lid{0xF0'0001}, true), Pair(Lid{0xC001}, false)));
  EXPECT_FALSE(news->listed);
  EXPECT_EQ(attachment_.lid(), Lid{0x01'0002});
  EXPECT_TRUE(attachment_.is_active());
  EXPECT_THAT(attachment_.pkeys(), ElementsAre(kDefaultPKey));
  EXPECT_FALSE(attachment_.take_news()->has_port_changed);
}

TEST_F(AnOmniPathAttachment, HasAListWhenAllOfItIsThere) {
  const uabi::OmniPathPortInfo port{.host = "h2",
                                    .lid = Lid{0x01'0002},
                                    .is_active = true,
                                    .capabilities = uabi::kOmniPathEthernetOnFabric | 1U,
                                    .capability_changes = 3};
  daemon_says(uabi::OmniPathPorts{.is_last = false, .ports = {port}});
  EXPECT_FALSE(attachment_.take_news()->listed);
  daemon_says(uabi::OmniPathPorts{.is_last = true, .ports = {{.host = "h3", .capabilities = 1}}});
  const auto news = attachment_.take_news();
  ASSERT_TRUE(news->listed);
  ASSERT_EQ(news->listed->size(), 2U);
  EXPECT_EQ(news->listed->front().host, "h2");
  EXPECT_EQ(news->listed->front().serial, 3U);
  EXPECT_TRUE(news->listed->front().carries_ethernet);
  EXPECT_FALSE(news->listed->back().carries_ethernet);
  EXPECT_FALSE(news->listed->back().is_active);
}

TEST_F(AnOmniPathAttachment, SaysWhatItWantsWithTheNextFlush) {
  attachment_.join(Lid{0xF0'0001});
  attachment_.leave(Lid{0xF0'0002});
  attachment_.set_carries_ethernet(true);
  attachment_.set_carries_ethernet(false);
  attachment_.ask_for_ports();
  EXPECT_TRUE(attachment_.keeps_words());
  EXPECT_THAT(heard(control_.ours), IsEmpty());
  ASSERT_TRUE(attachment_.flush());
  EXPECT_FALSE(attachment_.keeps_words());
  const auto said = heard(control_.ours);
  ASSERT_EQ(said.size(), 5U);
  EXPECT_EQ(said[0].get<uabi::JoinOmniPathGroup>().mlid, Lid{0xF0'0001});
  EXPECT_EQ(said[1].get<uabi::LeaveOmniPathGroup>().mlid, Lid{0xF0'0002});
  EXPECT_EQ(said[2].get<uabi::SetOmniPathCapabilities>().mask, uabi::kOmniPathEthernetOnFabric);
  EXPECT_EQ(said[3].get<uabi::SetOmniPathCapabilities>().mask, 0U);
  EXPECT_EQ(said[4].get<uabi::AskOmniPathPorts>().host, "");
}

TEST_F(AnOmniPathAttachment, SendsPacketsInBatchesOfManyOrOfFewLongOnes) {
  for (std::size_t i = 0; i < uabi::kMaxOmniPathPackets + 1; ++i) {
    EXPECT_TRUE(attachment_.send(Octets(100)));
  }
  EXPECT_THAT(batches_heard(), IsEmpty());
  ASSERT_TRUE(attachment_.flush());
  EXPECT_THAT(batches_heard(), ElementsAre(uabi::kMaxOmniPathPackets, 1U));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(attachment_.send(Octets(10'280)));
  }
  ASSERT_TRUE(attachment_.flush());
  EXPECT_THAT(batches_heard(), ElementsAre(2U, 1U));
  EXPECT_FALSE(attachment_.keeps_packets());
}

TEST_F(AnOmniPathAttachment, KeepsWhatHasNoRoomAndLosesWhatIsTooMuch) {
  std::size_t sent = 0;
  while (!attachment_.keeps_packets()) {
    EXPECT_TRUE(attachment_.send(Octets(1'000)));
    ++sent;
    ASSERT_TRUE(attachment_.flush());
  }
  while (attachment_.has_room()) {
    EXPECT_TRUE(attachment_.send(Octets(1'000)));
    ++sent;
  }
  while (attachment_.send(Octets(1'000))) {
    ++sent;
  }
  ASSERT_TRUE(attachment_.flush());
  std::size_t came = 0;
  while (attachment_.keeps_packets()) {
    for (const std::size_t size : batches_heard()) {
      came += size;
    }
    ASSERT_TRUE(attachment_.flush());
  }
  for (const std::size_t size : batches_heard()) {
    came += size;
  }
  EXPECT_EQ(came, sent);
  EXPECT_GT(sent, OmniPathAttachment::kMostKept);
  EXPECT_TRUE(attachment_.has_room());
}

TEST_F(AnOmniPathAttachment, ReceivesPacketsAndLearnsOfThoseThatAreLost) {
  const Octets first(60, std::byte{1});
  const Octets second(61, std::byte{2});
  ASSERT_TRUE(packets_.ours.send(uabi::encode(uabi::OmniPathPackets{
                                     .lost = 7, .packets = {{first}, {second}}
  }),
                                 {}));
  std::vector<Octets> came;
  const auto take = [&](ByteSpan packet) { came.emplace_back(packet.begin(), packet.end()); };
  const auto more = attachment_.receive(take);
  ASSERT_TRUE(more);
  EXPECT_FALSE(*more);
  EXPECT_THAT(came, ElementsAre(first, second));
  EXPECT_EQ(attachment_.lost(), 7U);
}

TEST_F(AnOmniPathAttachment, KnowsThatTheFabricIsGone) {
  daemon_says(uabi::Refused{"the node was removed from the fabric"});
  EXPECT_EQ(attachment_.take_news().error().code, ErrorCode::NoSuchDevice);
  control_.ours.close();
  packets_.ours.close();
  EXPECT_EQ(attachment_.take_news().error().code, ErrorCode::NoSuchDevice);
  EXPECT_EQ(attachment_.receive([](ByteSpan) {}).error().code, ErrorCode::NoSuchDevice);
  attachment_.ask_for_ports();
  EXPECT_EQ(attachment_.flush().error().code, ErrorCode::NoSuchDevice);
}

}  // namespace
}  // namespace weft::programs
