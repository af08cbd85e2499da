#pragma once

#include <cstdint>

#include "base/serial.h"
#include "wire/aeth.h"
#include "wire/encodings.h"

namespace weft::hca {

/// End-to-end credits as an RC requester counts them (IBTA vol 1 §9.7.7.2, R-RVT-10): which of its
/// messages may start before the responder has said that receive WQEs are there for them.
class RcCredits {
 public:
  /// `unlimited`: nobody counts the receive WQEs, since they are an SRQ's.
  void start(bool unlimited, Msn first = {}) {
    ssn_ = lsn_ = first;
    unlimited_ = unlimited;
  }

  /// What a positive acknowledgement says; others say nothing of credits.
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

  /// A message that takes a receive WQE may start: SSN <= LSN + 1, one without credit as a probe.
  [[nodiscard]] bool allow_next() const { return unlimited_ || distance(ssn_ + 1, lsn_ + 1) >= 0; }

  /// A message starts. One that takes no receive WQE needs no credit either.
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
