// FLUSH (IBTA vol 1 annex A19): when it is answered, the data written before it is where it asked
// for.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "hca/memory_window.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;

/// Records what is made persistent, and its first byte at that time.
class Recorded final : public UserMemory {
 public:
  bool fault_in(std::span<std::byte> /*range*/, bool /*for_writing*/) override { return true; }
  bool persist(std::span<std::byte> range) override {
    ranges.push_back(range);
    first_bytes.push_back(range.empty() ? std::byte{} : range.front());
    return works;
  }
  std::vector<std::span<std::byte>> ranges;
  std::vector<std::byte> first_bytes;
  bool works{true};
};

constexpr AccessFlags kFlushes = AccessFlags{Access::FlushGlobal} | Access::FlushPersistent;
constexpr AccessFlags kAccess = AccessFlags{Access::RemoteWrite} | Access::RemoteRead | kFlushes;
constexpr FlushScope kPersistent{.length = 8, .placement = wire::kPlacementPersistent};
constexpr FlushScope kGlobal{.length = 8, .placement = wire::kPlacementGlobal};
constexpr FlushScope kWhole{.length = 12'345,
                            .placement = wire::kPlacementGlobal | wire::kPlacementPersistent,
                            .selectivity = wire::FlushSelectivity::Region};

class RcFlush : public ::testing::Test {
 protected:
  [[nodiscard]] PairOptions options() {
    PairOptions made;
    made.region_access = kAccess | Access::LocalWrite;
    made.qp_access = kAccess;
    made.user_memory = &memory_;
    return made;
  }
  /// A FLUSH of b's memory starting at byte `offset`.
  [[nodiscard]] static SendWr flush(LoopbackPair& pair, const FlushScope& scope,
                                    std::size_t offset = 16) {
    SendWr wr = testing::signaled(WrOpcode::Flush, {});
    wr.remote_address = pair.b().address(offset);
    wr.rkey = pair.b().region->rkey;
    wr.flush = scope;
    if (pair.a().qp->type() == QpType::XrcInitiator) {
      wr.xrc_srqn = pair.b().srq->xrc().number;
    }
    return wr;
  }
  [[nodiscard]] static WcStatus outcome(LoopbackPair& pair, const SendWr& wr) {
    testing::post(*pair.a().qp, wr);
    EXPECT_TRUE(pair.run());
    const auto completions = pair.poll(*pair.a().send_cq);
    EXPECT_EQ(completions.size(), 1U);
    return completions.empty() ? WcStatus::GeneralError : completions[0].status;
  }

  Recorded memory_;
};

TEST_F(RcFlush, IsDoneAfterTheWriteBeforeItAndAnsweredByAnEmptyReadResponse) {
  for (const QpType type : {QpType::Rc, QpType::XrcInitiator}) {
    PairOptions how = options();
    how.type = type;
    LoopbackPair pair{how};
    memory_.ranges.clear();
    pair.connect();
    pair.a().memory[0] = std::byte{0x5A};
    testing::request(pair, {.opcode = WrOpcode::RdmaWrite, .length = 1'000, .offset = 16});
    testing::post(*pair.a().qp, flush(pair, kPersistent));
    ASSERT_TRUE(pair.run());
    const auto completions = pair.poll(*pair.a().send_cq);
    ASSERT_EQ(completions.size(), 2U);
    EXPECT_EQ(completions[1].status, WcStatus::Success);
    EXPECT_EQ(completions[1].opcode, WcOpcode::Flush);
    ASSERT_EQ(memory_.ranges.size(), 1U);
    EXPECT_EQ(memory_.ranges[0].data(), &pair.b().memory[16]);
    EXPECT_EQ(memory_.ranges[0].size(), 8U);
    EXPECT_EQ(memory_.first_bytes.back(), std::byte{0x5A});
    const auto request =
        std::ranges::find_if(pair.sent, [](const InFlightPacket& in_flight_packet) {
          return (static_cast<unsigned>(in_flight_packet.header.opcode) & 0x1F) == 0x1C;
        });
    ASSERT_NE(request, pair.sent.end());
    EXPECT_TRUE(request->payload.empty());
    EXPECT_EQ(request->header.extension.reth.dma_length, 8U);
    EXPECT_EQ(request->header.extension.flush.feth,
              (wire::Feth{.selectivity = 0, .placement = wire::kPlacementPersistent}));
    const auto answer = std::ranges::find_if(pair.sent, [](const InFlightPacket& in_flight_packet) {
      return wire::opcode_info(in_flight_packet.header.opcode)->operation ==
             wire::Operation::RdmaReadResponse;
    });
    ASSERT_NE(answer, pair.sent.end());
    EXPECT_TRUE(answer->payload.empty());
  }
}

TEST_F(RcFlush, OfGlobalVisibilityMakesNothingPersistent) {
  LoopbackPair pair{options()};
  pair.connect();
  EXPECT_EQ(outcome(pair, flush(pair, kGlobal)), WcStatus::Success);
  EXPECT_TRUE(memory_.ranges.empty());
}

TEST_F(RcFlush, OfARegionIsAboutAllOfIt) {
  LoopbackPair pair{options()};
  pair.connect();
  EXPECT_EQ(outcome(pair, flush(pair, kWhole, 1U << 20)), WcStatus::Success)
      << "no address is read";
  ASSERT_EQ(memory_.ranges.size(), 1U);
  EXPECT_EQ(memory_.ranges[0].data(), pair.b().memory.data());
  EXPECT_EQ(memory_.ranges[0].size(), pair.b().memory.size());
  EXPECT_EQ(pair.sent[0].header.extension.reth.dma_length, 0U);
}

TEST_F(RcFlush, IsAnsweredAgainButNotDoneAgainWhenTheAnswerIsLost) {  // oA19-14, oA19-15
  LoopbackPair pair{options()};
  pair.connect();
  int answers = 0;
  pair.filter = [&](const InFlightPacket& in_flight_packet) {
    return in_flight_packet.flow != Flow::Response || ++answers > 1;
  };
  EXPECT_EQ(outcome(pair, flush(pair, kPersistent)), WcStatus::Success);
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(memory_.ranges.size(), 1U);
}

TEST_F(RcFlush, TakesAResponderResource) {
  PairOptions how = options();
  how.max_rd_atomic = 1;
  LoopbackPair pair{how};
  pair.connect();
  testing::request(pair, {.opcode = WrOpcode::RdmaRead});
  testing::post(*pair.a().qp, flush(pair, kGlobal));
  pair.collect();
  EXPECT_EQ(pair.sent.size(), 1U) << "the READ is outstanding";
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.poll(*pair.a().send_cq).size(), 2U);
}

TEST_F(RcFlush, NeedsTheRightOfQpAndRegionForEachPlace) {
  struct Case {
    AccessFlags qp;
    AccessFlags region;
    FlushScope scope;
    WcStatus status;
  };
  constexpr AccessFlags kJustGlobal{Access::FlushGlobal};
  constexpr FlushScope kBoth{.length = 8,
                             .placement = wire::kPlacementGlobal | wire::kPlacementPersistent};
  for (const Case& test : std::vector<Case>{
           {kFlushes,                kJustGlobal,             kGlobal,     WcStatus::Success             },
           {kFlushes,                kJustGlobal,             kPersistent, WcStatus::RemoteAccessError   },
           {kFlushes,                kJustGlobal,             kBoth,       WcStatus::RemoteAccessError   },
           {kFlushes,                kJustGlobal,             kWhole,      WcStatus::RemoteAccessError   },
           {kFlushes,                Access::FlushPersistent, kGlobal,     WcStatus::RemoteAccessError   },
           {kJustGlobal,             kFlushes,                kPersistent, WcStatus::RemoteInvalidRequest},
           {Access::FlushPersistent, kFlushes,                kGlobal,     WcStatus::RemoteInvalidRequest},
           {{},                      kFlushes,                kGlobal,     WcStatus::RemoteInvalidRequest},
  }) {
    PairOptions how = options();
    how.qp_access = test.qp | Access::RemoteWrite;
    how.region_access = test.region | Access::LocalWrite;
    LoopbackPair pair{how};
    pair.connect();
    EXPECT_EQ(outcome(pair, flush(pair, test.scope)), test.status);
    EXPECT_TRUE(memory_.ranges.empty());
  }
}

TEST_F(RcFlush, IsRefusedOutsideTheRegionAndByAnotherKey) {
  for (const auto& [offset, length, key_change] : {
           std::tuple{(1U << 16) - 4, 8U, 0U},
           {1U << 16,       1U, 0U},
           {(1U << 16) + 1, 0U, 0U},
           {16U,            0U, 1U},
           {16U,            8U, 1U},
  }) {
    LoopbackPair pair{options()};
    pair.connect();
    SendWr wr = flush(pair, {.length = length, .placement = wire::kPlacementPersistent}, offset);
    wr.rkey = RKey{wr.rkey.value() ^ key_change};
    EXPECT_EQ(outcome(pair, wr), WcStatus::RemoteAccessError);
    EXPECT_TRUE(memory_.ranges.empty());
  }
}

TEST_F(RcFlush, ThatThePeerCannotCarryOutIsARemoteAccessError) {
  memory_.works = false;
  LoopbackPair pair{options()};
  pair.connect();
  EXPECT_EQ(outcome(pair, flush(pair, kPersistent)), WcStatus::RemoteAccessError);
}

TEST_F(RcFlush, WithReservedCodesIsAnInvalidRequest) {
  for (const wire::Feth& feth : {
           wire::Feth{.selectivity = 0, .placement = 0},
           {.selectivity = 0, .placement = 4},
           {.selectivity = 2, .placement = 1},
  }) {
    LoopbackPair pair{options()};
    pair.connect();
    pair.filter = [&](InFlightPacket& in_flight_packet) {
      if (in_flight_packet.flow == Flow::Request) {
        in_flight_packet.header.extension.flush.feth = feth;
      }
      return true;
    };
    EXPECT_EQ(outcome(pair, flush(pair, kGlobal)), WcStatus::RemoteInvalidRequest);
  }
}

TEST_F(RcFlush, IsRefusedWhenItIsPostedWithoutAPlaceOrWithData) {
  LoopbackPair pair{options()};
  pair.connect();
  const auto code = [&](SendWr wr) {
    const auto posted = pair.a().qp->post_send(wr);
    return posted ? ErrorCode{} : posted.error().code;
  };
  EXPECT_EQ(code(flush(pair, {.length = 8})), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(flush(pair, {.length = 8, .placement = 4})), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(flush(pair, {.length = (1U << 31) + 1, .placement = 1})),
            ErrorCode::InvalidArgument);
  SendWr wr = flush(pair, kGlobal);
  wr.flush.selectivity = static_cast<wire::FlushSelectivity>(2);
  EXPECT_EQ(code(wr), ErrorCode::InvalidArgument);
  wr = flush(pair, kGlobal);
  const std::array sges{pair.a().sge(0, 8)};
  wr.sges = sges;
  EXPECT_EQ(code(wr), ErrorCode::InvalidArgument);
  PairOptions how = options();
  how.type = QpType::Uc;
  LoopbackPair uc{how};
  uc.connect();
  EXPECT_EQ(uc.a().qp->post_send(flush(uc, kGlobal)).error().code, ErrorCode::InvalidArgument);
}

TEST_F(RcFlush, MayNameAWindowThatHasTheRight) {
  for (const bool has_right : {true, false}) {
    PairOptions how = options();
    how.region_access |= Access::MemoryWindowBind;
    LoopbackPair pair{how};
    memory_.ranges.clear();
    pair.connect();
    MemoryWindow& window = **pair.b().hca.allocate_window(*pair.b().pd, WindowType::Type2);
    const WindowBinding binding{.rkey = RKey{window.rkey().value() ^ 1},
                                .lkey = pair.b().region->lkey,
                                .address = pair.b().address(64),
                                .length = 32,
                                .access = has_right ? AccessFlags{Access::FlushPersistent}
                                                    : AccessFlags{Access::RemoteWrite}};
    SendWr bind = testing::signaled(WrOpcode::BindMemoryWindow, {});
    bind.binding = &binding;
    testing::post(*pair.b().qp, bind);
    ASSERT_TRUE(pair.run());
    SendWr wr = flush(pair, kPersistent);
    wr.flush.selectivity = wire::FlushSelectivity::Region;
    wr.rkey = binding.rkey;
    EXPECT_EQ(outcome(pair, wr), has_right ? WcStatus::Success : WcStatus::RemoteAccessError);
    ASSERT_EQ(memory_.ranges.size(), has_right ? 1U : 0U);
    if (has_right) {
      EXPECT_EQ(memory_.ranges[0].data(), &pair.b().memory[64]);
      EXPECT_EQ(memory_.ranges[0].size(), 32U);
    }
  }
}

}  // namespace
}  // namespace weft::hca
