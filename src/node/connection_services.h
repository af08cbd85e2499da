#pragma once

// A host's connection managers: the InfiniBand CM on QP1 of its ports, and RDMA-CM on top of it.
// They belong to the daemon because their state outlives a program (docs/ARCHITECTURE.md, decision
// 9). Pure, not thread-safe.

#include <cstdint>
#include <set>
#include <string_view>

#include "base/time.h"
#include "cm/connection_manager.h"
#include "cm/rdma/rdma_cm.h"
#include "fabric/tables.h"
#include "mad/management_interface.h"
#include "sa/local_port.h"
#include "sa/resolver.h"
#include "sa/sa_client.h"

namespace weft::node {

/// The connection managers of one host.
class ConnectionServices {
 public:
  /// `resolver` must outlive it. Use a seed per host that nobody can guess.
  ConnectionServices(sa::Resolver& resolver, std::uint64_t seed);

  /// Attributes of a port; set initially and after each change.
  struct Port {
    fabric::PortIndex index;
    mad::ManagementInterface& gsi;
    sa::SaClient& sa;
    std::string_view device;
    PortNumber number;
    Guid ca_guid;
  };
  void set_port(const Port& port);

  [[nodiscard]] cm::ConnectionManager& connections() { return connections_; }
  [[nodiscard]] const cm::ConnectionManager& connections() const { return connections_; }
  [[nodiscard]] cm::RdmaCm& rdma_cm() { return rdma_cm_; }

  void handle_timeout(Instant now) { connections_.handle_timeout(now); }
  [[nodiscard]] Instant deadline() const { return connections_.deadline(); }

 private:
  cm::ConnectionManager connections_;
  cm::RdmaCm rdma_cm_;
  std::set<fabric::PortIndex> ports_;
};

}  // namespace weft::node
