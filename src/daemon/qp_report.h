#pragma once

#include <string>
#include <vector>

#include "daemon/status.h"
#include "fabric/tables.h"
#include "node/fabric.h"
#include "uabi/messages.h"

namespace weft::daemon {

/// What a program says that it holds.
struct ProgramObjects {
  ProgramStatus program;
  std::vector<uabi::ObjectsHeld> held;
};

/// The output of `weft status --qps --json`: the QPs of all programs, and for connected ones which
/// way their long RDMA WRITEs and READs went last, and why (docs/ARCHITECTURE.md, decision 18).
[[nodiscard]] std::string qps_json(const fabric::TablesView& view,
                                   const std::vector<ProgramObjects>& programs);

}  // namespace weft::daemon
