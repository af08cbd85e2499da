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

/// Matches requests to listeners by service ID, CA, private data and type of QP (R-CML-1, R-CML-2,
/// R-CML-4). A lookup costs one step per distinct mask, independent of the number of listeners.
/// Pure, not thread-safe.
class ListenerTable {
 public:
  /// A listener and what it matches.
  struct Listener {
    CmId id{};
    std::uint64_t service_id{};
    std::uint64_t mask{kExactServiceId};
    std::optional<Guid> ca_guid{};
    PrivateDataMatch match{};
    std::optional<QpType> qp_type{};  ///< none: of every type
  };

  explicit ListenerTable(std::size_t masks_limit) : masks_limit_(masks_limit) {}

  /// Fails with Busy if another listener would match the same requests. Listeners with overlapping
  /// service IDs may coexist only if their types differ, or both match private data and their
  /// patterns differ.
  [[nodiscard]] Result<void> add(Listener listener);
  void remove(const Listener& listener);

  /// The most specific listener for a request: exact service IDs before masked ones, more private
  /// data before less, a specific CA before any CA. Returns kNoCmId if none matches.
  [[nodiscard]] CmId find(std::uint64_t service_id, Guid ca_guid, ByteSpan private_data,
                          QpType qp_type) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  /// Orders masks with more bits first.
  struct BySpecificity {
    bool operator()(std::uint64_t a, std::uint64_t b) const;
  };
  using Bucket = std::vector<Listener>;  // listeners of one masked ID, most specific first
  using Group = std::unordered_map<std::uint64_t, Bucket>;

  [[nodiscard]] const Listener* find_conflict(const Listener& listener) const;

  std::size_t masks_limit_;
  std::size_t size_{};
  std::map<std::uint64_t, Group, BySpecificity> groups_;  // by mask
};

}  // namespace weft::cm
