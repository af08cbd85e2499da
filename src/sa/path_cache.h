#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "wire/mad/path_record.h"

namespace weft::sa {

/// What a path is asked for by. Zero is no wish.
struct PathWish {
  Gid sgid{};
  Gid dgid{};
  PKey pkey{};
  std::uint64_t service_id{};
  std::uint8_t tclass{};
  std::uint16_t qos_class{};  ///< 12 bits
  bool is_reversible{true};

  [[nodiscard]] constexpr auto key() const {  // those of one destination beside each other
    return std::tuple{dgid, sgid, pkey.value(), service_id, tclass, qos_class, is_reversible};
  }
  friend constexpr auto operator<=>(const PathWish& a, const PathWish& b) {
    return a.key() <=> b.key();
  }
  friend constexpr bool operator==(const PathWish& a, const PathWish& b) {
    return a.key() == b.key();
  }
};

/// Paths that SA has told, for so long as nothing says that they may be others now. What is oldest
/// goes when there is no room. One thread.
class PathCache {
 public:
  PathCache(std::size_t limit, Duration age) : limit_(limit), age_(age) {}

  void put(const PathWish& wish, const wire::PathRecord& path, Instant now);
  /// None when it was never told, or too long ago.
  [[nodiscard]] std::optional<wire::PathRecord> find(const PathWish& wish, Instant now);
  void erase_to(const Gid& dgid);
  void clear();

  [[nodiscard]] std::size_t size() const { return paths_.size(); }

 private:
  struct Entry {
    wire::PathRecord path{};
    Instant told{};
    std::uint64_t order{};
  };
  using Entries = std::map<PathWish, Entry>;

  void erase(Entries::iterator entry);

  std::size_t limit_;
  Duration age_;
  Entries paths_;
  std::map<std::uint64_t, PathWish> in_order_;  // as they were told
  std::uint64_t last_order_{};
};

}  // namespace weft::sa
