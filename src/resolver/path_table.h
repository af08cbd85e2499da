#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/identifiers.h"
#include "base/time.h"
#include "sa/path_cache.h"
#include "sa/published_paths.h"
#include "wire/mad/path_record.h"

namespace weft::resolver {

struct PathTableLimits {
  std::size_t paths{65'536};             ///< beyond: the one that ends first goes. Policy.
  Duration age{Duration::seconds(600)};  ///< of a path. Policy.
  Duration negative_age{Duration::milliseconds(1'000)};  ///< of "SA has none". Policy.
};

/// Paths by what was asked for: both ends, partition, service, class (R-NL-8). An entry may say
/// that SA has no path; such ones age soon. Preloaded paths stay. Not thread-safe.
class PathTable {
 public:
  struct Entry {
    std::optional<wire::PathRecord> path;  ///< none: SA has said that there is none
    Instant until;                         ///< never: preloaded
  };

  explicit PathTable(const PathTableLimits& limits = {}) : limits_(limits) {}

  /// Shows the paths to the host, from now on; none: no more. It holds what the table holds, as far
  /// as it has room, but for what SA has no path.
  void show(std::optional<sa::PathPublisher> shown);

  void put(const sa::PathQuery& asked, const wire::PathRecord& path, Instant now);
  void put_negative(const sa::PathQuery& asked, Instant now);
  void preload(const sa::PathQuery& asked, const wire::PathRecord& path);
  /// Null: nothing is known, or it is too old.
  [[nodiscard]] const Entry* find(const sa::PathQuery& asked, Instant now);
  /// Forgets all that SA has said, or what it has said of paths to one GID.
  void invalidate();
  void invalidate_to(const Gid& dgid);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

 private:
  using Entries = std::map<sa::PathQuery, Entry>;
  void set(const sa::PathQuery& asked, std::optional<wire::PathRecord> path, Instant until);
  void erase(Entries::iterator entry);

  PathTableLimits limits_;
  Entries entries_;
  std::set<std::pair<Instant, sa::PathQuery>> ends_;  // of those that end
  std::uint64_t evictions_{};
  std::optional<sa::PathPublisher> shown_;
};

}  // namespace weft::resolver
