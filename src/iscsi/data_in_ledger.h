#pragma once

// Which Data-In PDUs of a command have come (RFC 7143 §11.7.5), so that lost ones can be asked for
// again. Data goes by DataPDUInOrder=Yes and DataSequenceInOrder=Yes, which is what our initiator
// offers: each PDU's data begins where the one before ended. Pure.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "iscsi/status_numbers.h"

namespace weft::iscsi {

class DataInLedger {
 public:
  static constexpr std::uint32_t kMaxAhead = 65'536;  // policy: beyond what came without a gap
  enum class Verdict : std::uint8_t {
    New,
    Again,  ///< it has come before
    Wrong,  ///< its place is not where the ones before it end
  };

  /// A PDU with `bytes` octets for the buffer's octet `offset` on.
  [[nodiscard]] Verdict take(std::uint32_t data_sn, std::size_t offset, std::size_t bytes) {
    if (data_sn < next_ || ahead_.contains(data_sn)) {
      return Verdict::Again;
    }
    if (data_sn - next_ >= kMaxAhead || offset < received_) {
      return Verdict::Wrong;
    }
    ahead_.emplace(data_sn, Part{offset, bytes});
    expect(data_sn + 1);
    for (auto first = ahead_.find(next_); first != ahead_.end(); first = ahead_.find(next_)) {
      if (first->second.offset != received_) {
        return Verdict::Wrong;
      }
      received_ += first->second.bytes;
      asked_.erase(next_++);
      ahead_.erase(first);
    }
    return Verdict::New;
  }
  /// There are `count` PDUs at least, as a status says.
  void expect(std::uint32_t count) {
    known_ = std::max(known_, std::min(count, next_ + kMaxAhead));
  }

  /// The first DataSN that has not come.
  [[nodiscard]] std::uint32_t next() const { return next_; }
  /// Octets from the buffer's start on that have come without a gap.
  [[nodiscard]] std::size_t received() const { return received_; }
  [[nodiscard]] bool has_gap() const { return next_ != known_; }

  /// The next run that is missing and was not asked for, which counts as asked.
  [[nodiscard]] std::optional<NumberRun> next_to_ask() {
    const auto is_missing = [&](std::uint32_t data_sn) {
      return !ahead_.contains(data_sn) && !asked_.contains(data_sn);
    };
    std::uint32_t begin = next_;
    while (begin != known_ && !is_missing(begin)) {
      ++begin;
    }
    if (begin == known_) {
      return std::nullopt;
    }
    std::uint32_t end = begin;
    for (; end != known_ && is_missing(end); ++end) {
      asked_.insert(end);
    }
    return NumberRun{begin, end - begin};
  }
  /// What was asked for did not come.
  void ask_again() { asked_.clear(); }
  /// The target sends all from next() on anew, as on another connection.
  void restart() {
    ahead_.clear();
    asked_.clear();
    known_ = next_;
  }

 private:
  struct Part {
    std::size_t offset{};
    std::size_t bytes{};
  };

  std::uint32_t next_{};
  std::uint32_t known_{};  // all before it were sent
  std::size_t received_{};
  std::map<std::uint32_t, Part> ahead_;  // by DataSN, beyond a gap
  std::set<std::uint32_t> asked_;
};

}  // namespace weft::iscsi
