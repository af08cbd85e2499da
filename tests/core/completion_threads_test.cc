#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/drain.h"
#include "core/registry.h"
#include "core/testing/engine_pair.h"
#include "threaded_environment.h"

namespace weft::core {
namespace {

using testing::End;
using testing::EngineNetwork;
using testing::ThreadedEnvironment;
using namespace std::chrono_literals;

/// Two hosts with a QP each, connected, and a thread that is the wire.
struct LivePair {
  explicit LivePair(const testing::EndOptions& options) {
    environment.run_world([this] { return network.step(); });
    network.add_host(registry);
    network.add_host(registry);
    testing::open_end(a, network.host(0).device(), options);
    testing::open_end(b, network.host(1).device(), options);
    testing::connect_end(a, EngineNetwork::lid_of(1), b.qp->number());
    testing::connect_end(b, EngineNetwork::lid_of(0), a.qp->number());
  }
  ~LivePair() {
    close_a();
    testing::close_end(b);
    environment.stop_world();
    network.unregister_all();
  }

  /// Before the pair's end.
  void close_a() {
    if (a.qp != nullptr) {
      testing::close_end(a);
      a.qp = nullptr;
    }
  }

  ThreadedEnvironment environment;
  Registry registry{environment};
  EngineNetwork network{environment};
  End a;
  End b;
};

/// Numbers of requests in the order of their `done` calls.
struct Order {
  std::vector<int> numbers;  // of one CQ: its calls are one after the other
  std::atomic<std::size_t> count{};
  std::atomic<int> inside{};
  std::atomic<bool> is_freed{};
  std::chrono::milliseconds takes{};
};

struct Numbered {
  CompletionHandler handler{.done = done};  // first: found by its address
  int number{};
  Order* order{};

  static void done(Cq& /*cq*/, const Wc& wc) {
    const auto* const self = static_cast<Numbered*>(static_cast<void*>(wc.handler()));
    Order& order = *self->order;
    EXPECT_EQ(order.inside.fetch_add(1), 0) << "two handlers of one CQ at once";
    EXPECT_FALSE(order.is_freed) << "a handler after its CQ was freed";
    order.numbers.push_back(self->number);
    std::this_thread::sleep_for(order.takes);
    order.inside.fetch_sub(1);
    order.count.fetch_add(1);
  }
};

/// Looks again and again, since nothing tells the environment of it.
[[nodiscard]] bool reaches(const Order& order, std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (order.count < count && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(1ms);
  }
  return order.count >= count;
}

[[nodiscard]] SendWr send_of(const Numbered& request) {
  SendWr wr;
  wr.wr_id = wr_id_of(request.handler);
  wr.opcode = verbs::WrOpcode::RdmaWrite;  // of no bytes: needs no receive
  wr.flags = verbs::Send::Signaled;
  return wr;
}

// T-CQ-1
TEST(CompletionThreads, TellTenThousandSendsInTheirOrderAndNoneOnceTheCqIsFreed) {
  constexpr int kAll = 10'000;
  constexpr int kUnderWay = 100;  // when the CQ goes
  constexpr std::uint32_t kDepth = 128;
  Order order;
  std::deque<Numbered> requests;
  {
    LivePair pair{{.depth = kDepth}};
    for (int i = 0; i < kAll; ++i) {
      requests.push_back({.number = i, .order = &order});
      // No more than the CQ holds: the send queue has room as soon as a completion is there.
      while (order.count + kDepth <= static_cast<std::size_t>(i) ||
             !post_send(*pair.a.qp, send_of(requests.back()))) {
        std::this_thread::yield();
      }
    }
    ASSERT_TRUE(reaches(order, kAll));
    order.takes = 1ms;
    for (int i = 0; i < kUnderWay; ++i) {
      requests.push_back({.number = kAll + i, .order = &order});
      ASSERT_TRUE(post_send(*pair.a.qp, send_of(requests.back())));
    }
    ASSERT_TRUE(reaches(order, kAll + 1));
    pair.close_a();  // while others are under way, and one is in its handler
    order.is_freed = true;
    const std::size_t told = order.count;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(order.count, told);
  }
  ASSERT_GE(order.numbers.size(), static_cast<std::size_t>(kAll));
  for (int i = 0; i < kAll; ++i) {
    ASSERT_EQ(order.numbers[static_cast<std::size_t>(i)], i);
  }
}

// T-CQ-5, whose million rounds and watchdog of 1 s are those of long runs, which have the machine
// for themselves; a wake that is lost is as lost after 10 s. No more than one request is
// outstanding, so that each round arms the CQ against it.
TEST(CompletionThreads, LoseNoWakeOverManyRoundsOfArmAndPoll) {
  const bool is_long = std::getenv("WEFT_CHURN_SECONDS") != nullptr;
  const int rounds = is_long ? 1'000'000 : 20'000;
  const std::chrono::seconds watchdog = is_long ? 1s : 10s;
  ThreadedEnvironment environment;
  Registry registry{environment};
  EngineNetwork network{environment};
  engine::Engine& engine = network.add_host(registry);
  Cq* const cq = *allocate_cq(engine.device(), {.entries = 4});
  auto& ring = *static_cast<hca::CompletionQueue*>(cq->driver_data);
  struct Ping {
    CompletionHandler handler{.done = [](Cq&, const Wc& wc) {
      static_cast<Ping*>(static_cast<void*>(wc.handler()))->seen.fetch_add(1);
    }};
    std::atomic<int> seen{};
  } ping;
  hca::Wc wc;
  wc.wr_id = wr_id_of(ping.handler);
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(ring.push(wc, false));
    const auto start = std::chrono::steady_clock::now();
    while (ping.seen.load() != round + 1) {
      if (std::chrono::steady_clock::now() - start > watchdog) {
        FAIL() << "round " << round << " stalls";
      }
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(free_cq(*cq));
  network.unregister_all();
}

// T-DRN-3
TEST(CompletionThreads, AreDrainedWhenTheLastSlowHandlerHasReturned) {
  Order order;
  order.takes = 10ms;
  std::deque<Numbered> requests;
  LivePair pair{{.depth = 64}};
  for (int i = 0; i < 40; ++i) {
    requests.push_back({.number = i, .order = &order});
    ASSERT_TRUE(post_send(*pair.a.qp, send_of(requests.back())));
  }
  ASSERT_TRUE(drain_qp(*pair.a.qp));
  EXPECT_EQ(order.count, 40U);
  EXPECT_EQ(order.inside, 0);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(order.count, 40U);
}

TEST(CompletionThreads, OfAForeignContextMayBePolledDirectlyAsWell) {
  std::atomic<int> seen{};
  struct Shared {
    CompletionHandler handler{.done = [](Cq&, const Wc& wc) {
      static_cast<Shared*>(static_cast<void*>(wc.handler()))->seen->fetch_add(1);
    }};
    std::atomic<int>* seen{};
  };
  Shared request{.seen = &seen};
  ThreadedEnvironment environment;
  Registry registry{environment};
  EngineNetwork network{environment};
  engine::Engine& engine = network.add_host(registry);
  Cq* const cq = *allocate_cq(engine.device(), {.entries = 10'000});
  auto& ring = *static_cast<hca::CompletionQueue*>(cq->driver_data);
  std::atomic<bool> stops{};
  std::thread poller{[&] {
    while (!stops) {
      process_cq_direct(*cq, 16);
    }
  }};
  hca::Wc wc;
  wc.wr_id = wr_id_of(request.handler);
  for (int i = 0; i < 5'000; ++i) {
    ASSERT_TRUE(ring.push(wc, false));
  }
  environment.wait_until([&] { return seen == 5'000; },
                         environment.now() + Duration::milliseconds(200));
  while (seen != 5'000) {
    std::this_thread::yield();
  }
  stops = true;
  poller.join();
  EXPECT_TRUE(free_cq(*cq));
  network.unregister_all();
}

// T-RVT-9, of the core's own visit: QPs may be created and destroyed meanwhile.
TEST(QpThreads, AreVisitedOnceEachWhileOthersComeAndGo) {
  constexpr std::size_t kStay = 10'000;
  ThreadedEnvironment environment;
  Registry registry{environment};
  EngineNetwork network{environment};
  engine::Engine& engine = network.add_host(registry, {}, [](hca::HcaConfiguration& configuration) {
    configuration.limits.max_qp = 12'000;
  });
  End end;
  testing::open_end(end, engine.device());
  const auto make = [&] {
    QpInit init;
    init.send_cq = end.send_cq;
    init.recv_cq = end.recv_cq;
    init.capabilities = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    return *create_qp(*end.pd, init);
  };
  std::set<Qp*> stay;
  while (stay.size() < kStay) {
    stay.insert(make());
  }
  std::atomic<bool> stops{};
  std::atomic<unsigned> churned{};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stops) {
        EXPECT_TRUE(destroy_qp(*make()));
        ++churned;
      }
    });
  }
  for (int visit = 0; visit < 20; ++visit) {
    std::map<Qp*, int> seen;
    for_each_qp(engine.device(), [&](Qp& qp) {
      EXPECT_EQ(qp.type(), verbs::QpType::Rc);  // it is alive
      ++seen[&qp];
    });
    for (Qp* const qp : stay) {
      ASSERT_EQ(seen[qp], 1);
    }
  }
  stops = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(churned, 0U);
  for (Qp* const qp : stay) {
    ASSERT_TRUE(destroy_qp(*qp));
  }
  testing::close_end(end);
  network.unregister_all();
}

}  // namespace
}  // namespace weft::core
