// Several threads of a program using the same objects on a fabric: the thread safety that verbs
// promise, checked by the thread sanitizer.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "daemon/testing/live_program.h"

namespace weft::daemon {
namespace {

using testing::LiveFabric;
using testing::Program;

constexpr std::uint32_t kMessage = 64;  // bytes
constexpr Duration kWaitLimit = Duration::seconds(120);

/// Completions of one kind, each of which must come once.
class Tally {
 public:
  explicit Tally(std::size_t expected) : seen_(expected) {}

  void count(const hca::Wc& wc) {
    EXPECT_EQ(wc.status, hca::WcStatus::Success);
    ASSERT_LT(wc.wr_id, seen_.size());
    EXPECT_EQ(seen_[wc.wr_id].fetch_add(1), 0) << "request " << wc.wr_id << " completed again";
    total_.fetch_add(1);
  }
  [[nodiscard]] bool is_complete() const { return total_.load() == seen_.size(); }
  [[nodiscard]] std::size_t total() const { return total_.load(); }

 private:
  std::vector<std::atomic<int>> seen_;
  std::atomic<std::size_t> total_{0};
};

/// Passes the completions of `cq` to `take(const Wc&)`.
template <class Take>
void poll(Program& program, hca::CompletionQueue& cq, Take take) {
  std::array<hca::Wc, 8> completions;
  const std::size_t count = cq.poll(completions);
  for (std::size_t i = 0; i < count; ++i) {
    take(completions[i]);
  }
  program.process->make_progress(cq);
}

[[nodiscard]] bool post(Program& program, hca::Qp& qp, hca::WrOpcode opcode, std::uint64_t wr_id,
                        std::size_t offset, const Program& peer) {
  const hca::Sge sge{
      .address = program.address() + offset, .length = kMessage, .lkey = program.region->lkey};
  hca::SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.sges = {&sge, 1};
  wr.remote_address = peer.address() + offset;
  wr.rkey = peer.region->rkey;
  return program.process->post_send(qp, wr).has_value();
}

/// QPs of two programs, joined pairwise; those of `b` receive from one SRQ.
struct Bundle {
  Bundle(const LiveFabric& fabric, std::size_t count) : a(fabric.on("h1")), b(fabric.on("h2")) {
    srq = *b.engine.create_srq(*b.pd, 64, 1, 0);
    hca::QpInit shared = b.init;
    shared.srq = srq;
    for (std::size_t i = 0; i < count; ++i) {
      from.push_back(*a.process->create_qp(0, a.init));
      to.push_back(*b.process->create_qp(0, shared));
      a.connect(*from.back(), b.lid(), to.back()->number(), 14, 7);
      b.connect(*to.back(), a.lid(), from.back()->number(), 14, 7);
    }
  }
  ~Bundle() {
    for (hca::Qp* qp : from) {
      EXPECT_TRUE(a.process->destroy_qp(0, *qp));
    }
    for (hca::Qp* qp : to) {
      EXPECT_TRUE(b.process->destroy_qp(0, *qp));
    }
  }

  /// Each receive has its own memory, since a thread may post much later than others.
  void receive(std::uint64_t wr_id) const {
    const hca::Sge sge{.address = b.address() + (1U << 19) + wr_id * kMessage,
                       .length = kMessage,
                       .lkey = b.region->lkey};
    EXPECT_TRUE(srq->post({
        .wr_id = wr_id, .sges = {&sge, 1}
    }));
  }

  Program a;
  Program b;
  hca::SharedReceiveQueue* srq{};
  std::vector<hca::Qp*> from;
  std::vector<hca::Qp*> to;
};

/// A thread posts on each QP; all of them poll the one CQ. On the other side two threads poll the
/// one CQ and refill the one SRQ.
TEST(LiveThreads, OfAQpEachShareACqAndAnSrq) {
  constexpr std::size_t kThreads = 4;
  constexpr std::uint64_t kMessages = 500;  // of each thread
  constexpr std::uint64_t kAll = kThreads * kMessages;
  constexpr std::uint64_t kReceives = 32;  // at a time
  const LiveFabric fabric{"pair"};
  Bundle bundle{fabric, kThreads};
  const Instant deadline = os::now() + kWaitLimit;
  Tally sent{kAll};
  Tally received{kAll};
  std::atomic<std::uint64_t> next_receive{0};
  while (next_receive < kReceives) {
    bundle.receive(next_receive++);
  }
  std::vector<std::thread> threads;
  for (std::size_t which = 0; which < kThreads; ++which) {
    threads.emplace_back([&, which] {
      for (std::uint64_t posted = 0; !sent.is_complete() && os::now() < deadline;) {
        if (posted < kMessages && post(bundle.a, *bundle.from[which], hca::WrOpcode::Send,
                                       which * kMessages + posted, which * kMessage, bundle.b)) {
          ++posted;
        }
        poll(bundle.a, *bundle.a.cq, [&](const hca::Wc& wc) { sent.count(wc); });
      }
    });
  }
  for (int which = 0; which < 2; ++which) {
    threads.emplace_back([&] {
      while (!received.is_complete() && os::now() < deadline) {
        poll(bundle.b, *bundle.b.cq, [&](const hca::Wc& wc) {
          received.count(wc);
          if (const std::uint64_t wr_id = next_receive.fetch_add(1); wr_id < kAll) {
            bundle.receive(wr_id);
          }
        });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sent.total(), kAll);
  EXPECT_EQ(received.total(), kAll);
  EXPECT_TRUE(bundle.a.cq->is_empty() && bundle.b.cq->is_empty());
}

/// Two threads post to one QP and poll one CQ: WRITEs and READs, each completed
/// once, whoever finds it.
TEST(LiveThreads, ShareAQpAndACq) {
  constexpr std::uint64_t kRequests = 1'500;  // of each thread
  const LiveFabric fabric{"pair"};
  Program a{fabric.on("h1")};
  Program b{fabric.on("h2")};
  a.connect(b.lid(), b.qp->number());
  b.connect(a.lid(), a.qp->number());
  const Instant deadline = os::now() + kWaitLimit;
  Tally done{2 * kRequests};
  std::vector<std::thread> threads;
  for (std::uint64_t which = 0; which < 2; ++which) {
    threads.emplace_back([&, which] {
      for (std::uint64_t posted = 0; !done.is_complete() && os::now() < deadline;) {
        const bool reads = posted % 2 != 0;
        const std::size_t place = 2 * which + (reads ? 1 : 0);  // exclusive to this thread
        if (posted < kRequests &&
            post(a, *a.qp, reads ? hca::WrOpcode::RdmaRead : hca::WrOpcode::RdmaWrite,
                 which * kRequests + posted, place * kMessage, b)) {
          ++posted;
        }
        poll(a, *a.cq, [&](const hca::Wc& wc) { done.count(wc); });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(done.total(), 2 * kRequests);
  EXPECT_TRUE(a.cq->is_empty());
}

}  // namespace
}  // namespace weft::daemon
