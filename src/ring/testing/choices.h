#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/random.h"

namespace weft::ring::testing {

/// The choices that make one run differ from another: all of them in turn, depth first, with at
/// most so many deviations in a run; or drawn from a seed. Choice 0 is the ordinary one.
class Choices {
 public:
  static Choices every(std::size_t deviations_max) {
    Choices choices;
    choices.deviations_max_ = deviations_max;
    return choices;
  }
  static Choices at_random(std::uint64_t seed) {
    Choices choices;
    choices.random_ = Random{seed};
    return choices;
  }

  /// One of `count`. A choice other than 0 is a deviation, unless one had to be made.
  std::size_t choose(std::size_t count, bool is_forced) {
    const bool is_bounded = !random_ && !is_forced;
    if (count == 1 || (is_bounded && deviations_ >= deviations_max_)) {
      return 0;
    }
    if (random_) {
      return random_->chance(1, 4) ? random_->below(count) : 0;  // policy
    }
    if (position_ == path_.size()) {
      path_.push_back({.taken = 0, .count = count});
    }
    WEFT_ASSERT(
        path_[position_].count == count,
        "a run depends on its choices alone");  // or the run depends on more than its choices
    const std::size_t taken = path_[position_++].taken;
    deviations_ += is_bounded && taken != 0 ? 1 : 0;
    return taken;
  }

  /// Prepares another run. Returns false if all were tried.
  bool go_on() {
    position_ = deviations_ = 0;
    if (random_) {
      return true;
    }
    while (!path_.empty() && path_.back().taken + 1 == path_.back().count) {
      path_.pop_back();
    }
    if (path_.empty()) {
      return false;
    }
    ++path_.back().taken;
    return true;
  }

 private:
  struct Branch {
    std::size_t taken;
    std::size_t count;
  };

  Choices() = default;

  std::size_t deviations_max_{};
  std::optional<Random> random_;
  std::vector<Branch> path_;  // of this run
  std::size_t position_{};    // in path_
  std::size_t deviations_{};
};

}  // namespace weft::ring::testing
