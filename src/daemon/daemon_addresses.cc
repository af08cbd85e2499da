// Interfaces that programs carry for their hosts: RDMA-CM of the host has their addresses while the
// program is there, and asks it for their neighbours.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/daemon_impl.h"
#include "node/host_services.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

constexpr std::int64_t kNsOfMs = 1'000'000;

/// At least one, so that it is not over at once.
[[nodiscard]] std::uint32_t whole_ms(Duration within) {
  const std::int64_t ms = within.nanoseconds() / kNsOfMs;
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ms, 1, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

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
  const CarriedInterface wanted{
      .host = *host, .port = ports[request.port_of_host], .pkey = PKey{request.pkey}};
  const bool is_anothers = std::ranges::any_of(
      carriers_, [&](const auto& one) { return one.first != &client && one.second == wanted; });
  const auto own = carriers_.find(&client);
  if (is_anothers || (own != carriers_.end() && own->second != wanted)) {
    return fail(ErrorCode::Exists, "{}: {}", request.host,
                is_anothers ? "another program carries this interface of the port"
                            : "a connection carries one interface");
  }
  auto set = services.set_carried({
      .port = wanted.port,
      .pkey = wanted.pkey,
      .addresses = std::move(addresses),
      .ask =
          [&client](const IpAddress& neighbor, Duration within) {
            client.send(uabi::AskNeighbor{to_string(neighbor), whole_ms(within)});
          },
  });
  if (set) {
    carriers_.insert_or_assign(&client, wanted);
  }
  return set;
}

void Daemon::Impl::take_neighbor(Client& client, const uabi::TellNeighbor& message) {
  const auto found = carriers_.find(&client);
  const auto neighbor = parse_ip_address(message.neighbor);
  if (found == carriers_.end() || !neighbor) {
    return client.refuse(neighbor ? "this connection carries no interface"
                                  : neighbor.error().reason);
  }
  const CarriedInterface& carried = found->second;
  if (fabric_->hosts().has(carried.host)) {  // else it has left the fabric
    fabric_->hosts()
        .host(carried.host, os::now())
        .take_neighbor(carried.port, carried.pkey, *neighbor, message.gid);
    run_management();  // who waits for it goes on
  }
}

void Daemon::Impl::hold_groups(Client& client, const uabi::HoldGroups& message) {
  const auto found = carriers_.find(&client);
  if (found == carriers_.end()) {
    return client.refuse("this connection carries no interface");
  }
  const CarriedInterface& carried = found->second;
  if (fabric_->hosts().has(carried.host)) {
    fabric_->hosts()
        .host(carried.host, os::now())
        .hold_groups(carried.port, carried.pkey, message.mgids, os::now());
    run_management();
  }
}

/// The end of a connection may be noticed in the middle of what the plane does.
void Daemon::Impl::drop_addresses(Client& client) {
  const auto found = carriers_.find(&client);
  if (found == carriers_.end()) {
    return;
  }
  const CarriedInterface carried = found->second;
  carriers_.erase(found);
  if (fabric_->hosts().has(carried.host)) {
    const Instant now = os::now();
    fabric_->hosts().host(carried.host, now).drop_carried(carried.port, carried.pkey, now);
    post_management();
  }
}

}  // namespace weft::daemon
