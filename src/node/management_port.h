#pragma once

#include <memory>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/limits.h"
#include "mad/management_interface.h"

namespace weft::node {

/// The users of QP0 and QP1 of an HCA port, or of a switch's port 0, beside SMA and PMA: subnet
/// manager, SA, CM, and umad programs (R-MI-1). Not thread-safe.
class ManagementPort {
 public:
  ManagementPort(fabric::PortIndex index, const mad::Limits& limits)
      : index_(index),
        smi_(mad::InterfaceKind::Smi, limits),
        gsi_(mad::InterfaceKind::Gsi, limits) {}

  [[nodiscard]] fabric::PortIndex index() const { return index_; }
  [[nodiscard]] mad::ManagementInterface& smi() { return smi_; }
  [[nodiscard]] mad::ManagementInterface& gsi() { return gsi_; }
  [[nodiscard]] mad::ManagementInterface& interface(mad::InterfaceKind kind) {
    return kind == mad::InterfaceKind::Smi ? smi_ : gsi_;
  }

  [[nodiscard]] Instant deadline() const { return std::min(smi_.deadline(), gsi_.deadline()); }

 private:
  fabric::PortIndex index_;
  mad::ManagementInterface smi_;
  mad::ManagementInterface gsi_;
};

}  // namespace weft::node
