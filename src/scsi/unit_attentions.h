#pragma once

// Unit attention conditions of one I_T nexus at one logical unit (SAM-5 §5.14).

#include <cstddef>
#include <optional>
#include <vector>

#include "scsi/sense.h"

namespace weft::scsi {

/// A queue without duplicates. The caller locks.
class UnitAttentions {
 public:
  /// A reset replaces what it makes meaningless (SAM-5 §5.14.3, Table 40); reports of the same kind
  /// are made once.
  void establish(SenseCode code) {
    if (is_reset(code)) {
      std::erase_if(pending_, [](SenseCode old) { return is_reset(old) || is_voided(old); });
      pending_.insert(pending_.begin(), code);
      return;
    }
    for (const SenseCode old : pending_) {
      if (old == code) {
        return;
      }
    }
    pending_.push_back(code);
  }

  /// The next one, which is thereby cleared.
  [[nodiscard]] std::optional<SenseCode> take() {
    if (pending_.empty()) {
      return std::nullopt;
    }
    const SenseCode code = pending_.front();
    pending_.erase(pending_.begin());
    return code;
  }

  [[nodiscard]] bool any() const { return !pending_.empty(); }
  void clear(SenseCode code) { std::erase(pending_, code); }

 private:
  static bool is_reset(SenseCode code) {
    return code == SenseCode::PowerOnOccurred || code == SenseCode::ScsiBusResetOccurred ||
           code == SenseCode::BusDeviceResetOccurred || code == SenseCode::NexusLossOccurred;
  }
  // What a reset says by itself.
  static bool is_voided(SenseCode code) {
    return code == SenseCode::ModeParametersChanged ||
           code == SenseCode::CommandsClearedByAnotherInitiator;
  }

  std::vector<SenseCode> pending_;
};

}  // namespace weft::scsi
