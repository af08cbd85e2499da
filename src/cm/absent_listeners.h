#pragma once

// Requests for a service whose listener went away an instant ago: programs that listen anew for
// each connection (perftest -R) leave such gaps, and whoever asks for the next one should not hear
// that there is no such service; others (qperf -cm1) say which port they have before they listen. A
// request waits for the next listener for a moment, policy, and is rejected then. Bounded; one
// thread.

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "cm/types.h"
#include "mad/mad_address.h"

namespace weft::cm {

class AbsentListeners {
 public:
  struct Request {
    PortKey port{};
    mad::MadAddress source{};
    mad::MadBytes mad{};
  };
  static constexpr std::size_t kMost = 256;  ///< of either kind; policy

  /// A grace of zero keeps nothing.
  explicit AbsentListeners(Duration grace) : grace_(grace) {}

  void listener_went(std::uint64_t service_id, Instant now);
  /// Somebody listens again: what waits for it is due.
  void listener_came(std::uint64_t service_id);
  /// False: no listener was there so lately, or too many wait already.
  [[nodiscard]] bool keep(std::uint64_t service_id, const Request& request, Instant now);
  /// To be received again: a listener came, or none did in time.
  [[nodiscard]] std::vector<Request> take_due(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  struct Gone {
    std::uint64_t service_id{};
    Instant at{};
  };
  struct Kept {
    std::uint64_t service_id{};
    Instant until{};
    Request request{};
  };

  Duration grace_;
  std::deque<Gone> gone_;
  std::deque<Kept> kept_;
};

}  // namespace weft::cm
