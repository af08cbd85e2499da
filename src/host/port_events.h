#pragma once

#include <cstdint>
#include <vector>

#include "hca/hca.h"
#include "host/fabric_map.h"
#include "host/hca_set.h"
#include "host/process.h"

namespace weft::host {

/// The ports of this process's HCAs as the newest tables describe them: passes their attributes to
/// the engines, and reports to the program what changed. On the control thread, and before there is
/// one.
class PortEvents {
 public:
  PortEvents(const FabricMap& map, const HcaSet& hcas, ProcessEvents& program)
      : map_(map), hcas_(hcas), program_(program) {}
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;

  /// Reads the ports of the host `node` for the first time. Reports nothing.
  void open(std::uint32_t node);
  /// The tables have changed.
  void refresh();

 private:
  /// What of a port's record events tell of.
  struct ReportedPort {
    hca::PortAttributes attributes;
    std::uint8_t reregistrations{};
  };

  /// Reads a port from the tables and passes it to its engine.
  [[nodiscard]] ReportedPort apply(std::uint32_t hca, PortNumber port);
  void report_changes(std::uint32_t hca, PortNumber port, const ReportedPort& from,
                      const ReportedPort& to);

  const FabricMap& map_;
  const HcaSet& hcas_;
  ProcessEvents& program_;
  std::uint32_t node_{};
  std::vector<std::vector<ReportedPort>> ports_;  // by HCA, by port number - 1
};

}  // namespace weft::host
