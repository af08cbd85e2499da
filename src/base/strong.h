#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace weft {

/// A number with a meaning: `Strong<struct QKeyTag, std::uint32_t>` never converts to or from
/// another number by itself. Equality only; types whose values have an order opt in with `Ordered`.
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

/// A `Strong` whose values may also be compared with `<`.
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
