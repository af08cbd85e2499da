#pragma once

#include <string>
#include <utility>

namespace weft::sim {

/// Collects failures of checkers; keeps the first. Not thread-safe.
class Verdict {
 public:
  void fail(std::string what) {
    if (failure_.empty()) {
      failure_ = std::move(what);
    }
  }
  [[nodiscard]] bool ok() const { return failure_.empty(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
};

}  // namespace weft::sim
