#include "ring/sleep_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/testing/golden.h"

namespace weft::ring {
namespace {

constexpr std::array<std::string_view, kThreadStates> kThreadStateNames{
    "Looking", "NapAnnounced", "Napping", "SleepAnnounced", "Asleep"};
constexpr std::array<std::string_view, kThreadEvents> kThreadEventNames{
    "idle while polled", "idle",      "final scan empty", "final scan found", "wait ended",
    "doorbell consumed", "work left", "deadline set",     "lease ended"};
constexpr std::array<std::string_view, kLaneWatches> kLaneWatchNames{"Watched", "UrgentAsked",
                                                                     "AnyAsked", "Rung"};
constexpr std::array<std::string_view, kLaneEvents> kLaneEventNames{
    "nap while polled", "nap unpolled", "sleep",      "final scan found",
    "nap over",         "sent urgent",  "sent other", "doorbell consumed"};
constexpr std::array<std::string_view, kApplicationStates> kApplicationStateNames{"Waiting",
                                                                                  "Polling"};
constexpr std::array<std::string_view, kApplicationEvents> kApplicationEventNames{"polls",
                                                                                  "will wait"};
constexpr std::array<std::string_view, 7> kDutyNames{
    "-", "look once more", "wait", "say awake", "wake the thread", "ring the doorbell", "watch"};

template <class Value>
[[nodiscard]] std::size_t index(Value value) {
  return static_cast<std::size_t>(value);
}

/// A line a row: state, event, next state, duty.
template <class Table, class States, class Events>
[[nodiscard]] std::string text(std::string_view who, const Table& table, const States& states,
                               const Events& events) {
  std::string lines;
  for (const auto& row : table) {
    lines += fmt::format("{:<12} {:<15} {:<18} -> {:<15} {}\n", who, states.at(index(row.state)),
                         events.at(index(row.event)), states.at(index(row.next)),
                         kDutyNames.at(index(row.duty)));
  }
  return lines;
}

TEST(SleepTable, IsAsInItsGoldenText) {
  const std::string lines =
      text("thread", kThreadTable, kThreadStateNames, kThreadEventNames) +
      text("lane", kLaneTable, kLaneWatchNames, kLaneEventNames) +
      text("application", kApplicationTable, kApplicationStateNames, kApplicationEventNames);
  const std::string path = weft::testing::golden("ring/sleep_states.txt");
  if (std::getenv("WEFT_WRITE_GOLDEN") != nullptr) {
    std::ofstream{path} << lines;
  }
  std::ifstream file{path};
  ASSERT_TRUE(file) << path;
  EXPECT_EQ(lines, (std::string{std::istreambuf_iterator<char>{file}, {}}))
      << "a deliberate change: run this test with WEFT_WRITE_GOLDEN=1, and try the change in "
         "sleeper_interleaving_test.cc";
}

TEST(SleepTable, SaysInWhichStatesTheThreadIsWoken) {
  constexpr auto bit = [](ThreadState state) { return 1U << static_cast<unsigned>(state); };
  EXPECT_EQ(states_to_wake_in(ThreadEvent::DoorbellConsumed),
            bit(ThreadState::SleepAnnounced) | bit(ThreadState::Asleep));
  EXPECT_EQ(states_to_wake_in(ThreadEvent::LeaseEnded),
            bit(ThreadState::NapAnnounced) | bit(ThreadState::Napping));
  EXPECT_EQ(states_to_wake_in(ThreadEvent::Idle), 0U);
}

TEST(SleepTable, KnowsNoRowForWhatCannotHappen) {
  EXPECT_EQ(find_row(kThreadTable, ThreadState::Asleep, ThreadEvent::FinalScanFound), nullptr);
  EXPECT_EQ(find_row(kLaneTable, LaneWatch::Watched, LaneEvent::FinalScanFound), nullptr);
}

}  // namespace
}  // namespace weft::ring
