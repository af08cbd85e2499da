// Receives of an SRQ are checked against the SRQ's PD, whatever the PD of the QP that fills them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::receive;
using testing::request;
using testing::Side;

struct Case {
  const char* name;
  QpType type;
  bool has_fast_path;
  std::uint32_t length;
};

constexpr auto kCases = std::to_array<Case>({
    {"RcOfOnePacket",   QpType::Rc,           false, 8  },
    {"RcStraight",      QpType::Rc,           true,  8  },
    {"RcOfMorePackets", QpType::Rc,           true,  600},
    {"Uc",              QpType::Uc,           false, 600},
    {"Ud",              QpType::Ud,           false, 8  },
    {"Xrc",             QpType::XrcInitiator, false, 600},
});

/// b's QP and its SRQ belong to two PDs, each with memory; `pair.b().region` belongs to the SRQ's
/// PD.
struct Apart {
  explicit Apart(const Case& of)
      : pair({.type = of.type,
              .shared_receive_queue = of.type != QpType::XrcInitiator,
              .has_fast_path = of.has_fast_path}),
        memory(0x1000) {
    Side& b = pair.b();
    auto& pd = **b.hca.allocate_pd();
    region = *b.hca.register_memory(pd, 0x90000, memory, Access::LocalWrite);
    if (of.type != QpType::XrcInitiator) {  // an XRC target has no PD of its own
      EXPECT_TRUE(b.hca.destroy_qp(*b.qp));
      b.qp = *b.hca.create_qp({
          .type = of.type,
          .pd = &pd,
          .send_cq = b.send_cq,
          .recv_cq = b.recv_cq,
          .srq = b.srq,
          .signal_all = false,
          .capabilities = {
                           .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}
      });
    }
    std::ranges::fill(pair.a().memory, std::byte{0xA5});
    pair.connect();
  }

  LoopbackPair pair;
  std::vector<std::byte> memory;
  MemoryRegion* region{};
};

class SrqPd : public ::testing::TestWithParam<Case> {};

TEST_P(SrqPd, IsThatOfTheMemoryThatReceivesFill) {  // IBTA vol 1 §10.2.3
  Apart apart{GetParam()};
  LoopbackPair& pair = apart.pair;
  receive(pair.b(), 1000);
  request(pair, {.length = GetParam().length});
  ASSERT_TRUE(pair.run());
  const auto done = pair.poll(*pair.b().recv_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::Success);
  EXPECT_EQ(std::ranges::count(pair.b().memory, std::byte{0xA5}), GetParam().length);
}

TEST_P(SrqPd, KeepsReceivesFromMemoryOfTheQpsPd) {
  Apart apart{GetParam()};
  LoopbackPair& pair = apart.pair;
  const std::array sges{
      Sge{.address = apart.region->iova, .length = 1000, .lkey = apart.region->lkey}
  };
  ASSERT_TRUE(pair.b().srq->post({.wr_id = 100, .sges = sges}));
  request(pair, {.length = GetParam().length});
  ASSERT_TRUE(pair.run());
  const auto done = pair.poll(*pair.b().recv_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::LocalProtectionError);
  EXPECT_EQ(pair.b().qp->query().state, QpState::Err);
  EXPECT_EQ(std::ranges::count(apart.memory, std::byte{0xA5}), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, SrqPd, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string{test.param.name}; });

}  // namespace
}  // namespace weft::hca
