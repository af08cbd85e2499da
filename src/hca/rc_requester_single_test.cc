#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "hca/packet_record.h"
#include "hca/testing/loopback_pair.h"

// What goes the short way (rc_requester_single.cc, rc_responder_single.cc) must be what the general
// way makes of it; and when an acknowledgement is asked for.

namespace weft::hca {
namespace {

using testing::Flight;
using testing::LoopbackPair;
using testing::Side;

constexpr std::uint32_t kMtu = 256;

struct Wish {
  WrOpcode opcode{WrOpcode::Send};
  std::uint32_t length{};
  SendFlags flags{};
  std::uint32_t sges{1};
  bool bad_lkey{};
  bool bad_rkey{};
};

/// Everything that came of some work requests, as text.
struct Story {
  std::vector<std::string> packets;
  std::vector<std::string> outcomes;
  std::vector<std::byte> memory;
  bool operator==(const Story&) const = default;
};

void tell(Story& story, LoopbackPair& pair, CompletionQueue& cq) {
  for (const Wc& wc : pair.poll(cq)) {
    story.outcomes.push_back(
        fmt::format("{} {} {} {} {} {} {} {} {} {}", wc.wr_id, static_cast<int>(wc.status),
                    static_cast<int>(wc.opcode), wc.flags.bits(), wc.byte_length, wc.immediate,
                    wc.qpn.value(), wc.src_qpn.value(), wc.slid.value(), wc.pkey_index));
  }
}

SendWr request(LoopbackPair& pair, const Wish& wish, std::vector<Sge>& sges) {
  for (std::uint32_t i = 0; i < wish.sges; ++i) {
    sges.push_back(pair.a().sge(64 * i, wish.length / wish.sges));
    if (wish.flags.has(Send::Inline)) {
      sges.back().address = std::bit_cast<std::uintptr_t>(pair.a().memory.data() + 64 * i);
    } else if (wish.bad_lkey) {
      sges.back().lkey = LKey{pair.a().region->lkey.value() + 1};
    }
  }
  SendWr wr;
  wr.wr_id = 7;
  wr.opcode = wish.opcode;
  wr.flags = wish.flags;
  wr.sges = sges;
  wr.immediate = 0x1234'5678;
  wr.remote_address = pair.b().address(0x3000);
  wr.rkey = RKey{pair.b().region->rkey.value() + (wish.bad_rkey ? 1 : 0)};
  return wr;
}

Story play(const Wish& wish, bool at_once, std::uint32_t times = 1) {
  Story story;
  LoopbackPair pair;
  for (std::size_t i = 0; i < pair.a().memory.size(); ++i) {
    pair.a().memory[i] = static_cast<std::byte>(i * 5 + 1);
  }
  pair.connect();
  for (std::uint32_t i = 0; i < times; ++i) {
    const std::array receive{pair.b().sge(0x2000, 0x800)};
    EXPECT_TRUE(pair.b().qp->post_recv({.wr_id = 100, .sges = receive}));
  }
  for (std::uint32_t i = 0; i < times; ++i) {
    std::vector<Sge> sges;
    const SendWr wr = request(pair, wish, sges);
    const auto posted = at_once ? pair.post_at_once(pair.a(), wr) : pair.a().qp->post_send(wr);
    story.outcomes.push_back(posted ? "posted" : posted.error().reason);
    pair.a().qp->check_invariants();
  }
  EXPECT_TRUE(pair.run());
  for (const Flight& flight : pair.sent) {
    std::array<std::byte, kMaxRecordHeaderBytes> record{};
    const std::size_t bytes = encode_record_header(flight.header, record);
    std::string packet = flight.to == 1 ? "to b:" : "to a:";
    for (const std::byte octet : std::span{record}.first(bytes)) {
      packet += fmt::format(" {:02x}", octet);
    }
    for (const std::byte octet : flight.payload) {
      packet += fmt::format(" {:02x}", octet);
    }
    story.packets.push_back(packet);
  }
  tell(story, pair, *pair.a().send_cq);
  tell(story, pair, *pair.b().recv_cq);
  story.memory = pair.b().memory;
  return story;
}

TEST(RcSingle, IsWhatTheGeneralWaySends) {
  for (const WrOpcode opcode : {WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImmediate,
                                WrOpcode::Send, WrOpcode::SendWithImmediate}) {
    for (const std::uint32_t length : {0U, 1U, 8U, 64U, kMtu}) {
      for (const SendFlags flags :
           {SendFlags{}, SendFlags{Send::Signaled}, Send::Signaled | SendFlags{Send::Solicited},
            Send::Signaled | SendFlags{Send::Inline}, Send::Signaled | SendFlags{Send::Fence}}) {
        const Wish wish{.opcode = opcode, .length = length, .flags = flags};
        const Story story = play(wish, true);
        EXPECT_EQ(story, play(wish, false))
            << static_cast<int>(opcode) << " of " << length << " bytes, flags " << flags.bits();
        EXPECT_EQ(story.outcomes.front(), "posted");
      }
    }
  }
}

TEST(RcSingle, LeavesToTheGeneralWayWhatIsOutOfTheOrdinary) {
  const SendFlags signaled{Send::Signaled};
  for (const Wish& wish : {
           Wish{.length = kMtu + 1, .flags = signaled},
           Wish{.length = 64, .flags = signaled, .sges = 2},
           Wish{.length = 8, .flags = signaled, .bad_lkey = true},
           Wish{.opcode = WrOpcode::RdmaWrite, .length = 8, .flags = signaled, .bad_rkey = true},
           Wish{.opcode = WrOpcode::RdmaRead, .length = 8, .flags = signaled},
           Wish{.length = 4096, .flags = signaled},
           Wish{.length = 2048, .flags = signaled | Send::Inline},
           Wish{.length = 8, .flags = signaled, .sges = 64}
  }) {
    EXPECT_EQ(play(wish, true), play(wish, false)) << wish.length << " bytes";
  }
}

TEST(RcSingle, ASeriesIsWhatTheGeneralWaySends) {
  for (const SendFlags flags : {SendFlags{}, SendFlags{Send::Signaled}}) {
    for (const WrOpcode opcode : {WrOpcode::RdmaWrite, WrOpcode::Send}) {
      const Wish wish{.opcode = opcode, .length = 8, .flags = flags};
      Story at_once = play(wish, true, 20);
      Story general = play(wish, false, 20);
      EXPECT_EQ(at_once, general);
      EXPECT_EQ(at_once.outcomes.size(),
                20U + (flags.empty() ? 0U : 20U) + (opcode == WrOpcode::Send ? 20U : 0U));
    }
  }
}

TEST(RcSingle, IsOutBeforeItsWqeIsWritten) {
  LoopbackPair pair;
  pair.connect();
  std::vector<Sge> sges;
  const SendWr wr = request(pair, {.length = 8, .flags = Send::Signaled}, sges);
  ASSERT_TRUE(pair.post_at_once(pair.a(), wr));
  EXPECT_EQ(pair.sent.size(), 1U);
  EXPECT_FALSE(pair.a().qp->wants_transmit());
  EXPECT_NE(pair.a().qp->deadline(), Instant::never()) << "the retry timer runs";
}

/// What b owes after `count` messages of a came in, before it answers.
Owed owed_after(std::uint32_t count, SendFlags flags, WrOpcode opcode = WrOpcode::RdmaWrite) {
  LoopbackPair pair;
  pair.connect();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::vector<Sge> sges;
    const SendWr wr = request(pair, {.opcode = opcode, .length = 8, .flags = flags}, sges);
    EXPECT_TRUE(pair.post_at_once(pair.a(), wr));
    EXPECT_TRUE(pair.deliver_one());
  }
  return pair.b().qp->owed();
}

TEST(RcAcknowledgement, IsAskedForByWhatTheProgramIsToldOf) {
  EXPECT_EQ(owed_after(0, {}), Owed::Nothing);
  EXPECT_EQ(owed_after(1, {}), Owed::Acknowledgement);
  EXPECT_EQ(owed_after(1, Send::Signaled), Owed::AskedAcknowledgement);
  EXPECT_EQ(owed_after(1, Send::Signaled, WrOpcode::RdmaRead), Owed::Response);
}

TEST(RcAcknowledgement, IsAskedForNowAndThen) {
  EXPECT_EQ(owed_after(16, {}), Owed::AskedAcknowledgement);
}

TEST(RcAcknowledgement, IsAskedForByAMessageOfSeveralPackets) {
  LoopbackPair pair;
  pair.connect();
  std::vector<Sge> sges;
  const SendWr wr = request(pair, {.opcode = WrOpcode::RdmaWrite, .length = 2 * kMtu}, sges);
  ASSERT_TRUE(pair.post_at_once(pair.a(), wr));
  EXPECT_TRUE(pair.sent.back().header.ack_request);
}

TEST(RcAcknowledgement, IsAskedForWhenAMessageIsSentAgain) {
  LoopbackPair pair;
  pair.connect();
  pair.filter = [](const Flight&) { return false; };
  std::vector<Sge> sges;
  ASSERT_TRUE(pair.post_at_once(pair.a(),
                                request(pair, {.opcode = WrOpcode::RdmaWrite, .length = 8}, sges)));
  EXPECT_FALSE(pair.sent.back().header.ack_request);
  pair.filter = nullptr;
  ASSERT_TRUE(pair.fire_next_timer());
  pair.collect();
  ASSERT_EQ(pair.sent.size(), 2U);
  EXPECT_TRUE(pair.sent.back().header.ack_request);
}

}  // namespace
}  // namespace weft::hca
