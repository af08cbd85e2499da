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

/// Upper bounds and intervals. The intervals are those of RFC 4861 §10, the rest is policy.
struct NeighborLimits {
  std::size_t neighbors{1024};                ///< entries, resolved or being solicited
  Duration reachable{Duration::seconds(30)};  ///< lifetime of an entry; then it is solicited again
  Duration retransmit{Duration::milliseconds(250)};  ///< initial interval of retransmissions
  Duration max_retransmit{Duration::seconds(1)};     ///< RetransTimer
  Duration doubt{Duration::seconds(3)};  ///< an entry that nobody confirms within it ends
};

/// The neighbour cache of an interface: IP address to hardware address, by solicited answers only
/// (RFC 826, RFC 4861 §7). Unsolicited answers are ignored, and the first answer holds until the
/// entry expires; this is the protection against spoofed answers. Only the port that has an address
/// as far as is known may say that it has another QP there. When another port says that it has the
/// address, all are asked again, and the port that was known has the first word: a host whose
/// address moves to another of its ports is found at once, and nobody takes one from a host that
/// is there. Pure, not thread-safe.
class NeighborTable {
 public:
  struct Entry {
    IpAddress address{};
    std::optional<wire::IpoibHardwareAddress> hardware{};  ///< none: it is being solicited
    Duration left{};  ///< until the entry, or its solicitation, ends
  };

  explicit NeighborTable(const NeighborLimits& limits = {}) : limits_(limits) {}

  /// None if the address must be solicited first.
  [[nodiscard]] std::optional<wire::IpoibHardwareAddress> find(const IpAddress& address,
                                                               Instant now) const;
  /// Solicits the address until an answer arrives or `until` has passed; extends a solicitation in
  /// progress. Returns false if too many addresses are being solicited.
  [[nodiscard]] bool solicit(const IpAddress& address, Instant until, Instant now);
  /// Ends the solicitation of an address that is no longer needed.
  void stop_soliciting(const IpAddress& address);

  /// Stores an answer. Returns false if the address was not being solicited.
  [[nodiscard]] bool take_answer(const IpAddress& address,
                                 const wire::IpoibHardwareAddress& hardware, Instant now);

  /// An announcement that nobody asked for. Returns false unless the address is known at the same
  /// GID; the entry then has that hardware address, and lives no longer for it. If it is known at
  /// another, that is doubted: it stays what find() says until an answer comes, of the known port
  /// at any time, of others once it has had its turn.
  bool take_announcement(const IpAddress& address, const wire::IpoibHardwareAddress& hardware,
                         Instant now);

  /// The addresses to send a solicitation for now. Call it only while the link is up.
  [[nodiscard]] std::vector<IpAddress> take_solicitations(Instant now);
  /// Drops entries that expired and solicitations that timed out.
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// The link went down: drops all entries and restarts pending solicitations.
  void forget();

  /// By address; without those that ended.
  [[nodiscard]] std::vector<Entry> entries(Instant now) const;
  [[nodiscard]] std::size_t size() const { return neighbors_.size(); }
  [[nodiscard]] std::size_t soliciting() const { return solicitations_.size(); }
  /// Aborts if internal tables contradict each other.
  void check_invariants() const;

 private:
  struct Neighbor {
    std::optional<wire::IpoibHardwareAddress> hardware{};  // none while being solicited
    Instant until{};  // end of the entry's lifetime, or of its solicitation
    Instant next_solicitation{};
    Duration interval{};
    std::optional<Instant> doubted_at{};  // since when it is solicited though it is known
  };
  using Neighbors = std::map<IpAddress, Neighbor>;

  [[nodiscard]] bool make_room();
  void doubt(const IpAddress& address, Neighbor& neighbor, Instant now);
  void erase(Neighbors::iterator neighbor);

  NeighborLimits limits_;
  Neighbors neighbors_;
  std::set<std::pair<Instant, IpAddress>> solicitations_;  // next retransmissions
  std::set<std::pair<Instant, IpAddress>> ends_;           // of all entries
};

}  // namespace weft::sa
