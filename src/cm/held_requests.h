#pragma once

// Requests whose listener closed a moment ago. Some programs create a new listener for each
// connection (perftest -R), which leaves gaps in which a peer must not be told that no such service
// exists; others announce their port before they listen (qperf -cm1). A request is held for a grace
// period (policy, not from the specification) until a listener appears, and is rejected if none
// does. perftest sleeps for a second between its listeners, and its client connects at the moment
// when its server listens again: who had a listener is remembered for longer than a request waits.
//
// Bounded in both tables. Not thread-safe: use from the owning manager's thread.

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "cm/types.h"
#include "mad/mad_address.h"

namespace weft::cm {

/// Holds REQs and SIDR_REQs (IBTA vol 1 §12.6) for a service that has no listener right now.
class HeldRequests {
 public:
  /// A held MAD, with what is needed to process it again.
  struct Request {
    PortKey port{};
    mad::MadAddress source{};
    mad::MadBytes mad{};
  };
  /// entries in each table; policy, not from the specification
  static constexpr std::size_t kMost = 256;
  /// for so many grace periods after its listener closed, a service's requests are held; policy
  static constexpr std::int64_t kRememberedGraces = 4;

  /// `grace`: how long a request is held. Zero disables holding.
  explicit HeldRequests(Duration grace) : grace_(grace) {}

  /// From now on requests for `service_id` are held.
  void on_listener_closed(std::uint64_t service_id, Instant now);
  /// A listener for `service_id` exists again: requests held for it become due.
  void on_listener_added(std::uint64_t service_id);
  /// Holds `request` for a grace period. Returns false if no listener of the service closed lately,
  /// if a request for it has been held for nothing since then, or if the table is full.
  [[nodiscard]] bool keep(std::uint64_t service_id, const Request& request, Instant now);
  /// Removes and returns the requests to process again: those whose listener appeared, and those
  /// whose grace period ended.
  [[nodiscard]] std::vector<Request> take_due(Instant now);
  /// The earliest time at which `take_due` returns something.
  [[nodiscard]] Instant deadline() const;

 private:
  /// A service whose listener closed, or is expected.
  struct ClosedListener {
    std::uint64_t service_id{};
    Instant at{};
  };
  struct HeldRequest {
    std::uint64_t service_id{};
    Instant until{};
    Request request{};
  };

  [[nodiscard]] bool is_forgotten(const ClosedListener& gone, Instant now) const {
    return gone.at + grace_ * kRememberedGraces <= now;
  }

  Duration grace_;
  std::deque<ClosedListener> closed_listeners_;
  std::deque<HeldRequest> requests_;
};

}  // namespace weft::cm
