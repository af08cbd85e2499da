#pragma once

// Transaction IDs of requests, made unique among the functions of a port. The top byte of an ID is
// zero when a function sends it, and says on the wire whose it is: up to 127 the function itself,
// as mlx4 does; beyond, that a table has the function and its ID. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/time.h"
#include "sriov/decision.h"
#include "sriov/types.h"

namespace weft::sriov {

/// Top bytes that are no function's number.
inline constexpr std::uint8_t kTableTag = 0x80;      ///< the rest is a key of the table
inline constexpr std::uint8_t kMulticastTag = 0xFE;  ///< requests about memberships (GroupProxy)
inline constexpr std::uint8_t kAliasGuidTag = 0xFF;  ///< requests about alias GUIDs

inline constexpr std::uint16_t kMostTaggedFunctions = 127;

[[nodiscard]] constexpr std::uint8_t tag_of(std::uint64_t transaction_id) {
  return static_cast<std::uint8_t>(transaction_id >> 56);
}
[[nodiscard]] constexpr std::uint64_t with_tag(std::uint8_t tag, std::uint64_t transaction_id) {
  return std::uint64_t{tag} << 56 | (transaction_id & 0x00FF'FFFF'FFFF'FFFF);
}

/// All numbers are policy.
struct TransactionLimits {
  std::size_t of_function{256};              ///< entries of the table
  Duration lifetime{Duration::seconds(60)};  ///< of an entry after its last use
};

class TransactionIds {
 public:
  explicit TransactionIds(const TransactionLimits& limits) : limits_(limits) {}

  /// The ID on the wire of a function's request. The same request sent again, and RMPP's ACKs of
  /// its answer, get the same ID. TransactionIdTagged or TooManyTransactions.
  [[nodiscard]] OrReason<std::uint64_t> map(FunctionId function, std::uint64_t transaction_id,
                                            Instant now);

  struct Owner {
    FunctionId function{};
    std::uint64_t transaction_id{};
    bool operator==(const Owner&) const = default;
  };
  /// Whose request an answer with this ID belongs to; none if nobody's. Whether the function
  /// exists is not looked at.
  [[nodiscard]] std::optional<Owner> restore(std::uint64_t transaction_id, Instant now);

  void remove(FunctionId function);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;
  [[nodiscard]] std::size_t size() const { return by_key_.size(); }
  void check_invariants() const;

 private:
  struct Entry {
    Owner owner;
    Instant expires;
  };
  using OwnerKey = std::pair<FunctionId, std::uint64_t>;

  void erase(std::uint64_t key);

  TransactionLimits limits_;
  std::uint64_t last_key_{};  // 56 bits
  std::map<std::uint64_t, Entry> by_key_;
  std::map<OwnerKey, std::uint64_t> by_owner_;
  std::map<FunctionId, std::size_t> count_;
};

}  // namespace weft::sriov
