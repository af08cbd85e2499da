#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cm/rdma/types.h"
#include "daemon/offences.h"
#include "fabric/counters.h"
#include "fabric/faults.h"
#include "fabric/tables.h"
#include "node/fabric.h"

namespace weft::daemon {

/// A running program.
struct ProgramStatus {
  node::ProcessId process;
  pid_t pid{};
  std::string program;  // untrusted text
};

/// An RDMA-CM id of a program.
struct ConnectionStatus {
  fabric::NodeIndex host;
  pid_t pid{};
  cm::RdmaCmIdInfo id;
};

/// Sizes of a host's connection managers, including ids without a user.
struct ManagerStatus {
  fabric::NodeIndex host;
  std::size_t rdma_cm_ids{};
  std::size_t connection_ids{};  ///< including listeners and TimeWait
};

/// Contents of a status report, beside the tables. With `counters`, it includes those of all ports
/// under the names of PortCounters.
struct StatusReport {
  std::string_view fabric;
  std::string_view log;
  std::span<const ProgramStatus> programs;
  std::span<const ConnectionStatus> connections;
  std::span<const ManagerStatus> managers;
  std::span<const Offence> offences;
  const node::SharedPorts* shared_ports{};                // with virtual functions
  std::vector<fabric::PortIndex> unassigned_functions{};  // which share none yet
  const fabric::CounterSum* counters{};
};

/// The output of `weft status --json`: fabric, nodes with ports, programs, connections, offences.
[[nodiscard]] std::string status_json(const fabric::TablesView& view, const StatusReport& report);

/// The output of `weft fault list --json`: each rule, the ports it applies to, and the packets it
/// has examined and hit.
[[nodiscard]] std::string faults_json(const fabric::TablesView& view,
                                      std::span<const node::FaultRule> rules,
                                      const fabric::FaultCounters& counters);

}  // namespace weft::daemon
