#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace weft::station {

/// The distinct objects of a batch of at most `kCapacity`, in the order in which they came first;
/// for instance the QPs that the packets of one look at a ring were for. On the stack of the data
/// path: nothing is initialized but the count, and the newest object is compared first, since
/// packets for one QP come in series. One thread.
template <class Object, std::size_t kCapacity>
class DistinctList {
 public:
  /// At most kCapacity calls.
  void add(Object& object) {
    if (count_ == 0 || (objects_[count_ - 1] != &object && !has(object))) {
      objects_[count_++] = &object;
    }
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      visit(*objects_[i]);
    }
  }

 private:
  [[nodiscard]] bool has(const Object& object) const {
    const std::span known{objects_.data(), count_};
    return std::ranges::find(known, &object) != known.end();
  }

  std::array<Object*, kCapacity> objects_;
  std::size_t count_{};
};

}  // namespace weft::station
