#include "host/foreign/pending_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "uabi/messages.h"

namespace weft::host {
namespace {

using TestQuestions = Questions<std::string, int>;
constexpr auto kNever = [] { return false; };

TEST(Questions, GiveWhoAskedTheAnswerOfItsSerial) {
  TestQuestions questions;
  std::thread answerer;
  const auto answer = questions.ask(
      7,
      [&](std::uint32_t serial) {
        answerer = std::thread{[&questions, serial] {
          EXPECT_FALSE(questions.answer(serial + 1, "another's", [](int) { return true; }));
          EXPECT_TRUE(questions.answer(serial, "yes", [](int about) { return about == 7; }));
        }};
      },
      kNever);
  answerer.join();
  EXPECT_EQ(answer, "yes");
}

TEST(Questions, CountNoAnswerThatDoesNotFit) {
  TestQuestions questions{std::chrono::milliseconds{20}};
  std::thread answerer;
  const auto answer = questions.ask(
      7,
      [&](std::uint32_t serial) {
        answerer = std::thread{[&questions, serial] {
          EXPECT_FALSE(questions.answer(serial, "forged", [](int about) { return about == 8; }));
        }};
      },
      kNever);
  answerer.join();
  EXPECT_FALSE(answer);
}

TEST(Questions, AreForgottenWhenNobodyWaitsForTheAnswerAnyMore) {
  TestQuestions questions{std::chrono::milliseconds{1}};
  std::uint32_t asked = 0;
  EXPECT_FALSE(questions.ask(0, [&](std::uint32_t serial) { asked = serial; }, kNever));
  EXPECT_FALSE(questions.answer(asked, "late", [](int) { return true; }));
}

TEST(Questions, AreAnsweredTogetherByWhatConcernsThem) {
  TestQuestions questions;
  std::atomic<int> open{0};
  std::optional<std::string> first;
  std::optional<std::string> second;
  std::thread asks_first{[&] { first = questions.ask(1, [&](std::uint32_t) { ++open; }, kNever); }};
  std::thread asks_second{
      [&] { second = questions.ask(2, [&](std::uint32_t) { ++open; }, kNever); }};
  while (open != 2) {
    std::this_thread::yield();
  }
  questions.answer_all("of one", [](int about) { return about == 1; });
  asks_first.join();
  EXPECT_EQ(first, "of one");
  questions.answer_all("of two", [](int about) { return about == 2; });
  asks_second.join();
  EXPECT_EQ(second, "of two");
}

TEST(Questions, EndAtOnceWhenNoAnswerWillCome) {
  TestQuestions questions;
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_over{false};
  std::optional<std::string> answer{"something"};
  std::thread asks{[&] {
    answer =
        questions.ask(1, [&](std::uint32_t) { is_open = true; }, [&] { return is_over.load(); });
  }};
  while (!is_open) {
    std::this_thread::yield();
  }
  is_over = true;
  questions.reconsider();
  asks.join();
  EXPECT_FALSE(answer);
}

TEST(AnswersOfProcesses, CarryAnErrorWithItsReason) {
  uabi::ObjectAnswer answer;
  put_error(answer, {ErrorCode::AddressInUse, "because"});
  EXPECT_EQ(error_in(answer).code, ErrorCode::AddressInUse);
  EXPECT_EQ(error_in(answer).reason, "because");
  answer.error = 255;
  EXPECT_EQ(error_in(answer).code, ErrorCode::Io);
}

}  // namespace
}  // namespace weft::host
