#include "core/cq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "core/testing/fake_driver.h"
#include "core/testing/manual_environment.h"

namespace weft::core {
namespace {

using ::testing::ElementsAre;
using testing::FakeDriver;

/// A request that writes down when it was done.
struct Request {
  CompletionHandler handler{.done = done};  // first: found by its address
  int number{};
  std::vector<int>* log{};

  static void done(Cq& /*cq*/, const Wc& wc) {
    auto* const self = static_cast<Request*>(static_cast<void*>(wc.handler()));
    self->log->push_back(self->number);
  }
};

class CqTest : public ::testing::Test {
 protected:
  CqTest() {
    if (!driver_.register_as("X")) {
      ADD_FAILURE() << "the device is not registered";
    }
  }
  ~CqTest() override { registry_.unregister_device(driver_.device()); }

  [[nodiscard]] Cq& make(PollContext context, std::uint32_t entries = 1'000) {
    return **allocate_cq(driver_.device(),
                         {.entries = entries, .vector = 1, .poll_context = context});
  }
  void complete(Cq& cq, int number) {
    requests_.push_back(std::make_unique<Request>());
    requests_.back()->number = number;
    requests_.back()->log = &log_;
    driver_.complete(cq, &requests_.back()->handler);
  }

  testing::ManualEnvironment environment_;
  Registry registry_{environment_};
  FakeDriver driver_{registry_};
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<int> log_;
};

// T-CQ-2
TEST_F(CqTest, DirectIsPolledByItsUserAloneAndInBudgets) {
  Cq& cq = make(PollContext::Direct);
  for (int i = 0; i < 12; ++i) {
    complete(cq, i);
  }
  environment_.run_all();
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(process_cq_direct(cq, 5), 5);
  EXPECT_EQ(log_.size(), 5U);
  EXPECT_EQ(process_cq_direct(cq, 5), 5);
  EXPECT_EQ(process_cq_direct(cq, 5), 2);
  EXPECT_EQ(process_cq_direct(cq, 5), 0);
  EXPECT_THAT(log_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  for (int i = 0; i < 100; ++i) {
    complete(cq, i);
  }
  EXPECT_EQ(process_cq_direct(cq, -1), 100);
  EXPECT_EQ(process_cq_direct(cq, 0), 0);
  EXPECT_FALSE(driver_.fake(cq).is_armed);
  EXPECT_TRUE(free_cq(cq));
}

TEST_F(CqTest, IsPolledInItsContextOnItsVector) {
  const std::map<PollContext, WorkContext> contexts{
      {PollContext::SoftIrq,          WorkContext::SoftIrq         },
      {PollContext::WorkQueue,        WorkContext::WorkQueue       },
      {PollContext::UnboundWorkQueue, WorkContext::UnboundWorkQueue},
  };
  for (const auto& [context, expected] : contexts) {
    log_.clear();
    Cq& cq = make(context);
    EXPECT_TRUE(driver_.fake(cq).is_armed);
    complete(cq, 1);
    complete(cq, 2);
    EXPECT_TRUE(log_.empty());
    ASSERT_EQ(environment_.posted().size(), 1U);
    EXPECT_EQ(environment_.posted().front().context, expected);
    EXPECT_EQ(environment_.posted().front().vector, 1U);
    environment_.run_all();
    EXPECT_THAT(log_, ElementsAre(1, 2));
    EXPECT_TRUE(driver_.fake(cq).is_armed);  // again
    complete(cq, 3);
    environment_.run_all();
    EXPECT_THAT(log_, ElementsAre(1, 2, 3));
    EXPECT_TRUE(free_cq(cq));
  }
}

TEST_F(CqTest, GivesOthersTheirTurnAfterItsBudget) {
  Cq& cq = make(PollContext::SoftIrq);
  constexpr int kAll = 2 * kCqSoftIrqBudget + 10;
  for (int i = 0; i < kAll; ++i) {
    complete(cq, i);
  }
  const unsigned polls = driver_.fake(cq).polls;
  ASSERT_TRUE(environment_.run_one());
  EXPECT_EQ(log_.size(), static_cast<std::size_t>(kCqSoftIrqBudget));
  EXPECT_EQ(driver_.fake(cq).polls - polls, kCqSoftIrqBudget / kCqBatch);
  EXPECT_FALSE(driver_.fake(cq).is_armed);
  ASSERT_TRUE(environment_.run_one());
  EXPECT_EQ(log_.size(), 2U * kCqSoftIrqBudget);
  ASSERT_TRUE(environment_.run_one());
  EXPECT_EQ(log_.size(), static_cast<std::size_t>(kAll));
  EXPECT_FALSE(environment_.run_one());
  EXPECT_TRUE(driver_.fake(cq).is_armed);
  EXPECT_TRUE(free_cq(cq));
}

TEST_F(CqTest, PollsAgainForWhatCameWhileItWasArmed) {
  // A completion of a driver that makes no event for what came before the CQ was armed.
  static Cq* late_for = nullptr;
  static Request late;
  static unsigned arms = 0;
  late_for = nullptr;
  arms = 0;
  late.log = &log_;
  late.number = 7;
  FakeDriver driver{
      registry_, kInfinibandPort, [](DeviceInit& init) {
        init.operations.request_notify = [](Cq& cq, NotifyFlags flags) {
          ++arms;
          if (late_for == &cq) {
            late_for = nullptr;
            testing::driver_of(cq.device()).fake(cq).wr_ids.push_back(wr_id_of(late.handler));
          }
          testing::FakeDriver::FakeCq& fake = testing::driver_of(cq.device()).fake(cq);
          fake.is_armed = true;
          return Result<bool>{flags.has(NotifyFlag::ReportMissedEvents) && !fake.wr_ids.empty()};
        };
      }};
  ASSERT_TRUE(driver.register_as("Y"));
  Cq& cq = **allocate_cq(driver.device(), {.entries = 10});
  requests_.push_back(std::make_unique<Request>());
  requests_.back()->log = &log_;
  late_for = &cq;
  driver.complete(cq, &requests_.back()->handler);
  environment_.run_all();
  EXPECT_THAT(log_, ElementsAre(0, 7));
  EXPECT_EQ(cq.counters().missed_events, 1U);
  EXPECT_EQ(cq.counters().completions, 2U);
  EXPECT_EQ(arms, 3U);  // at its creation, and after each round
  EXPECT_TRUE(free_cq(cq));
  registry_.unregister_device(driver.device());
}

TEST_F(CqTest, IsPolledOnForAWhileBeforeItIsArmedWhereItLingers) {
  constexpr Duration kLingers = Duration::microseconds(50);
  Cq& cq = **allocate_cq(driver_.device(), {.entries = 10, .lingers = kLingers});
  complete(cq, 1);
  ASSERT_TRUE(environment_.run_one());
  EXPECT_THAT(log_, ElementsAre(1));
  EXPECT_FALSE(driver_.fake(cq).is_armed);
  EXPECT_EQ(environment_.posted().size(), 1U) << "others have their turn";
  complete(cq, 2);  // which makes no event
  environment_.skip(kLingers - Duration::nanoseconds(1));
  ASSERT_TRUE(environment_.run_one());
  EXPECT_THAT(log_, ElementsAre(1, 2));
  EXPECT_FALSE(driver_.fake(cq).is_armed);
  environment_.skip(kLingers);
  environment_.run_all();
  EXPECT_TRUE(driver_.fake(cq).is_armed);
  EXPECT_EQ(cq.counters().armed, 1U);
  complete(cq, 3);
  EXPECT_EQ(environment_.posted().size(), 1U) << "it is told again";
  EXPECT_TRUE(free_cq(cq));
  EXPECT_THAT(log_, ElementsAre(1, 2));
}

/// What has happened, by whom.
struct Told {
  static void done(Cq& cq, const Wc& /*wc*/) { log += cq.is_in_batch() ? 'd' : '?'; }
  static void end(Cq& cq) { log += cq.is_in_batch() ? '?' : 'e'; }
  static std::string log;
};
std::string Told::log;

TEST_F(CqTest, TellsWhenTheHandlersOfABatchAreOver) {
  const CompletionHandler handler{.done = Told::done};
  Told::log.clear();
  Cq& cq = **allocate_cq(driver_.device(), {.entries = 100, .on_batch_end = Told::end});
  for (unsigned i = 0; i < kCqBatch + 2; ++i) {
    driver_.complete(cq, &handler);
  }
  environment_.run_all();
  EXPECT_EQ(Told::log, std::string(kCqBatch, 'd') + "edde");
  EXPECT_TRUE(free_cq(cq));
}

TEST_F(CqTest, RunsNoHandlerOnceItIsFreed) {
  Cq& cq = make(PollContext::WorkQueue);
  complete(cq, 1);
  EXPECT_TRUE(free_cq(cq));
  environment_.run_all();
  EXPECT_TRUE(log_.empty());
}

TEST_F(CqTest, IsNotPolledWhileItsDriverDestroysIt) {
  FakeDriver driver{registry_, kInfinibandPort, [](DeviceInit& init) {
                      init.operations.destroy_cq = [](Cq& cq) -> Result<void> {
                        FakeDriver& own = testing::driver_of(cq.device());
                        Environment& environment = cq.device().environment();
                        const unsigned polls = own.fake(cq).polls;
                        own.complete(cq, nullptr);  // the last, told when others have their turn
                        environment.wait_until([] { return false; },
                                               environment.now() + Duration::milliseconds(1));
                        EXPECT_EQ(own.fake(cq).polls, polls);
                        return {};
                      };
                    }};
  ASSERT_TRUE(driver.register_as("Y"));
  EXPECT_TRUE(free_cq(**allocate_cq(driver.device(), {.entries = 10})));
  registry_.unregister_device(driver.device());
}

TEST_F(CqTest, IsNotFreedWhileQueuesUseItAndWorksOn) {
  Cq& cq = make(PollContext::WorkQueue);
  cq.hold();
  const auto refused = free_cq(cq);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
  complete(cq, 1);
  environment_.run_all();
  EXPECT_THAT(log_, ElementsAre(1));
  cq.put();
  EXPECT_TRUE(free_cq(cq));
}

TEST_F(CqTest, LogsACompletionWithoutAHandlerAndGoesOn) {
  Cq& cq = make(PollContext::WorkQueue);
  CompletionHandler nothing{};
  driver_.complete(cq, nullptr);
  driver_.complete(cq, &nothing);
  complete(cq, 3);
  environment_.run_all();
  EXPECT_THAT(log_, ElementsAre(3));
  EXPECT_EQ(environment_.logged("has no handler"), 2U);
  EXPECT_TRUE(free_cq(cq));
}

// T-CQ-4
TEST_F(CqTest, OfAnyVectorAreSpreadOverThem) {
  std::map<unsigned, int> per_vector;
  std::vector<Cq*> cqs;
  for (int i = 0; i < 32; ++i) {
    cqs.push_back(*allocate_any_cq(driver_.device(), {.entries = 10}));
    ++per_vector[cqs.back()->vector()];
  }
  EXPECT_EQ(per_vector.size(), 4U);
  for (const auto& [vector, count] : per_vector) {
    EXPECT_EQ(count, 8) << vector;
  }
  for (Cq* const cq : cqs) {
    EXPECT_TRUE(free_cq(*cq));
  }
}

TEST_F(CqTest, IsRefusedOfNoContextNoVectorOrNoSize) {
  const auto code_of = [&](const CqInit& init) {
    return allocate_cq(driver_.device(), init).error().code;
  };
  EXPECT_EQ(code_of({.entries = 1, .poll_context = static_cast<PollContext>(9)}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of({.entries = 1, .vector = 4}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of({.entries = 0}), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of({.entries = 1'001}), ErrorCode::InvalidArgument);
  EXPECT_EQ(driver_.device().resource_count(ResourceKind::Cq), 0U);
}

TEST_F(CqTest, OfAUserThatPollsItselfTellsHimAndKeepsItsContext) {
  int told = 0;
  Cq& cq = **create_cq(
      driver_.device(),
      {.entries = 4,
       .completion_handler = [](Cq& /*cq*/, void* context) { ++*static_cast<int*>(context); },
       .context = &told});
  EXPECT_EQ(cq.context(), &told);
  EXPECT_FALSE(driver_.fake(cq).is_armed);
  ASSERT_TRUE(request_notify(cq, NotifyFlag::NextCompletion));
  complete(cq, 5);
  EXPECT_EQ(told, 1);
  std::array<Wc, 4> got;
  EXPECT_EQ(poll_cq(cq, got), 1U);
  EXPECT_EQ(got[0].handler(), &requests_.back()->handler);
  EXPECT_EQ(resize_cq(cq, 8).error().code, ErrorCode::NotSupported);
  EXPECT_EQ(set_cq_moderation(cq, 4, Duration::microseconds(5)).error().code,
            ErrorCode::NotSupported);
  EXPECT_TRUE(destroy_cq(cq));
}

}  // namespace
}  // namespace weft::core
