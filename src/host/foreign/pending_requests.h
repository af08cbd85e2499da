#pragma once

// Questions to the daemon or to another process, and the threads that wait for the answers.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace weft::host {

/// How long a thread waits for the daemon or another process; policy.
inline constexpr std::chrono::milliseconds kAnswerPatience{10'000};

/// Questions of one kind that are not answered yet, by serial number. `About` says whom or what
/// each is about, so that an answer of somebody else counts for nothing. Owns its lock; any thread.
template <class Answer, class About>
class Questions {
 public:
  explicit Questions(std::chrono::milliseconds wait_limit = kAnswerPatience)
      : patience_(wait_limit) {}

  /// Asks by `send(serial)` and waits. Nothing: no answer came in time, or `is_over()` says that
  /// none will, which is looked at whenever reconsider() is called.
  template <class Send, class IsOver>
  [[nodiscard]] std::optional<Answer> ask(About about, Send send, IsOver is_over) {
    std::unique_lock guard{lock_};
    const std::uint32_t serial = ++newest_;
    Question& question = open_[serial];
    question.about = std::move(about);
    send(serial);
    answered_.wait_for(guard, patience_, [&] { return question.answer.has_value() || is_over(); });
    return std::move(open_.extract(serial).mapped().answer);
  }

  /// Tells who waits for it, if `fits(about)`. False: nobody waits, or it does not fit.
  template <class Fits>
  bool answer(std::uint32_t serial, Answer answer, Fits fits) {
    const std::lock_guard guard{lock_};
    const auto found = open_.find(serial);
    if (found == open_.end() || !fits(std::as_const(found->second.about))) {
      return false;
    }
    found->second.answer = std::move(answer);
    answered_.notify_all();
    return true;
  }

  /// Answers all open questions that are `about` what `concerns(about)` says.
  template <class Concerns>
  void answer_all(const Answer& answer, Concerns concerns) {
    const std::lock_guard guard{lock_};
    for (auto& [serial, question] : open_) {
      if (!question.answer && concerns(std::as_const(question.about))) {
        question.answer = answer;
      }
    }
    answered_.notify_all();
  }

  /// Who waits looks at once whether it is over.
  void reconsider() {
    const std::lock_guard guard{lock_};
    answered_.notify_all();
  }

 private:
  struct Question {
    About about{};
    std::optional<Answer> answer;
  };

  const std::chrono::milliseconds patience_;
  std::mutex lock_;
  std::condition_variable answered_;
  std::map<std::uint32_t, Question> open_;  // a node of a map stays where it is
  std::uint32_t newest_{};
};

/// How answers of other processes say that they failed: 1 + the ErrorCode, 0 if they did not, and
/// the reason.
template <class Answer>
void put_error(Answer& answer, const Error& error) {
  answer.error = static_cast<std::uint8_t>(static_cast<unsigned>(error.code) + 1);
  answer.reason = error.reason;
}

/// The failure in an answer that has one (`error` is not 0). Foreign: a code that does not exist
/// counts as Io.
template <class Answer>
[[nodiscard]] Error error_in(const Answer& answer) {
  constexpr unsigned kLast = static_cast<unsigned>(ErrorCode::NetworkUnreachable) + 1;
  return {answer.error <= kLast ? static_cast<ErrorCode>(answer.error - 1) : ErrorCode::Io,
          answer.reason};
}

}  // namespace weft::host
