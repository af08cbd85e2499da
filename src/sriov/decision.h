#pragma once

// What becomes of a MAD and why. Every MAD gets exactly one decision, which can be printed and is
// counted for its function.

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <string_view>

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
  /// One line for each reason that occurred: "VF 3: 12 dropped: class not allowed".
  [[nodiscard]] std::string report(FunctionId function) const;

 private:
  std::map<FunctionId, std::array<std::uint64_t, kReasons>> counts_;
};

[[nodiscard]] std::string name_of(FunctionId function);

}  // namespace weft::sriov
