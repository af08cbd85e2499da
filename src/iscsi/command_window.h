#pragma once

// CmdSN order and the command window of a session (RFC 7143 §4.2.2.1). Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "iscsi/serial.h"

namespace weft::iscsi {

/// The target's side. `Request` is what waits for its turn.
template <class Request>
class CommandWindow {
 public:
  enum class Verdict : std::uint8_t {
    Next,     ///< its turn; ExpCmdSN has advanced
    Held,     ///< earlier ones are missing
    Ignored,  ///< a duplicate, or outside of the window (RFC 7143 §4.2.2.1)
  };

  /// `size`: commands that the target takes at a time.
  CommandWindow(std::uint32_t first, std::uint32_t size)
      : expected_(first), maximum_(first + size - 1), size_(size) {}

  /// Whether a non-immediate request may be taken, before its data is looked at.
  [[nodiscard]] bool is_welcome(std::uint32_t cmd_sn) const {
    return !serial_before(cmd_sn, expected_) && !serial_before(maximum_, cmd_sn) &&
           !held_.contains(cmd_sn);
  }

  /// A welcome request.
  [[nodiscard]] Verdict take(std::uint32_t cmd_sn, Request request) {
    if (!is_welcome(cmd_sn)) {
      return Verdict::Ignored;
    }
    if (cmd_sn == expected_) {
      ++expected_;
      return Verdict::Next;
    }
    held_.emplace(cmd_sn, std::move(request));
    return Verdict::Held;
  }
  /// After Next: what was held and has its turn now.
  [[nodiscard]] std::optional<Request> next() {
    const auto found = held_.find(expected_);
    if (found == held_.end()) {
      return std::nullopt;
    }
    Request request = std::move(found->second);
    held_.erase(found);
    ++expected_;
    return request;
  }

  /// Opens the window for as many as `busy` requests leave; it never shrinks.
  void open(std::uint32_t busy) {
    const std::uint32_t wanted = expected_ + (busy < size_ ? size_ - busy : 0) - 1;
    if (serial_before(maximum_, wanted)) {
      maximum_ = wanted;
    }
  }

  /// ExpCmdSN and MaxCmdSN of what is sent.
  [[nodiscard]] std::uint32_t expected() const { return expected_; }
  [[nodiscard]] std::uint32_t maximum() const { return maximum_; }

  /// Their numbers stay, with requests that do nothing.
  template <class Predicate>
  void replace_if(Predicate matches) {
    for (auto& [cmd_sn, request] : held_) {
      if (matches(request)) {
        request = Request{};
      }
    }
  }
  /// Their numbers are missing again.
  template <class Predicate>
  void drop_if(Predicate matches) {
    std::erase_if(held_, [&](const auto& entry) { return matches(entry.second); });
  }

 private:
  std::uint32_t expected_;
  std::uint32_t maximum_;
  std::uint32_t size_;
  std::map<std::uint32_t, Request> held_;  // by CmdSN; looked up only, so its order is no matter
};

}  // namespace weft::iscsi
