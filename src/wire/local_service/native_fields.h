#pragma once

// Structures that netlink carries in the byte order of the machine, described once: the members in
// their order, each with its own width, without padding between them. Reading and writing come from
// the description.

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "wire/layout.h"

namespace weft::wire::local_service {

/// Members that are numbers, or arrays of octets.
template <auto... kMembers>
struct NativeFields {
  template <auto kMember>
  using TypeOf = typename wire::internal::MemberOf<decltype(kMember)>::Type;
  static_assert((std::is_trivially_copyable_v<TypeOf<kMembers>> && ...));
  static constexpr std::size_t kBytes = (sizeof(TypeOf<kMembers>) + ...);

  template <class T>
  static void put(const T& from, std::vector<std::byte>& out) {
    const auto one = [&out](const auto& value) {
      const ByteSpan octets = std::as_bytes(std::span{&value, 1});
      out.insert(out.end(), octets.begin(), octets.end());
    };
    (one(from.*kMembers), ...);
  }
  /// None: there are fewer octets.
  template <class T>
  [[nodiscard]] static std::optional<T> take(ByteSpan octets) {
    if (octets.size() < kBytes) {
      return std::nullopt;
    }
    T value{};
    const auto one = [&octets](auto& member) {
      copy_bytes(std::as_writable_bytes(std::span{&member, 1}), octets.first(sizeof member));
      octets = octets.subspan(sizeof member);
    };
    (one(value.*kMembers), ...);
    return value;
  }
};

}  // namespace weft::wire::local_service
