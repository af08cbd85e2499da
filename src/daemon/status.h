#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cm/rdma/types.h"
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

/// An id of RDMA-CM that a program has.
struct ConnectionStatus {
  fabric::NodeIndex host;
  pid_t pid{};
  cm::RdmaCmIdInfo id;
};

/// What a host's connection managers hold, with what the protocol owes of ids that are gone.
struct ManagerStatus {
  fabric::NodeIndex host;
  std::size_t rdma_cm_ids{};
  std::size_t connection_ids{};  ///< listeners and time-waits among them
};

/// What a status is of, beside the tables. With `counters`, those of every port are in it, under
/// the names of PortCounters.
struct StatusReport {
  std::string_view fabric;
  std::string_view log;
  std::span<const ProgramStatus> programs;
  std::span<const ConnectionStatus> connections;
  std::span<const ManagerStatus> managers;
  std::span<const Offence> offences;
  const fabric::CounterSum* counters{};
};

/// What `weft status --json` prints: fabric, nodes with ports, programs, connections, offences.
[[nodiscard]] std::string status_json(const fabric::TablesView& view, const StatusReport& report);

/// What `weft fault list --json` prints: each rule, the ports whose links it is on, and how many
/// packets it has met and hit.
[[nodiscard]] std::string faults_json(const fabric::TablesView& view,
                                      std::span<const node::FaultRule> rules,
                                      const fabric::FaultCounters& counters);

}  // namespace weft::daemon
