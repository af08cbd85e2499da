#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/keys.h"
#include "base/result.h"

namespace weft::verbs_driver {

/// Registrations of memory that work requests name under a PD's key for all local memory, where the
/// device has no such key: made when a piece is used first, and kept. Each covers whole pages. Any
/// thread. Who unmaps memory that requests have used says so before, by forget(), or never unmaps
/// any (os::keep_freed_memory_mapped): a registration outlives the mapping on hardware, and what is
/// mapped there next would not be reached.
class Registrations {
 public:
  struct Range {
    std::uint64_t begin{};
    std::uint64_t end{};
  };
  struct Entry {
    std::uint64_t length{};  ///< bytes
    LKey lkey{};
    void* region{};
  };
  /// Registers a range of whole pages, and ends a registration.
  struct Registrar {
    std::function<Result<Entry>(std::uint64_t begin, std::uint64_t length)> add;
    std::function<void(const Entry&)> remove;
    /// Where memory lies that may be registered beside a piece of it, so that the pieces around it
    /// need no registration of their own; null: nowhere.
    std::function<Range()> around{};
  };
  static constexpr std::uint64_t kPageBytes = 4'096;
  /// Policy: of memory around a piece, at least; of large memory a part of this many, so that few
  /// registrations cover all of it.
  static constexpr std::uint64_t kAroundBytes = 1U << 20;
  static constexpr std::uint64_t kPartsOfAll = 256;

  /// At most `limit` are kept: none goes by itself, since requests under way may use it.
  Registrations(Registrar registrar, std::size_t limit)
      : registrar_(std::move(registrar)), limit_(limit) {}
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  /// The key under which the device reaches all of the piece. OutOfMemory: too many are kept.
  [[nodiscard]] Result<LKey> key_of(std::uint64_t address, std::uint64_t length);
  /// Ends the registrations that touch the range. No request that uses them is under way.
  void forget(std::uint64_t address, std::uint64_t length);
  [[nodiscard]] std::size_t size() const;

 private:
  [[nodiscard]] Range widened(const Range& pages) const;
  [[nodiscard]] Result<LKey> keep(const Range& range);

  Registrar registrar_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, Entry> kept_;  // by the first byte; they may overlap
  std::uint64_t longest_{};                   // bytes, of all that were ever kept
};

}  // namespace weft::verbs_driver
