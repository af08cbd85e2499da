// Addresses that programs carry for their hosts: RDMA-CM of the host has them while the program is
// there.

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/daemon_impl.h"
#include "node/host_services.h"
#include "os/clock.h"

namespace weft::daemon {

void Daemon::Impl::carry_addresses(Client& client, const uabi::CarryAddresses& request) {
  if (const auto taken = take_addresses(client, request); !taken) {
    return client.refuse(taken.error().reason);
  }
  run_management();  // a host may have its first services by it
  answer(client, "");
}

Result<void> Daemon::Impl::take_addresses(Client& client, const uabi::CarryAddresses& request) {
  const auto host = namespace_host(request.version, request.host);
  if (!host) {
    return std::unexpected(host.error());
  }
  std::vector<InterfaceAddress> addresses;
  for (const std::string& text : request.addresses) {
    const auto address = parse_interface_address(text);
    if (!address) {
      return std::unexpected(address.error());
    }
    addresses.push_back(*address);
  }
  node::HostServices& services = fabric_->hosts().host(*host, os::now());
  const std::vector<fabric::PortIndex> ports = services.ports();
  if (request.port_of_host >= ports.size()) {
    return fail(ErrorCode::InvalidArgument, "{} has no port {}: they are counted from 0",
                request.host, request.port_of_host);
  }
  const CarriedPort wanted{.host = *host, .port = ports[request.port_of_host]};
  const bool is_anothers = std::ranges::any_of(carriers_, [&](const auto& one) {
    return one.first != &client && one.second.port == wanted.port;
  });
  const auto own = carriers_.find(&client);
  if (is_anothers || (own != carriers_.end() && own->second.port != wanted.port)) {
    return fail(ErrorCode::Exists, "{}: {}", request.host,
                is_anothers ? "another program carries addresses of this port"
                            : "a connection carries addresses of one port");
  }
  if (auto set = services.set_carried(wanted.port, PKey{request.pkey}, std::move(addresses));
      !set) {
    return set;
  }
  carriers_.insert_or_assign(&client, wanted);
  return {};
}

void Daemon::Impl::drop_addresses(Client& client) {
  const auto found = carriers_.find(&client);
  if (found == carriers_.end()) {
    return;
  }
  const CarriedPort carried = found->second;
  carriers_.erase(found);
  if (fabric_->hosts().has(carried.host)) {  // else it has left the fabric
    static_cast<void>(
        fabric_->hosts().host(carried.host, os::now()).set_carried(carried.port, PKey{}, {}));
  }
}

}  // namespace weft::daemon
