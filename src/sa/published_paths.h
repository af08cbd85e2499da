#pragma once

// The paths that a host's resolver knows, in memory that it shares with the host's kernel side and
// programs (R-NL-8): who finds a path there need not ask, and no process has to run for it. What is
// not there is asked as ever: netlink's question remains the way to all that a resolver can say.
//
// A table of sets by a hash of what was asked for, a few records in each; one that is full forgets
// the path that ends first. The resolver writes it, and the fabric's daemon says while that lives.
// Readers take nothing on trust: what they find is for what they asked, or nothing, and looking
// takes the same few loads whatever the memory holds. Pure; any thread may read while one writes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/time.h"
#include "ring/versioned_record.h"
#include "sa/path_cache.h"
#include "wire/layout.h"
#include "wire/mad/path_record.h"

namespace weft::sa {

/// Where things are in the memory; in native byte order, since it is one machine's.
struct PublishedLayout {
  static constexpr std::size_t kSets = std::size_t{1} << 11;  // policy, as kWays
  static constexpr std::size_t kWays = 8;

  static constexpr std::size_t kUntilWords = 2;  // nanoseconds of the machine's clock; 0: no path
  static constexpr std::size_t kPathWords = wire::kSizeOf<wire::PathRecord> / sizeof(std::uint32_t);
  /// Until when, what was asked for as a PathRecord, and the path.
  using Record = ring::VersionedRecord<kUntilWords + 2 * kPathWords>;

  static constexpr std::size_t kStateAt = 0;
  static constexpr std::size_t kHeaderBytes = 64;
  static constexpr std::size_t kBytes = kHeaderBytes + kSets * kWays * Record::kBytes;

  /// Other numbers than a table of another make would have there; raised with every change.
  enum class State : std::uint32_t { New = 0, Live = 0x5750'0101, Ended = 0x5750'0102 };
};

/// For who reads: the host's kernel side, and its programs.
class PublishedPaths {
 public:
  /// kBytes of memory, which must outlive it.
  explicit PublishedPaths(ByteSpan memory);

  /// The resolver that writes it lives, as far as the daemon knows.
  [[nodiscard]] bool is_live() const;
  /// None: ask.
  [[nodiscard]] std::optional<wire::PathRecord> find(const PathQuery& asked, Instant now) const;

 private:
  ByteSpan memory_;
};

/// For the resolver.
class PathPublisher {
 public:
  explicit PathPublisher(MutableByteSpan memory);

  void put(const PathQuery& asked, const wire::PathRecord& path, Instant until);
  void erase(const PathQuery& asked);

 private:
  MutableByteSpan memory_;
};

/// For the daemon: the resolver is there, or is no more.
void set_live(MutableByteSpan memory, bool is_live);

}  // namespace weft::sa
