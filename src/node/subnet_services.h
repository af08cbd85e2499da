#pragma once

#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "node/management_port.h"
#include "subnet/sa/administration.h"
#include "subnet/subnet_manager.h"

namespace weft::node {

/// A subnet manager with its SA, on QP0 and QP1 of one port (IBTA vol 1 §15.1). Pure, not
/// thread-safe. The owner also serves the port's own deadlines.
class SubnetServices final : private subnet::SubnetObserver {
 public:
  /// `port` must outlive it.
  explicit SubnetServices(ManagementPort& port, subnet::SubnetManagerOptions manager = {},
                          const subnet::SaOptions& administration = {});

  /// Fails if another agent of the port is registered for subnet management or SA.
  [[nodiscard]] Result<void> start(Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] subnet::SubnetManager& manager() { return manager_; }
  [[nodiscard]] const subnet::SubnetManager& manager() const { return manager_; }
  [[nodiscard]] const subnet::SubnetAdministration& administration() const {
    return administration_;
  }

 private:
  void subnet_changed(const Change& change, Instant now) override {
    administration_.subnet_changed(change, now);
  }
  void trap_received(const wire::Notice& notice, Instant now) override {
    administration_.trap_received(notice, now);
  }
  void state_changed(wire::SmState state, Instant now) override {
    administration_.state_changed(state, now);
  }

  subnet::SubnetManager manager_;
  subnet::SubnetAdministration administration_;
};

}  // namespace weft::node
