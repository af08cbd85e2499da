#pragma once

// Requests to the daemon or to another process, and the threads that wait for the responses.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace weft::host {

/// Policy: wait limit for the daemon or another process.
inline constexpr std::chrono::milliseconds kAnswerPatience{10'000};

/// Pending requests of one kind, by serial number. `About` describes what a request is about, so
/// that a response from a process that was not asked is ignored. Any thread; it has its own lock.
template <class Answer, class About>
class Questions {
 public:
  explicit Questions(std::chrono::milliseconds wait_limit = kAnswerPatience)
      : patience_(wait_limit) {}

  /// Sends a request by `send(serial)` and waits for its response. Nullopt if none arrives in time,
  /// or if `is_over()` says that none will; reconsider() makes waiting threads check it.
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

  /// Delivers the response of a request if `fits(about)`. False if no thread waits for it, or it
  /// does not fit.
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

  /// Delivers `answer` to all pending requests for which `concerns(about)` holds.
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

  /// Makes waiting threads check `is_over()`.
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
  std::map<std::uint32_t, Question> open_;  // nodes of a map have stable addresses
  std::uint32_t newest_{};
};

/// Encodes an error in a response to another process: 1 + the ErrorCode, where 0 means success, and
/// the reason.
template <class Answer>
void put_error(Answer& answer, const Error& error) {
  answer.error = static_cast<std::uint8_t>(static_cast<unsigned>(error.code) + 1);
  answer.reason = error.reason;
}

/// Decodes the error of a response whose `error` is not 0. Untrusted: an unknown code becomes Io.
template <class Answer>
[[nodiscard]] Error error_in(const Answer& answer) {
  constexpr unsigned kLast = static_cast<unsigned>(ErrorCode::ShutDown) + 1;
  return {answer.error <= kLast ? static_cast<ErrorCode>(answer.error - 1) : ErrorCode::Io,
          answer.reason};
}

}  // namespace weft::host
