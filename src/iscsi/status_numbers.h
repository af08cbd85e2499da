#pragma once

// StatSN of one connection, as the initiator receives it (RFC 7143 §4.2.2.2): which have come,
// which are to be asked for again, and what may be acknowledged by ExpStatSN. Pure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "iscsi/serial.h"

namespace weft::iscsi {

/// Numbers from `begin` on, as a SNACK asks for them.
struct NumberRun {
  std::uint32_t begin{};
  std::uint32_t count{};
  bool operator==(const NumberRun&) const = default;
};

class StatusNumbers {
 public:
  static constexpr std::uint32_t kMaxAhead = 4096;  // policy: beyond ExpStatSN
  enum class Verdict : std::uint8_t {
    New,
    Again,   ///< it has come before
    TooFar,  ///< no target sends so much before it is acknowledged
  };

  /// `first`: the StatSN that is next.
  explicit StatusNumbers(std::uint32_t first = 0) : expected_(first) {}

  /// The StatSN of a PDU. Not `settled`: what belongs to the status is awaited, so that it is not
  /// acknowledged before settle().
  [[nodiscard]] Verdict take(std::uint32_t stat_sn, bool settled = true) {
    if (serial_before(stat_sn, expected_)) {
      return Verdict::Again;
    }
    const std::uint32_t place = stat_sn - expected_;
    if (place >= kMaxAhead) {
      return Verdict::TooFar;
    }
    if (place >= states_.size()) {
      states_.resize(std::size_t{place} + 1, State::Missing);
    }
    State& state = states_[place];
    if (state == State::Held || state == State::Settled) {
      return Verdict::Again;
    }
    state = settled ? State::Settled : State::Held;
    advance();
    return Verdict::New;
  }
  /// This number was sent, and what came with it cannot be used: it is missing, as those before it.
  void expect(std::uint32_t stat_sn) {
    const std::uint32_t place = stat_sn - expected_;
    if (!serial_before(stat_sn, expected_) && place < kMaxAhead && place >= states_.size()) {
      states_.resize(std::size_t{place} + 1, State::Missing);
    }
  }
  /// Of a number that take() has held.
  void settle(std::uint32_t stat_sn) {
    const std::uint32_t place = stat_sn - expected_;
    if (place < states_.size()) {
      states_[place] = State::Settled;
      advance();
    }
  }

  /// ExpStatSN: all before it are acknowledged.
  [[nodiscard]] std::uint32_t expected() const { return expected_; }
  /// The next run of numbers that are missing and were not asked for, which counts as asked.
  [[nodiscard]] std::optional<NumberRun> next_to_ask() {
    const auto begin = std::ranges::find(states_, State::Missing);
    if (begin == states_.end()) {
      return std::nullopt;
    }
    const auto end =
        std::find_if(begin, states_.end(), [](State state) { return state != State::Missing; });
    std::fill(begin, end, State::Asked);
    return NumberRun{expected_ + static_cast<std::uint32_t>(begin - states_.begin()),
                     static_cast<std::uint32_t>(end - begin)};
  }
  /// What was asked for did not come.
  void ask_again() { std::ranges::replace(states_, State::Asked, State::Missing); }

 private:
  enum class State : std::uint8_t { Missing, Asked, Held, Settled };

  void advance() {
    while (!states_.empty() && states_.front() == State::Settled) {
      states_.pop_front();
      ++expected_;
    }
  }

  std::uint32_t expected_;
  std::deque<State> states_;  // of expected_ and what follows; never begins with Settled
};

}  // namespace weft::iscsi
