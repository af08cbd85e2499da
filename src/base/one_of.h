#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace weft {

/// A value of one of many kinds. std::variant instantiates copies, moves and the end of every kind
/// in every source that has one, seconds for a hundred kinds; here a value comes with pointers to
/// what its own kind does, and only visit() knows them all.
///
/// A kind's move must not throw: there is no state without a value, and one that was moved from
/// still has its kind.
template <class... Kinds>
class OneOf {
 public:
  static constexpr std::size_t kCount = sizeof...(Kinds);

  /// The place of a kind in the list; kCount: it is none.
  template <class Kind>
  static constexpr std::size_t kIndexOf = [] {
    std::size_t index = 0;
    static_cast<void>(((std::is_same_v<Kind, Kinds> || (++index, false)) || ...));
    return index;
  }();

  template <class Kind>
    requires(kIndexOf<Kind> < kCount)
  // Implicit, as std::variant's: a message is any of its kinds.
  OneOf(Kind value)  // NOLINT(google-explicit-constructor)
      : operations_(&kOperationsOf<Kind>) {
    static_assert(std::is_nothrow_move_constructible_v<Kind>);
    std::construct_at(static_cast<Kind*>(static_cast<void*>(storage_.data())), std::move(value));
  }
  OneOf(const OneOf& other) : operations_(other.operations_) {
    operations_->copy(storage_.data(), other.storage_.data());
  }
  OneOf(OneOf&& other) noexcept : operations_(other.operations_) {
    operations_->move(storage_.data(), other.storage_.data());
  }
  OneOf& operator=(const OneOf& other) {
    if (this != &other) {
      *this = OneOf{other};  // a copy that throws leaves the old value
    }
    return *this;
  }
  OneOf& operator=(OneOf&& other) noexcept {
    if (this != &other) {
      operations_->destroy(storage_.data());
      operations_ = other.operations_;
      operations_->move(storage_.data(), other.storage_.data());
    }
    return *this;
  }
  ~OneOf() { operations_->destroy(storage_.data()); }

  /// Which kind it is.
  [[nodiscard]] std::size_t index() const { return operations_->index; }
  template <class Kind>
  [[nodiscard]] bool holds() const {
    static_assert(kIndexOf<Kind> < kCount);
    return index() == kIndexOf<Kind>;
  }

  /// Null if it is of another kind.
  template <class Kind>
  [[nodiscard]] const Kind* get_if() const {
    return holds<Kind>() ? as<Kind>(storage_.data()) : nullptr;
  }
  template <class Kind>
  [[nodiscard]] Kind* get_if() {
    return holds<Kind>() ? as<Kind>(storage_.data()) : nullptr;
  }
  /// It must be of that kind.
  template <class Kind>
  [[nodiscard]] const Kind& get() const {
    const Kind* const value = get_if<Kind>();
    WEFT_ASSERT(value != nullptr, "a value is asked for as what it is");
    return *value;
  }

  /// Calls `visitor` with the value as what it is. Compiles it for every kind.
  template <class Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return visit_as<const OneOf>(*this, visitor);
  }
  template <class Visitor>
  decltype(auto) visit(Visitor&& visitor) {
    return visit_as<OneOf>(*this, visitor);
  }

  /// Whether `holds`, given a std::type_identity of each kind, is so for all.
  [[nodiscard]] static consteval bool all_kinds(auto holds) {
    return (holds(std::type_identity<Kinds>{}) && ...);
  }

  /// Calls `visitor` with a std::type_identity of the kind at that place.
  template <class Visitor>
  static decltype(auto) visit_kind(std::size_t index, Visitor&& visitor) {
    using Call = decltype(visitor(std::type_identity<First>{})) (*)(Visitor&);
    static constexpr std::array<Call, kCount> kCalls{
        [](Visitor& with) { return with(std::type_identity<Kinds>{}); }...};
    return kCalls.at(index)(visitor);
  }

 private:
  using First = std::tuple_element_t<0, std::tuple<Kinds...>>;
  template <class Self, class Kind>
  using MatchConst = std::conditional_t<std::is_const_v<Self>, const Kind, Kind>;
  struct Operations {
    std::size_t index;
    void (*copy)(std::byte* to, const std::byte* from);
    void (*move)(std::byte* to, std::byte* from);
    void (*destroy)(std::byte* value);
  };
  template <class Kind>
  [[nodiscard]] static Kind* as(std::byte* octets) {
    return std::launder(static_cast<Kind*>(static_cast<void*>(octets)));
  }
  template <class Kind>
  [[nodiscard]] static const Kind* as(const std::byte* octets) {
    return std::launder(static_cast<const Kind*>(static_cast<const void*>(octets)));
  }
  template <class Kind>
  static void copy(std::byte* to, const std::byte* from) {
    std::construct_at(static_cast<Kind*>(static_cast<void*>(to)), *as<Kind>(from));
  }
  template <class Kind>
  static void move(std::byte* to, std::byte* from) {
    std::construct_at(static_cast<Kind*>(static_cast<void*>(to)), std::move(*as<Kind>(from)));
  }
  template <class Kind>
  static void destroy(std::byte* value) {
    std::destroy_at(as<Kind>(value));
  }
  template <class Kind>
  static constexpr Operations kOperationsOf{.index = kIndexOf<Kind>,
                                            .copy = &OneOf::copy<Kind>,
                                            .move = &OneOf::move<Kind>,
                                            .destroy = &OneOf::destroy<Kind>};

  template <class Self, class Visitor>
  static decltype(auto) visit_as(Self& self, Visitor& visitor) {
    using Octets = decltype(self.storage_.data());
    using Call =
        decltype(visitor(std::declval<MatchConst<Self, First>&>())) (*)(Visitor&, Octets octets);
    static constexpr std::array<Call, kCount> kCalls{
        [](Visitor& with, Octets octets) { return with(*OneOf::template as<Kinds>(octets)); }...};
    return kCalls[self.index()](visitor, self.storage_.data());
  }
  const Operations* operations_;
  alignas(Kinds...) std::array<std::byte, std::max({sizeof(Kinds)...})> storage_;
};

}  // namespace weft
