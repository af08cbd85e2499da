#pragma once

// Which function of a shared port a SIDR_REQ without a GRH is for, as the hosts themselves know it:
// the one whose host has the IP address, or whose connection manager has a listener. The daemon's
// thread.

#include <optional>

#include "base/identifiers.h"
#include "fabric/tables.h"
#include "node/host_services.h"
#include "node/shared_ports.h"
#include "sriov/service_table.h"

namespace weft::node {

class FunctionDirectory final : public sriov::ServiceDirectory {
 public:
  /// Of a port of `ports.physical_ports()`. All arguments outlive it.
  FunctionDirectory(const fabric::TablesBuilder& tables, const SharedPorts& ports,
                    HostServicesTable& hosts, fabric::PortIndex physical)
      : tables_(tables), ports_(ports), hosts_(hosts), physical_(physical) {}

  [[nodiscard]] std::optional<sriov::FunctionId> find_address(
      const wire::SidrReq& request) const override;
  [[nodiscard]] std::optional<sriov::FunctionId> find_listener(
      const wire::SidrReq& request) const override;

 private:
  /// The first function whose port this holds of, the physical one before the others.
  template <class Holds>
  [[nodiscard]] std::optional<sriov::FunctionId> first(Holds holds) const;
  [[nodiscard]] bool listens(fabric::PortIndex port, const wire::SidrReq& request) const;

  const fabric::TablesBuilder& tables_;
  const SharedPorts& ports_;
  HostServicesTable& hosts_;
  fabric::PortIndex physical_;
};

}  // namespace weft::node
