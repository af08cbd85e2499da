#pragma once

// Communication IDs of functions, and the ones that stand for them on the wire: no two functions
// share one, and none is used again before its connection's time-wait is over. One thread at a
// time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sriov/decision.h"
#include "sriov/types.h"

namespace weft::sriov {

/// All numbers are policy, but the delay, which is mlx4's.
struct ConnectionLimits {
  std::size_t of_function{4096};  ///< IDs, those in time-wait included
  Duration release_delay{Duration::seconds(30)};
  /// Of an ID whose exchange came to nothing, as of a REQ without an answer.
  Duration unanswered{Duration::seconds(300)};
};

struct CommunicationId {
  FunctionId function{};
  std::uint32_t local{};     ///< as the function knows it
  std::uint32_t physical{};  ///< on the wire
  std::uint32_t peer{};      ///< the peer's ID; 0 as long as it is unknown
  bool is_of_request{};      ///< of a request of the function's own, which it may repeat
  bool is_established{};     ///< both sides have answered
  bool is_closing{};         ///< its release is scheduled
  bool is_orphan{};          ///< its function is gone
  Instant expires{Instant::never()};
  bool operator==(const CommunicationId&) const = default;
};

class CommunicationIds {
 public:
  /// `first` is where the cyclic allocation begins, best a random number.
  CommunicationIds(const ConnectionLimits& limits, std::uint32_t first)
      : limits_(limits), last_(first) {}

  /// Of several that the function used one after the other, the newest. Null without one. An entry
  /// stays where it is until it expires.
  [[nodiscard]] CommunicationId* find(FunctionId function, std::uint32_t local);
  /// The one whose connection is with this peer's ID; 0: whose peer is unknown as yet. Null
  /// without.
  [[nodiscard]] CommunicationId* find_with_peer(FunctionId function, std::uint32_t local,
                                                std::uint32_t peer);
  /// Null if nobody's. It may be an orphan.
  [[nodiscard]] CommunicationId* find_physical(std::uint32_t physical);
  /// A new one, even if the function's earlier one is still in time-wait. TooManyConnections.
  [[nodiscard]] OrReason<CommunicationId*> create(FunctionId function, std::uint32_t local,
                                                  Instant now);

  void establish(CommunicationId& id) const;
  /// The connection is over: the ID is free after the delay.
  void schedule_release(CommunicationId& id, Instant now);
  /// All of a function that is gone: free after the delay, as its peers may still send.
  void orphan(FunctionId function, Instant now);

  /// The function's live entries leave with it, to another port (Multiplexer::export_function).
  [[nodiscard]] std::vector<CommunicationId> live_of(FunctionId function) const;
  /// Takes in an entry that kept its physical ID; false if that is in use here, or the function has
  /// too many.
  [[nodiscard]] bool adopt(const CommunicationId& id);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;
  [[nodiscard]] std::size_t size() const { return by_physical_.size(); }
  [[nodiscard]] std::size_t count_of(FunctionId function) const;
  void check_invariants() const;

 private:
  using LocalKey = std::pair<FunctionId, std::uint32_t>;

  void erase(std::uint32_t physical);

  ConnectionLimits limits_;
  std::uint32_t last_;
  std::map<std::uint32_t, CommunicationId> by_physical_;
  std::map<LocalKey, std::uint32_t> by_local_;
  std::map<FunctionId, std::size_t> count_;
};

}  // namespace weft::sriov
