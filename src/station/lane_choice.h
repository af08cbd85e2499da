#pragma once

// Which of a pair's lanes a pair of QPs uses (docs/ARCHITECTURE.md, decision 3).

#include <algorithm>
#include <cstdint>

#include "base/identifiers.h"
#include "base/process_address.h"

namespace weft::station {

/// Lanes that join a pair of processes: QP pairs are spread over them, so that threads with QPs of
/// their own do not contend for one ring. A lane that carries nothing costs no memory; policy.
inline constexpr std::uint32_t kLanesPerPair = 4;

/// The index of the lane for the QP pair (`own` in `self`, `other` in `peer`), below kLanesPerPair.
/// Both processes compute the same index. QPs with neighbouring QPNs in the process that decides
/// use different lanes.
[[nodiscard]] inline std::uint32_t lane_index_for(ProcessAddress self, Qpn own, ProcessAddress peer,
                                                  Qpn other) {
  const Qpn decides = self == peer ? std::min(own, other) : (self < peer ? own : other);
  return decides.value() % kLanesPerPair;
}

}  // namespace weft::station
