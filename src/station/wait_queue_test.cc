#include "station/wait_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace weft::station {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Sender : Waiter {
  explicit Sender(std::string its_name) : name(std::move(its_name)) {}
  std::string name;
};

/// Lets waiters send as a test says, and notes in which order they were asked.
struct ScriptedDriver {
  std::function<Turn(Sender&, Allowed)> turn{[](Sender&, Allowed) { return Turn{}; }};
  std::function<void(Sender&)> after_leaving{[](Sender&) {}};
  std::vector<std::string> turns;
  std::vector<Allowed> allowed;
  std::vector<std::string> elsewhere;
  int rooms_wanted{};

  Turn take_turn(Waiter& waiter, Allowed what) {
    auto& sender = static_cast<Sender&>(waiter);
    turns.push_back(sender.name);
    allowed.push_back(what);
    return turn(sender, what);
  }
  void want_room() { ++rooms_wanted; }
  void wait_elsewhere(Waiter& waiter) { elsewhere.push_back(static_cast<Sender&>(waiter).name); }
  void wait_again_if_needed(Waiter& waiter) { after_leaving(static_cast<Sender&>(waiter)); }
};

constexpr Turn kNoRoom{.has_more = true, .has_sent = false, .room = Turn::Room::NoneHere};

class SendersThatWait : public ::testing::Test {
 protected:
  ~SendersThatWait() override {
    for (Sender* const sender : {&a_, &b_, &c_}) {
      WaitQueue::leave(*sender);
    }
  }
  void join(Sender& sender) {
    queue_.join(sender, [] {});
  }
  [[nodiscard]] std::vector<std::string> order() {
    ScriptedDriver asks;
    asks.turn = [](Sender&, Allowed) {
      return Turn{.has_more = true, .has_sent = false, .room = Turn::Room::Found};
    };
    queue_.serve(asks);
    return asks.turns;
  }

  std::atomic<std::uint32_t> all_{0};
  WaitQueue queue_{all_};
  Sender a_{"a"};
  Sender b_{"b"};
  Sender c_{"c"};
  ScriptedDriver driver_;
};

TEST_F(SendersThatWait, HaveTheirTurnsInTheOrderOfComing) {
  for (Sender* const sender : {&a_, &b_, &c_}) {
    join(*sender);
  }
  EXPECT_EQ(all_, 3U);
  driver_.turn = [](Sender&, Allowed) { return Turn{.has_more = false, .has_sent = true}; };
  EXPECT_TRUE(queue_.serve(driver_));
  EXPECT_THAT(driver_.turns, ElementsAre("a", "b", "c"));
  EXPECT_FALSE(queue_.has_waiters());
  EXPECT_EQ(all_, 0U);
  EXPECT_EQ(a_.queue(), nullptr);
}

TEST_F(SendersThatWait, StandInOneQueueOnly) {
  WaitQueue other{all_};
  join(a_);
  join(a_);
  other.join(a_, [] {});
  EXPECT_EQ(all_, 1U);
  EXPECT_EQ(a_.queue(), &queue_);
  EXPECT_FALSE(other.has_waiters());
}

TEST_F(SendersThatWait, GoToTheEndWhenTheyHaveSent) {
  for (Sender* const sender : {&a_, &b_, &c_}) {
    join(*sender);
  }
  driver_.turn = [](Sender& sender, Allowed) {
    return sender.name == "a" ? Turn{.has_more = true, .has_sent = true} : kNoRoom;
  };
  EXPECT_TRUE(queue_.serve(driver_));
  EXPECT_THAT(driver_.turns, ElementsAre("a", "b")) << "there is no room for others, either";
  EXPECT_EQ(driver_.rooms_wanted, 1);
  EXPECT_THAT(order(), ElementsAre("b", "c", "a"));
}

TEST_F(SendersThatWait, LetResponsesPassARequestWithoutRoom) {
  for (Sender* const sender : {&a_, &b_, &c_}) {
    join(*sender);
  }
  queue_.note_waiting_response();
  driver_.turn = [](Sender&, Allowed) { return kNoRoom; };
  EXPECT_FALSE(queue_.serve(driver_));
  EXPECT_THAT(driver_.turns, ElementsAre("a", "b", "c"));
  EXPECT_THAT(driver_.allowed,
              ElementsAre(Allowed::Everything, Allowed::OnlyResponses, Allowed::OnlyResponses));
  EXPECT_THAT(order(), ElementsAre("a", "b", "c"));
}

TEST_F(SendersThatWait, WaitWhereTheyFoundNoRoom) {
  join(a_);
  driver_.turn = [](Sender&, Allowed) {
    return Turn{.has_more = true, .has_sent = false, .room = Turn::Room::NoneElsewhere};
  };
  EXPECT_FALSE(queue_.serve(driver_));
  EXPECT_THAT(driver_.elsewhere, ElementsAre("a"));
  EXPECT_FALSE(queue_.has_waiters());
}

/// Who posts while a QP's last packets leave finds it in the queue still, and relies on its turn.
TEST_F(SendersThatWait, ComeBackForWhatTheyWereGivenSinceTheirTurn) {
  join(a_);
  driver_.turn = [&](Sender& sender, Allowed) {
    join(sender);  // changes nothing: it stands there
    return Turn{.has_more = false, .has_sent = true};
  };
  driver_.after_leaving = [&](Sender& sender) { join(sender); };
  EXPECT_TRUE(queue_.serve(driver_));
  EXPECT_THAT(driver_.turns, ElementsAre("a"));
  EXPECT_TRUE(queue_.has_waiters());
  EXPECT_EQ(all_, 1U);
}

TEST_F(SendersThatWait, MayBeTakenOutDuringTheirTurn) {
  join(a_);
  join(b_);
  driver_.turn = [](Sender& sender, Allowed) {
    WaitQueue::leave(sender);
    return Turn{.has_more = true, .has_sent = true};
  };
  queue_.serve(driver_);
  EXPECT_THAT(driver_.turns, ElementsAre("a", "b"));
  EXPECT_THAT(driver_.elsewhere, IsEmpty());
  EXPECT_EQ(all_, 0U);
}

TEST_F(SendersThatWait, AreInheritedInTheirOrder) {
  WaitQueue replacement{all_};
  replacement.join(c_, [] {});
  join(a_);
  join(b_);
  queue_.move_all_to(replacement);
  EXPECT_FALSE(queue_.has_waiters());
  EXPECT_EQ(a_.queue(), &replacement);
  driver_.turn = [](Sender&, Allowed) { return Turn{.has_more = false, .has_sent = true}; };
  replacement.serve(driver_);
  EXPECT_THAT(driver_.turns, ElementsAre("c", "a", "b"));
  EXPECT_EQ(all_, 0U);
}

TEST_F(SendersThatWait, SayTheyWantRoomWhileTheQueueStandsStill) {
  bool was_locked = false;
  queue_.join(a_, [&] { was_locked = !queue_.lock().try_lock(); });
  EXPECT_TRUE(was_locked);
}

}  // namespace
}  // namespace weft::station
