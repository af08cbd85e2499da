#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/live_bug.h"
#include "ring/sleeper.h"
#include "ring/testing/explored_atomics.h"
#include "ring/testing/explorer.h"

/// Peers that send and ring, an application that polls and takes doorbells, and a progress thread
/// that naps and sleeps, in every interleaving that the bounds below allow: nobody sleeps while
/// something lies in a ring that nobody watches. Mistakes that let it are found.

namespace weft::ring {
namespace {

using testing::ExploredAtomics;
using testing::ExploredFutex;
using testing::Explorer;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

struct Plan {
  std::uint32_t peers{1};
  std::uint32_t records{1};   // of each peer
  bool are_urgent{true};      // or of the kind that a polling application takes
  std::uint32_t polls{1};     // of the application
  bool polls_lane{false};     // it takes from lane 0, too, and not only doorbells
  bool says_it_waits{false};  // after its polls; otherwise it just stops
  std::uint32_t to_self{0};   // records that the application sends to its own process
  bool sets_deadline{false};  // after its polls
  std::uint32_t naps{0};      // as often the thread naps while there is a lease
};

/// Asks, when a wait is over although nobody woke the thread, whether that was right.
struct CheckedFutex : ExploredFutex {
  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration longest) {
    if (!Explorer::running()->sleep_while(word, expected, longest < kUnbounded)) {
      at_end_of_time();
    }
  }
  static inline std::function<void()> at_end_of_time;
};

/// A lane: counts of records published and taken stand for its ring.
struct Lane {
  Attention attention;
  std::atomic<std::uint32_t> number;  // on the board of doorbells
  std::atomic<std::uint32_t> published;
  std::atomic<std::uint32_t> taken;
  std::atomic<std::uint32_t> owned;  // some thread is at the ring
  bool is_to_self{};
};

/// Memory of a process and its peers.
template <class Atomics>
struct World {
  explicit World(const Plan& of_run) : plan(of_run), naps_left(of_run.naps) {
    sleeper.attach(page);
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      lanes.at(i).number = i;
      lanes.at(i).attention.sleeping = static_cast<std::uint32_t>(Sleep::Sound);  // as a new lane
    }
    self().is_to_self = true;
    self().attention.sleeping = 0;
    to_take = plan.peers * plan.records + plan.to_self + (plan.sets_deadline ? 1 : 0);
  }

  [[nodiscard]] Lane& self() { return lanes.back(); }
  [[nodiscard]] bool is_done() const { return taken_in_all == to_take; }

  enum class Taken : std::uint8_t { Nothing, Some, IsOwned };

  Taken take(Lane& lane) {
    if (Atomics::load(lane.published, kAcquire) == Atomics::load(lane.taken, kAcquire)) {
      return Taken::Nothing;
    }
    if (Atomics::exchange(lane.owned, 1, kAcquire) != 0) {
      return Taken::IsOwned;
    }
    const std::uint32_t published = Atomics::load(lane.published, kAcquire);
    const std::uint32_t taken = Atomics::load(lane.taken, kRelaxed);
    Atomics::store(lane.taken, published, kRelease);
    Atomics::store(lane.owned, 0, kRelease);
    taken_in_all += published - taken;
    return published != taken ? Taken::Some : Taken::Nothing;
  }

  // The peers.

  void send_to(Lane& lane) {
    for (std::uint32_t count = 1; count <= plan.records; ++count) {
      Atomics::store(lane.published, count, kRelease);
      ring_doorbell<CheckedFutex>(lane.attention, lane.number, page, plan.are_urgent);
    }
  }

  // The application.

  void poll() {
    sleeper.begin_lease();
    sleeper.consume_doorbells([this](std::uint32_t number) { return number < lanes.size(); });
    if (plan.polls_lane && sleeper.watches(0)) {
      take(lanes[0]);
    }
  }

  void run_application() {
    for (std::uint32_t count = 1; count <= plan.to_self; ++count) {
      Atomics::store(self().published, count, kRelease);
      sleeper.hand_over(static_cast<std::uint32_t>(lanes.size() - 1));
    }
    for (std::uint32_t i = 0; i < plan.polls; ++i) {
      poll();
    }
    if (plan.sets_deadline) {
      Atomics::store(deadline_ns, 1, kRelaxed);
      sleeper.notify_deadline(Instant{Duration::nanoseconds(1)});
    }
    if (plan.says_it_waits) {
      sleeper.end_lease();
      application_waits = true;
    }
    if (is_done()) {
      sleeper.wake_now();  // that the thread ends, too
    }
    application_has_stopped = true;
  }

  // The progress thread; it is what Sleeper wants of one.

  struct LaneOfThread {
    World& world;
    Lane& of_lane;
    [[nodiscard]] static bool is_open() { return true; }
    [[nodiscard]] Attention* attention() const {
      return of_lane.is_to_self ? nullptr : &of_lane.attention;
    }
    [[nodiscard]] bool try_own() const {
      return Atomics::exchange(of_lane.owned, 1, kAcquire) == 0;
    }
    void destroy_unreported() const { Atomics::store(of_lane.owned, 0, kRelease); }
    [[nodiscard]] bool has_something(Sleep sleep) const {
      return (sleep != Sleep::Napping || world.plan.are_urgent) &&
             Atomics::load(of_lane.published, kAcquire) != Atomics::load(of_lane.taken, kRelaxed);
    }
  };
  LaneOfThread lane(std::uint32_t number) { return {*this, lanes.at(number)}; }
  [[nodiscard]] bool is_polled(std::uint32_t number) const {
    return plan.polls_lane && number == 0 && !application_has_stopped;
  }
  [[nodiscard]] static bool must_not_wait() { return false; }
  [[nodiscard]] static Duration how_long_to_nap() { return Duration::microseconds(50); }
  [[nodiscard]] Instant wakes_at() { return deadline(); }
  [[nodiscard]] bool finds_work(Instant wakes_at) { return is_done() || deadline() < wakes_at; }
  [[nodiscard]] Duration how_long_to_sleep() const {
    return knows_deadline ? Duration::nanoseconds(1) : ExploredFutex::kUnbounded;
  }

  Instant deadline() {
    const std::int64_t at = Atomics::load(deadline_ns, kRelaxed);
    knows_deadline = at != kNoDeadline;
    return Instant{Duration::nanoseconds(at)};
  }

  /// One round: false if it found nothing.
  bool look() {
    bool has_taken = false;
    bool is_owned = false;
    sleeper.consume_doorbells([this](std::uint32_t number) { return number < lanes.size(); });
    sleeper.for_each_polled_lane([&](std::uint32_t number) {
      const Taken taken = take(lanes.at(number));
      has_taken = has_taken || taken == Taken::Some;
      is_owned = is_owned || taken == Taken::IsOwned;
    });
    if (plan.sets_deadline && !has_met_deadline && deadline() != Instant::never()) {
      has_met_deadline = has_taken = true;
      ++taken_in_all;
    }
    if (is_owned && !has_taken) {
      Explorer::running()->pause();  // who owns the ring will let go of it
    }
    return has_taken || is_owned;
  }

  void run_thread() {
    while (!is_done()) {
      if (look()) {
        continue;
      }
      if (naps_left != 0 && sleeper.has_lease()) {
        --naps_left;
        naps = true;
        static_cast<void>(sleeper.nap(*this));
        naps = false;
        check_after_nap();
      } else if (sleeper.sleep(*this) == SleepEnd::LaneHadNews) {
        let_owners_go_on();
      }
    }
  }

  /// A ring that another thread has counts as one with news.
  void let_owners_go_on() const {
    if (std::ranges::any_of(
            lanes, [](const Lane& each) { return Explorer::running()->newest(each.owned) != 0; })) {
      Explorer::running()->pause();
    }
  }

  void check_after_nap() const {
    for (const Lane& each : lanes) {
      Explorer::running()->check(
          Explorer::running()->newest(each.attention.sleeping) == 0 || !is_watched(each),
          "who looks asks for no doorbell");
    }
  }
  /// Nobody else goes on, and nobody has ended the nap.
  void check_end_of_nap() const {
    Explorer& explorer = *Explorer::running();
    for (const Lane& each : lanes) {
      const auto asked = static_cast<Sleep>(explorer.newest(each.attention.sleeping));
      const bool has_news = explorer.newest(each.published) != explorer.newest(each.taken);
      explorer.check(!has_news || !wants_doorbell(asked, plan.are_urgent),
                     "what rings a doorbell ends a nap");
    }
    explorer.check(!application_waits, "no nap outlasts the lease");
  }
  [[nodiscard]] bool is_watched(const Lane& each) const {
    return sleeper.watches(static_cast<std::uint32_t>(&each - lanes.data()));
  }

  static constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

  const Plan plan;
  BasicAttentionPage<Atomics> page;
  Sleeper<CheckedFutex, Atomics> sleeper;
  std::array<Lane, 3> lanes{};  // of two peers, and to the process itself
  std::atomic<std::int64_t> deadline_ns{kNoDeadline};

  // What only the scenario knows.
  std::uint32_t to_take{};
  std::uint32_t taken_in_all{};
  std::uint32_t naps_left;
  bool knows_deadline{};
  bool has_met_deadline{};
  bool naps{};
  bool application_waits{};
  bool application_has_stopped{};
};

template <class Atomics = ExploredAtomics>
Explorer::Scenario process(const Plan& plan) {
  return [plan](Explorer& explorer) {
    constexpr std::array<std::string_view, 2> kPeers{"peer 0", "peer 1"};
    constexpr std::array<std::string_view, 3> kLanes{"lane 0", "lane 1", "lane to self"};
    const auto world = std::make_shared<World<Atomics>>(plan);
    explorer.share("page", world->page);
    explorer.share("sleeper", world->sleeper);
    explorer.share("deadline", world->deadline_ns);
    for (std::size_t i = 0; i < kLanes.size(); ++i) {
      explorer.share(kLanes.at(i), world->lanes.at(i));
    }
    CheckedFutex::at_end_of_time = [world = world.get()] {
      if (world->naps) {
        world->check_end_of_nap();
      }
    };
    for (std::size_t i = 0; i < plan.peers; ++i) {
      explorer.add_fiber(kPeers.at(i), [world, i] { world->send_to(world->lanes.at(i)); });
    }
    explorer.add_fiber("application", [world] { world->run_application(); });
    explorer.add_fiber("thread", [world] { world->run_thread(); });
  };
}

/// Policy: the runs of one exploration.
constexpr std::uint64_t kRunsMax = 3'000'000;
constexpr std::uint64_t kRandomRuns = 10'000;

struct Sound {
  std::string_view name;
  Plan plan;
  std::size_t deviations;  // as many as take some seconds
};

constexpr Sound kSound[] = {
    {"WhilePollingAnotherCq",  {.records = 2, .polls = 2},                                2},
    {"WhilePollingTheLane",    {.records = 2, .polls = 2, .polls_lane = true},            2},
    {"OfOneRecord",            {.records = 1, .polls = 1},                                3},
    {"OfTwoPeers",             {.peers = 2},                                              1},
    {"OfUrgentOnesDuringNaps", {.records = 2, .polls = 2, .polls_lane = true, .naps = 2}, 2},
    {"WhenTheLeaseEnds",
     {.records = 2,
      .are_urgent = false,
      .polls = 1,
      .polls_lane = true,
      .says_it_waits = true,
      .naps = 1},
     2                                                                                     },
    {"OfRecordsToItself",      {.peers = 0, .polls = 1, .to_self = 2},                    3},
    {"OfDeadlines",            {.peers = 0, .polls = 1, .sets_deadline = true},           3},
    {"OfAll",
     {.records = 1,
      .polls = 2,
      .says_it_waits = true,
      .to_self = 1,
      .sets_deadline = true,
      .naps = 1},
     2                                                                                     },
};

class SoundSleeperInterleaving : public ::testing::TestWithParam<Sound> {};

TEST_P(SoundSleeperInterleaving, LosesNoWake) {
  const Sound& param = GetParam();
  const auto report =
      Explorer::every(process<>(param.plan), {.deviations = param.deviations, .runs = kRunsMax});
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete) << report.runs << " runs were not enough";
  EXPECT_EQ(Explorer::at_random(process<>(param.plan), 1, kRandomRuns).failure, "");
  RecordProperty("runs", std::to_string(report.runs));
}

INSTANTIATE_TEST_SUITE_P(, SoundSleeperInterleaving, ::testing::ValuesIn(kSound),
                         [](const auto& each) { return std::string{each.param.name}; });

constexpr std::string_view kSleepsForEver = "thread sleeps for ever";

/// Nobody makes a full fence.
struct NoFence : ExploredAtomics {
  static void fence() {}
};

TEST(SleeperInterleaving, FindsThatFencesAreMissing) {
  const auto report = Explorer::every(process<NoFence>({.records = 2, .polls = 1}),
                                      {.deviations = 2, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, kSleepsForEver.size()), kSleepsForEver) << report.failure;
}

#ifdef WEFT_PLANTED_BUGS

/// Every mistake of LiveBug that the explorer is to find, and what it says then.
struct PlantedBug {
  LiveBug bug;
  std::string_view name;
  Plan plan;
  std::string_view failure;
};

constexpr PlantedBug kPlantedBugs[] = {
    {LiveBug::DoorbellConsumedSilently, "DoorbellConsumedSilently", {.polls = 1},                                              kSleepsForEver},
    {LiveBug::DoorbellClearedLate,
     "DoorbellClearedLate",                                         {.records = 2, .polls = 1},
     kSleepsForEver                                                                                                                          },
    {LiveBug::DoorbellNotAdded,         "DoorbellNotAdded",         {.polls = 1},                                              kSleepsForEver},
    {LiveBug::FinalScanSkipped,         "FinalScanSkipped",         {.records = 2, .polls = 1},                                kSleepsForEver},
    {LiveBug::SleepAnnouncedTooLate,
     "SleepAnnouncedTooLate",                                       {.records = 2, .polls = 1},
     kSleepsForEver                                                                                                                          },
    {LiveBug::SleepAnnouncedTooLate,
     "NapAnnouncedLate",                                            {.records = 2, .polls = 2, .polls_lane = true, .naps = 2},
     "not so: what rings a doorbell ends a nap"                                                                                              },
    {LiveBug::NapEndNotSaid,
     "NapEndNotSaid",                                               {.records = 1, .polls = 2, .naps = 1},
     "not so: who looks asks for no doorbell"                                                                                                },
    {LiveBug::NotifiedWithoutFence,
     "HandedOverWithoutFence",                                      {.peers = 0, .to_self = 2},
     kSleepsForEver                                                                                                                          },
    {LiveBug::NotifiedWithoutFence,
     "DeadlineSetWithoutFence",                                     {.peers = 0, .polls = 0, .sets_deadline = true},
     kSleepsForEver                                                                                                                          },
    {LiveBug::NotifiedWithoutFence,
     "LeaseEndedWithoutFence",                                      {.records = 2,
      .are_urgent = false,
      .polls = 1,
      .polls_lane = true,
      .says_it_waits = true,
      .naps = 1},
     "not so: no nap outlasts the lease"                                                                                                     },
};

class PlantedSleeperInterleaving : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void SetUp() override { plant({.bug = GetParam().bug, .missing_nets = {}, .pause = nullptr}); }
  void TearDown() override { plant({}); }
};

TEST_P(PlantedSleeperInterleaving, IsFound) {
  const auto report =
      Explorer::every(process<>(GetParam().plan), {.deviations = 3, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, GetParam().failure.size()), GetParam().failure)
      << report.failure;
  EXPECT_NE(Explorer::at_random(process<>(GetParam().plan), 1, 200'000).failure, "");
}

INSTANTIATE_TEST_SUITE_P(, PlantedSleeperInterleaving, ::testing::ValuesIn(kPlantedBugs),
                         [](const auto& each) { return std::string{each.param.name}; });

#endif

}  // namespace
}  // namespace weft::ring
