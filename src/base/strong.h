#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace weft {

/// A number with its own type: `Strong<struct QKeyTag, std::uint32_t>` never converts implicitly.
/// Supports equality only; use `Ordered` for values with an order.
template <class Tag, class Value>
class Strong {
 public:
  using value_type = Value;

  constexpr Strong() = default;
  constexpr explicit Strong(Value value) : value_(value) {}

  [[nodiscard]] constexpr Value value() const { return value_; }

  friend constexpr bool operator==(Strong, Strong) = default;

 private:
  Value value_{};
};

/// A `Strong` with ordering.
template <class Tag, class Value>
class Ordered {
 public:
  using value_type = Value;

  constexpr Ordered() = default;
  constexpr explicit Ordered(Value value) : value_(value) {}

  [[nodiscard]] constexpr Value value() const { return value_; }

  friend constexpr auto operator<=>(Ordered, Ordered) = default;

 private:
  Value value_{};
};

}  // namespace weft

template <class Tag, class Value>
struct std::hash<weft::Strong<Tag, Value>> {
  std::size_t operator()(weft::Strong<Tag, Value> strong) const noexcept {
    return std::hash<Value>{}(strong.value());
  }
};

template <class Tag, class Value>
struct std::hash<weft::Ordered<Tag, Value>> {
  std::size_t operator()(weft::Ordered<Tag, Value> ordered) const noexcept {
    return std::hash<Value>{}(ordered.value());
  }
};
