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

/// Key of a path query; a field of zero is a wildcard. Becomes the component mask and the values of
/// a PathRecord query (IBTA vol 1 §15.2.5.16).
struct PathQuery {
  Gid sgid{};
  Gid dgid{};
  PKey pkey{};
  std::uint64_t service_id{};
  std::uint8_t tclass{};
  std::uint16_t qos_class{};  ///< 12 bits
  bool is_reversible{true};

  [[nodiscard]] constexpr auto key() const {  // sorts paths to one destination together
    return std::tuple{dgid, sgid, pkey.value(), service_id, tclass, qos_class, is_reversible};
  }
  friend constexpr auto operator<=>(const PathQuery& a, const PathQuery& b) {
    return a.key() <=> b.key();
  }
  friend constexpr bool operator==(const PathQuery& a, const PathQuery& b) {
    return a.key() == b.key();
  }
};

/// Cache of path records received from SA. An entry is valid until it is too old or is invalidated;
/// the oldest entry is evicted when the cache is full. Not thread-safe.
class PathCache {
 public:
  PathCache(std::size_t limit, Duration age) : limit_(limit), age_(age) {}

  void put(const PathQuery& path_query, const wire::PathRecord& path, Instant now);
  /// None if there is no entry or it is too old.
  [[nodiscard]] std::optional<wire::PathRecord> find(const PathQuery& path_query, Instant now);
  void erase_to(const Gid& dgid);
  void clear();

  [[nodiscard]] std::size_t size() const { return paths_.size(); }

 private:
  struct Entry {
    wire::PathRecord path{};
    Instant reported{};
    std::uint64_t order{};
  };
  using Entries = std::map<PathQuery, Entry>;

  void erase(Entries::iterator entry);

  std::size_t limit_;
  Duration age_;
  Entries paths_;
  std::map<std::uint64_t, PathQuery> in_order_;  // by age
  std::uint64_t last_order_{};
};

}  // namespace weft::sa
