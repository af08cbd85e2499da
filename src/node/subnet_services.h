#pragma once

#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "node/management_port.h"
#include "subnet/sa/administration.h"
#include "subnet/subnet_manager.h"

namespace weft::node {

/// A subnet manager with its SA, behind QP0 and QP1 of one port (IBTA vol 1 §15.1). Pure; one
/// thread. The port's own deadlines are its plane's business.
class SubnetServices final : private subnet::SubnetObserver {
 public:
  /// `port` must outlive it.
  explicit SubnetServices(ManagementPort& port, subnet::SubnetManagerOptions manager = {},
                          const subnet::SaOptions& administration = {});

  /// Refused when somebody else answers there for subnet management or SA.
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
