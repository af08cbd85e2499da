#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "cm/parameters.h"
#include "cm/types.h"

namespace weft::cm {

/// Who takes which service ids (R-CML-1, R-CML-2, R-CML-4). A look-up costs one step for each
/// different mask, however many listeners there are. Pure, one thread.
class ListenerTable {
 public:
  struct Listener {
    CmId id{};
    std::uint64_t service_id{};
    std::uint64_t mask{kExactServiceId};
    std::optional<Guid> ca_guid{};
    PrivateDataMatch match{};
  };

  explicit ListenerTable(std::size_t masks_limit) : masks_limit_(masks_limit) {}

  /// Busy when another one would take the same requests: of two whose service ids overlap, both or
  /// neither look at private data, and nothing in it tells them apart.
  [[nodiscard]] Result<void> add(Listener listener);
  void remove(const Listener& listener);

  /// The best one for a request: exact before masked ids, more private data before less, one CA
  /// before any. None: kNoCmId.
  [[nodiscard]] CmId find(std::uint64_t service_id, Guid ca_guid, ByteSpan private_data) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  /// More bits first.
  struct BySpecificity {
    bool operator()(std::uint64_t a, std::uint64_t b) const;
  };
  using Bucket = std::vector<Listener>;  // of one masked id, the best ones first
  using Group = std::unordered_map<std::uint64_t, Bucket>;

  [[nodiscard]] const Listener* find_conflict(const Listener& listener) const;

  std::size_t masks_limit_;
  std::size_t size_{};
  std::map<std::uint64_t, Group, BySpecificity> groups_;  // by mask
};

}  // namespace weft::cm
