#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "daemon/offences.h"
#include "fabric/counters.h"
#include "fabric/faults.h"
#include "fabric/tables.h"
#include "node/fabric.h"

namespace weft::daemon {

struct ProgramStatus {
  node::ProcessId process;
  pid_t pid{};
  std::string program;  // foreign text
};

/// What `weft status --json` prints: fabric, nodes with ports, programs, offences; with `counters`,
/// those of every port under the names of PortCounters.
[[nodiscard]] std::string status_json(std::string_view fabric, std::string_view log,
                                      const fabric::TablesView& view,
                                      std::span<const ProgramStatus> programs,
                                      std::span<const Offence> offences,
                                      const fabric::CounterSum* counters);

/// What `weft fault list --json` prints: each rule, the ports whose links it is on, and how many
/// packets it has met and hit.
[[nodiscard]] std::string faults_json(const fabric::TablesView& view,
                                      std::span<const node::FaultRule> rules,
                                      const fabric::FaultCounters& counters);

}  // namespace weft::daemon
