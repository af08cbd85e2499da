#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "hca/packet_wire.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "hca/train.h"

/// Packets of the most frequent kind have a fast path through both engines and into the ring. Its
/// effects must be those of the general path, for every kind of work.
namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::receive;
using testing::Side;

/// Everything observable of a conversation.
struct Story {
  std::vector<std::vector<std::byte>> packets;  // as on the wire, in order
  std::vector<std::string> completions;
  std::vector<std::byte> memory;  // of both sides
  std::vector<std::string> events;
  std::size_t fast_path_count{};
  bool operator==(const Story& other) const {  // ignores the last member
    return packets == other.packets && completions == other.completions && memory == other.memory &&
           events == other.events;
  }
};

void tell(Story& story, LoopbackPair& pair) {
  for (int i = 0; i < 2; ++i) {
    Side& side = pair.side(i);
    for (CompletionQueue* const cq : {side.send_cq, side.recv_cq}) {
      for (const Wc& wc : pair.poll(*cq)) {
        story.completions.push_back(
            fmt::format("{} {} {} {} {} {} {:x} {:x} {:x} {:x} {} {} {}", i, wc.wr_id,
                        static_cast<int>(wc.status), static_cast<int>(wc.opcode), wc.flags.bits(),
                        wc.byte_length, wc.immediate, wc.invalidated_rkey.value(), wc.qpn.value(),
                        wc.src_qpn.value(), wc.pkey_index, wc.slid.value(), wc.sl.value()));
      }
    }
  }
}

void tell_end(Story& story, LoopbackPair& pair) {
  for (const InFlightPacket& in_flight_packet : pair.sent) {
    for (std::uint32_t i = 0; i < in_flight_packet.header.packet_count; ++i) {
      to_wire(single_of_train(in_flight_packet.packet(), i), story.packets.emplace_back());
    }
  }
  for (int i = 0; i < 2; ++i) {
    Side& side = pair.side(i);
    story.memory.insert(story.memory.end(), side.memory.begin(), side.memory.end());
    story.events.push_back(fmt::format("{} {} {}", static_cast<int>(side.qp->query().state),
                                       side.events.completions.size(), side.events.events.size()));
    story.events.insert(story.events.end(), side.events.reasons.begin(), side.events.reasons.end());
  }
}

/// Random work of one side, most of it of the most frequent kind.
void work(LoopbackPair& pair, Random& random, std::uint64_t wr_id) {
  static constexpr auto kOpcodes = std::to_array(
      {WrOpcode::Send, WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaWrite,
       WrOpcode::SendWithImmediate, WrOpcode::RdmaWriteWithImmediate, WrOpcode::SendWithInvalidate,
       WrOpcode::RdmaRead, WrOpcode::FetchAdd, WrOpcode::LocalInvalidate});
  const auto lengths = std::to_array<std::uint32_t>({0, 1, 7, 8, 9, 64, 255, 256, 257, 700});
  const int from = random.chance(1, 4) ? 1 : 0;
  Side& side = pair.side(from);
  Side& peer = pair.side(1 - from);
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = kOpcodes[random.below(kOpcodes.size())];
  wr.flags = SendFlags::from_bits(static_cast<std::uint32_t>(random.below(16)));
  const bool is_atomic = wr.opcode == WrOpcode::FetchAdd;
  const std::uint32_t length = is_atomic ? 8 : lengths[random.below(lengths.size())];
  std::array sges{side.sge(random.below(64), length), side.sge(0x400, 5)};
  if (wr.flags.has(Send::Inline)) {  // by its own address, not the region's
    for (Sge& sge : sges) {
      sge.address =
          std::bit_cast<std::uint64_t>(side.memory.data() + (sge.address - side.address()));
    }
  }
  sges[0].lkey = random.chance(1, 200) ? LKey{0x1234} : sges[0].lkey;
  const std::size_t count = is_atomic ? 1 : random.below(8) == 0 ? 2 * random.below(2) : 1;
  wr.sges = std::span{sges}.first(wr.opcode == WrOpcode::LocalInvalidate ? 0 : count);
  wr.immediate = static_cast<std::uint32_t>(random());
  wr.remote_address = peer.address(0x1000 + random.below(64) * 8);
  wr.rkey = RKey{peer.region->rkey.value() ^ (random.chance(1, 200) ? 1U : 0U)};
  if (wr.opcode == WrOpcode::SendWithInvalidate || wr.opcode == WrOpcode::LocalInvalidate) {
    wr.rkey = RKey{0x7700};  // a key that does not exist
    if (!random.chance(1, 40)) {
      wr.opcode = WrOpcode::Send;
    }
  }
  if (random.chance(1, 2)) {
    static_cast<void>(pair.post_and_transmit(from, wr));
  } else {
    static_cast<void>(side.qp->post_send(wr));
  }
}

PairOptions options_of(std::uint64_t seed, bool has_fast_path) {
  PairOptions options{.train_bytes = seed % 2 == 0 ? 0U : 1024U,
                      .depth = 16,
                      .cq_depth = seed % 16 == 5 ? 8U : 1024U,
                      .shared_receive_queue = seed % 4 == 3,
                      .first_psn = Psn{0xFFFFF0},
                      .has_fast_path = has_fast_path};
  options.qp_access = seed % 8 == 6 ? AccessFlags{Access::RemoteRead} : options.qp_access;
  options.rnr_retry = seed % 8 == 7 ? 1 : 7;
  return options;
}

Story story_of(std::uint64_t seed, bool has_fast_path) {
  Random random{seed};
  Random network{seed + 1'000'000};
  LoopbackPair pair{options_of(seed, has_fast_path)};
  for (int side = 0; side < 2; ++side) {
    std::ranges::generate(pair.side(side).memory, [&] { return static_cast<std::byte>(random()); });
  }
  pair.connect();
  if (seed % 3 == 0) {
    pair.filter = [&](InFlightPacket& in_flight_packet) {
      if (network.chance(1, 20)) {
        return false;
      }
      if (network.chance(1, 30)) {
        pair.wire.push_back(in_flight_packet);
      }
      return true;
    };
  }
  Story story;
  for (std::uint64_t step = 0; step < 150; ++step) {
    switch (random.below(6)) {
      case 0:
      case 1:
        work(pair, random, step);
        break;
      case 2: {
        Side& side = pair.side(random.chance(1, 4) ? 0 : 1);
        const std::array sges{side.sge(0x2000 + random.below(8), 256), side.sge(0x3000, 700)};
        const RecvWr wr{.wr_id = 1'000 + step, .sges = std::span{sges}.first(1 + random.below(2))};
        static_cast<void>(side.srq != nullptr ? side.srq->post(wr) : side.qp->post_recv(wr));
        break;
      }
      case 3:
        pair.side(static_cast<int>(random.below(2))).recv_cq->arm(random.chance(1, 2));
        break;
      case 4:
        pair.collect_from(static_cast<int>(random.below(2)), random.chance(1, 2) ? 1 : 4);
        break;
      default:
        for (std::uint64_t i = random.below(6); i != 0; --i) {
          static_cast<void>(pair.deliver_one());
        }
        if (random.chance(1, 4)) {
          tell(story, pair);
        }
    }
  }
  static_cast<void>(pair.run(Duration::seconds(1)));
  tell(story, pair);
  tell_end(story, pair);
  story.fast_path_count = pair.fast_path_count;
  return story;
}

TEST(FastPath, HasTheSameEffectAsTheGeneralPath) {  // docs/ARCHITECTURE.md, decision 2
  std::size_t straight = 0;
  std::size_t packets = 0;
  std::size_t completions = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Story general = story_of(seed, false);
    const Story quick = story_of(seed, true);
    EXPECT_EQ(general.completions, quick.completions) << "seed " << seed;
    EXPECT_EQ(general.events, quick.events) << "seed " << seed;
    ASSERT_TRUE(general == quick) << "seed " << seed;
    EXPECT_EQ(general.fast_path_count, 0U);
    straight += quick.fast_path_count;
    packets += quick.packets.size();
    completions += quick.completions.size();
  }
  EXPECT_GT(straight, packets / 3) << "of " << packets;
  EXPECT_GT(completions, 4'000U);
}

TEST(FastPath, IsInvalidatedByAPathChange) {
  LoopbackPair pair{{.has_fast_path = true}};
  pair.connect();
  receive(pair.b(), 64);
  receive(pair.b(), 64);
  testing::request(pair, {});
  ASSERT_TRUE(pair.run());
  PortAttributes port = pair.a().hca.port(PortNumber{1});
  port.lid = Lid{9};
  pair.a().hca.set_port(PortNumber{1}, port);
  pair.sent.clear();
  testing::request(pair, {});
  pair.collect();
  ASSERT_EQ(pair.sent.size(), 1U);
  EXPECT_EQ(pair.sent[0].header.slid, Lid{9});
  EXPECT_GT(pair.fast_path_count, 0U);
}

}  // namespace
}  // namespace weft::hca
