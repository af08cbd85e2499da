#pragma once

#include <memory>
#include <utility>

#include "base/assert.h"

namespace weft {

/// A std::optional whose value is on the heap: one pointer while empty. For large members that few
/// of many objects have, or have for a short time.
template <class T>
class Boxed {
 public:
  Boxed() = default;
  Boxed& operator=(T value) {
    if (value_) {
      *value_ = std::move(value);
    } else {
      value_ = std::make_unique<T>(std::move(value));
    }
    return *this;
  }
  void reset() { value_.reset(); }

  [[nodiscard]] bool has_value() const { return value_ != nullptr; }
  [[nodiscard]] explicit operator bool() const { return has_value(); }
  [[nodiscard]] T& operator*() { return *get(); }
  [[nodiscard]] const T& operator*() const { return *get(); }
  [[nodiscard]] T* operator->() { return get(); }
  [[nodiscard]] const T* operator->() const { return get(); }

 private:
  [[nodiscard]] T* get() const {
    WEFT_ASSERT(value_, "there is no value");
    return value_.get();
  }

  std::unique_ptr<T> value_;
};

}  // namespace weft
