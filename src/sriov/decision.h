#pragma once

// What becomes of a MAD and why. Every MAD gets exactly one decision, which can be printed and is
// counted for its function.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sriov/types.h"
#include "wire/mad/mad.h"

namespace weft::sriov {

enum class Action : std::uint8_t {
  SendToWire,
  Deliver,  ///< to the function
  Answer,   ///< the physical function answers or asks in its own name
  Discard,  ///< silently, as the rules demand; the sender sees a completed send
  Drop,     ///< because something is wrong
};

enum class Reason : std::uint8_t {
  // Outbound
  Translated,
  Aggregated,
  VirtualQp0,
  ForeignProxyQp,
  RateExceeded,
  InvalidPKeyIndex,
  ForeignSourceGid,
  DestinationQp0,
  ClassNotAllowed,
  MethodNotAllowed,
  TransactionIdTagged,
  TooManyTransactions,
  TooManyConnections,
  UnknownLocalCommunicationId,
  MulticastRefused,
  TooManyGroups,
  TooManyTables,
  WellKnownQKey,
  VirtualLane15,
  // Inbound
  DefaultOwner,
  TransactionId,
  DestinationGid,
  EmbeddedGid,
  CommunicationId,
  PeerCommunicationId,
  IpAddress,
  ServiceListener,
  AggregateAnswer,
  UnknownDestinationGid,
  UnknownTransactionId,
  UnknownEmbeddedGid,
  UnknownCommunicationId,
  ConflictingOwners,
  InboundClassNotAllowed,
  NoMatchingPKey,
  TunnelNotReady,
};

inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::TunnelNotReady) + 1;

[[nodiscard]] Action action_of(Reason reason);
[[nodiscard]] std::string_view name_of(Action action);
/// In words, for `weft explain` and for logs.
[[nodiscard]] std::string_view text_of(Reason reason);

/// Which MAD it was, and what became of it.
struct Decision {
  FunctionId function{};  ///< sender of an outbound MAD, receiver of an inbound one
  bool is_outbound{};
  Reason reason{};
  wire::MadHeader before{};  ///< as it came
  wire::MadHeader after{};   ///< as it went; only of MADs that went on

  [[nodiscard]] Action action() const { return action_of(reason); }
};

/// One line: direction, function, MAD, action, reason, and the transaction ID if it was changed.
[[nodiscard]] std::string to_string(const Decision& decision);

/// Why a MAD does not go on, or a value.
template <class T>
using OrReason = std::expected<T, Reason>;

/// How often each reason occurred, for each function. One thread at a time.
class DecisionCounters {
 public:
  void count(FunctionId function, Reason reason) {
    ++counts_[function][static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] std::uint64_t of(FunctionId function, Reason reason) const;
  /// Of all reasons with this action.
  [[nodiscard]] std::uint64_t of(FunctionId function, Action action) const;
  struct Count {
    Reason reason{};
    std::uint64_t count{};
    bool operator==(const Count&) const = default;
  };
  /// Those that are not zero, in the reasons' order.
  [[nodiscard]] std::vector<Count> all_of(FunctionId function) const;
  /// The number is another function's from now on.
  void forget(FunctionId function) { counts_.erase(function); }
  /// One line for each reason that occurred: "VF 3: 12 dropped: class not allowed".
  [[nodiscard]] std::string report(FunctionId function) const;

 private:
  std::map<FunctionId, std::array<std::uint64_t, kReasons>> counts_;
};

/// The latest decisions, for who asks why a MAD went where it went. One thread at a time.
class DecisionLog {
 public:
  static constexpr std::size_t kEntries = 512;  ///< policy

  struct Entry {
    Instant at;
    Decision decision;
  };
  void add(const Decision& decision, Instant now) {
    if (entries_.size() == kEntries) {
      entries_.pop_front();
    }
    entries_.push_back({.at = now, .decision = decision});
  }
  /// Oldest first.
  [[nodiscard]] const std::deque<Entry>& entries() const { return entries_; }
  /// The number is another function's from now on.
  void forget(FunctionId function) {
    std::erase_if(entries_,
                  [&](const Entry& entry) { return entry.decision.function == function; });
  }

 private:
  std::deque<Entry> entries_;
};

[[nodiscard]] std::string name_of(FunctionId function);

}  // namespace weft::sriov
