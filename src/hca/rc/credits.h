#pragma once

#include <cstdint>

#include "base/serial.h"
#include "wire/aeth.h"
#include "wire/encodings.h"

namespace weft::hca {

/// The requester's side of end-to-end flow control on RC (IBTA vol 1 §9.7.7.2, R-RVT-10): which
/// messages may start before the responder has granted credits for their receive WQEs. Guarded by
/// the requester's lock.
class RcCredits {
 public:
  /// `unlimited`: the responder receives from an SRQ and grants no credits.
  void start(bool unlimited, Msn first = {}) {
    ssn_ = lsn_ = first;
    unlimited_ = unlimited;
  }

  /// Takes the credits of a positive acknowledgement; other AETHs carry none.
  void take(const wire::Aeth& aeth) {
    if (unlimited_ || aeth.syndrome.kind() != wire::SyndromeKind::Ack) {
      return;
    }
    const std::uint8_t code = aeth.syndrome.code();
    if (code == wire::kUnlimitedCredits) {
      unlimited_ = true;
      return;
    }
    const Msn limit = aeth.msn + wire::credit_count(code);
    if (distance(lsn_, limit) > 0) {
      lsn_ = limit;
    }
  }

  /// True if a message that consumes a receive WQE may start: SSN <= LSN + 1, so that one message
  /// without a credit serves as a probe.
  [[nodiscard]] bool allow_next() const { return unlimited_ || distance(ssn_ + 1, lsn_ + 1) >= 0; }

  /// Counts a message that starts. One that consumes no receive WQE needs no credit.
  void count(bool takes_receive) {
    ssn_ = ssn_ + 1;
    if (!takes_receive) {
      lsn_ = lsn_ + 1;
    }
  }

 private:
  Msn ssn_;  // send sequence number of the newest message
  Msn lsn_;  // limit sequence number
  bool unlimited_{};
};

}  // namespace weft::hca
