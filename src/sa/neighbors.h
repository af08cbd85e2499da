#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "base/time.h"
#include "wire/ipoib/hardware_address.h"

namespace weft::sa {

/// Bounds and times; policy, but for the times of RFC 4861 §10.
struct NeighborLimits {
  std::size_t neighbors{1024};                        ///< known, and asked for
  Duration reachable{Duration::seconds(30)};          ///< then it is asked again
  Duration retransmit{Duration::milliseconds(250)};   ///< between questions, at first
  Duration longest_retransmit{Duration::seconds(1)};  ///< RetransTimer
};

/// The neighbours of an interface: who has which IP address, as they said when they were asked
/// (RFC 826, RFC 4861 §7). An address that nobody asked for is not learned, and one that was
/// answered keeps its first answer until it is asked again: who answers unasked, or second, is not
/// believed. Pure. One thread.
class NeighborTable {
 public:
  explicit NeighborTable(const NeighborLimits& limits = {}) : limits_(limits) {}

  /// None: it has to be asked for.
  [[nodiscard]] std::optional<wire::IpoibHardwareAddress> find(const IpAddress& address,
                                                               Instant now) const;
  /// Asks until somebody answers, or that time has come; longer, if it was being asked for already.
  /// False: there is no room, since too many are being asked for.
  [[nodiscard]] bool ask(const IpAddress& address, Instant until, Instant now);
  /// Nobody wants to know it any more.
  void stop_asking(const IpAddress& address);

  /// An answer; true if it was waited for.
  [[nodiscard]] bool take_answer(const IpAddress& address,
                                 const wire::IpoibHardwareAddress& hardware, Instant now);

  /// Those that are to be asked for now. The link is up.
  [[nodiscard]] std::vector<IpAddress> take_questions(Instant now);
  /// Of the next question; ends what is asked for in vain.
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// The link is down: nothing is known of it any more, what is asked for is asked anew.
  void forget();

  [[nodiscard]] std::size_t size() const { return neighbors_.size(); }
  [[nodiscard]] std::size_t asking() const { return questions_.size(); }
  /// Aborts when its parts contradict each other.
  void check_invariants() const;

 private:
  struct Neighbor {
    std::optional<wire::IpoibHardwareAddress> hardware{};  // none: it is being asked for
    Instant until{};                                       // known, or asked for
    Instant next_question{};
    Duration interval{};
  };
  using Neighbors = std::map<IpAddress, Neighbor>;

  [[nodiscard]] bool make_room();
  void erase(Neighbors::iterator neighbor);

  NeighborLimits limits_;
  Neighbors neighbors_;
  std::set<std::pair<Instant, IpAddress>> questions_;  // of those that are being asked for
  std::set<std::pair<Instant, IpAddress>> ends_;       // of all
};

}  // namespace weft::sa
