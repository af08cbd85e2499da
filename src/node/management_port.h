#pragma once

#include <memory>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/limits.h"
#include "mad/management_interface.h"

namespace weft::node {

/// Who is behind QP0 and QP1 of an HCA's port, or of port 0 of a switch, besides the SMA and PMA:
/// a subnet manager, SA, CM, and programs through umad (R-MI-1). One thread.
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
