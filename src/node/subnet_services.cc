#include "node/subnet_services.h"

#include <algorithm>
#include <utility>

namespace weft::node {

SubnetServices::SubnetServices(ManagementPort& port, subnet::SubnetManagerOptions manager,
                               const subnet::SaOptions& administration)
    : manager_(port.smi(), std::move(manager), this),
      administration_(manager_, port.gsi(), administration) {}

Result<void> SubnetServices::start(Instant now) {
  if (auto started = administration_.start(); !started) {
    return started;
  }
  return manager_.start(now);
}

void SubnetServices::handle_timeout(Instant now) {
  if (manager_.deadline() <= now) {
    manager_.handle_timeout(now);
  }
  administration_.handle_timeout(now);
}

Instant SubnetServices::deadline() const {
  return std::min(manager_.deadline(), administration_.deadline());
}

}  // namespace weft::node
