// Hosts as namespaces: what a command is told and what is kept of it; /etc/hosts of all hosts; the
// end of the programs in them.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>

#include "daemon/daemon_impl.h"
#include "node/host_services.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

/// As a host's interface is to have it: an address by formula lies in the prefix of all hosts.
[[nodiscard]] std::string interface_text(const InterfaceAddress& address) {
  return address.address.is_loopback() ? to_string(address.address) : to_string(address);
}

[[nodiscard]] std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

/// The fabric, as /run/weft-fabric in its hosts names it.
std::string Daemon::Impl::make_fabric_id(const std::string& directory) {
  return fmt::format("{} {:016x}", directory, random_seed());
}

KeptNamespaces::Handlers Daemon::Impl::namespace_handlers() {
  return {
      .view =
          [this](fabric::NodeIndex host, bool has_counters) {
            return view_host(host, has_counters ? node::WithCounters::Yes : node::WithCounters::No);
          },
      .is_sm_path =
          [this](fabric::NodeIndex host, const std::string& device, std::uint32_t port) {
            const std::string name{view().name(view().node(host))};
            const auto path =
                watch_is_sm(host, name, device, PortNumber{static_cast<std::uint8_t>(port)});
            return path.value_or("");
          },
      .write_function_file =
          [this](fabric::NodeIndex host, const std::string& path, std::string_view text) {
            return write_function_file(host, path, text);
          },
      .log = [this](std::string_view line) { log_.write(line); },
  };
}

Result<fabric::NodeIndex> Daemon::Impl::namespace_host(std::uint32_t version,
                                                       const std::string& name) const {
  const auto host = umad_node(version, name);
  if (host && view().node(*host).kind != fabric::NodeKind::Host) {
    return fail(ErrorCode::InvalidArgument,
                "{} is a switch: only hosts have namespaces; `weft exec {} -- ...` runs programs "
                "that speak MADs there",
                name, name);
  }
  if (host && is_stopping_) {
    return fail(ErrorCode::Refused, "fabric {} is going down", options_.fabric);
  }
  return host;
}

void Daemon::Impl::ask_namespaces(Client& client, const uabi::AskNamespaces& request) {
  const auto host = namespace_host(request.version, request.host);
  if (!host) {
    return client.refuse(host.error().reason);
  }
  send_namespaces(client, *host);
}

/// What there is for the host, or what is wanted next.
void Daemon::Impl::send_namespaces(Client& client, fabric::NodeIndex host) {
  if (!namespaces_.user_namespace()) {
    return client.send(uabi::FabricWanted{});
  }
  if (auto descriptors = namespaces_.host_descriptors(host); !descriptors.empty()) {
    return client.send(uabi::HostKept{}, std::move(descriptors));
  }
  if (!host_makers_.take(host, client, os::now())) {
    return;  // another command makes it: answered when it has
  }
  if (last_hub_port_ == 0) {
    write_hosts_file();  // kept up to date from now on
  }
  uabi::HostPlan plan{.addresses = {},
                      .hub_port = ++last_hub_port_,
                      .hosts_file = hosts_file_path(),
                      .fabric_id = fabric_id_};
  for (const node::HostAddresses& each : fabric_->host_addresses()) {
    if (each.host != host) {
      continue;
    }
    for (const InterfaceAddress& address : each.addresses) {
      // A link-local address is the interface's own affair.
      if (!address.address.is_link_local() && plan.addresses.size() < uabi::kMaxHostAddresses) {
        plan.addresses.push_back(interface_text(address));
      }
    }
  }
  client.send(uabi::HostWanted{std::move(plan)}, namespaces_.fabric_descriptors());
}

void Daemon::Impl::keep_fabric_namespaces(Client& client, const uabi::KeepFabricNamespaces& request,
                                          std::array<os::UniqueFd, 2> descriptors) {
  const auto host = namespace_host(request.version, request.host);
  const auto kept = host ? namespaces_.keep_fabric(std::move(descriptors))
                         : Result<void>{std::unexpected(host.error())};
  if (!kept) {
    return client.refuse(kept.error().reason);
  }
  send_namespaces(client, *host);
}

void Daemon::Impl::keep_host_namespaces(
    Client& client, const uabi::KeepHostNamespaces& request,
    std::array<os::UniqueFd, uabi::kKeepHostDescriptors> descriptors) {
  const auto host = namespace_host(request.version, request.host);
  const auto kept = host ? namespaces_.keep_host(*host, std::move(descriptors))
                         : Result<void>{std::unexpected(host.error())};
  if (!kept) {
    return client.refuse(kept.error().reason);
  }
  send_namespaces(client, *host);
  while (Client* const waiting = host_makers_.finish(*host)) {
    send_namespaces(*waiting, *host);
  }
}

/// What the client was to make, another one makes.
void Daemon::Impl::leave_host_makers(const Client& client) {
  while (const auto turn = host_makers_.leave(client, os::now())) {
    send_namespaces(*turn->maker, turn->host);
  }
}

std::string Daemon::Impl::hosts_file_path() const { return directory_ + "/hosts"; }

/// In place, since it is mounted in the hosts.
void Daemon::Impl::write_hosts_file() {
  std::string text =
      "127.0.0.1\tlocalhost\n"
      "::1\tlocalhost ip6-localhost ip6-loopback\n";
  for (const node::HostAddresses& host : fabric_->host_addresses()) {
    if (!host.addresses.empty()) {
      text += fmt::format("{}\t{}\n", to_string(host.addresses.front().address), host.name);
    }
  }
  const std::string path = hosts_file_path();
  const os::UniqueFd file{open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
  const auto bytes = static_cast<ssize_t>(text.size());
  if (!file || pwrite(file.get(), text.data(), text.size(), 0) != bytes ||
      ftruncate(file.get(), bytes) != 0) {
    log_.write(fmt::format("{} could not be written", path));
  }
}

/// After hosts have come or gone.
void Daemon::Impl::follow_hosts() {
  if (!namespaces_.user_namespace()) {
    return;
  }
  write_hosts_file();
  for (const fabric::NodeIndex host : namespaces_.hosts()) {
    if (!fabric_->builder().node(host).is_removed()) {
      continue;
    }
    if (const auto mounts = namespaces_.drop_host(host)) {
      ender_.end([mounts] { return os::processes_in_mount_namespace(*mounts); },
                 [this](const ProcessEnder::Ended& ended) { log_ended(ended); });
    }
  }
}

void Daemon::Impl::log_ended(const ProcessEnder::Ended& ended) {
  if (ended.asked != 0) {
    log_.write(ProcessEnder::describe(ended));
  }
}

/// Ends the programs in the hosts' namespaces, then the event loop.
void Daemon::Impl::stop(std::optional<pid_t> requester, std::function<void(std::string)> report) {
  if (is_stopping_) {
    return;
  }
  is_stopping_ = true;
  const auto& user = namespaces_.user_namespace();
  if (!user) {
    report("");
    return loop_.stop();
  }
  ender_.end(
      [id = *user, requester] {
        auto found = os::processes_in_user_namespace(id);
        std::erase_if(found, [&](const os::RunningProcess& process) {
          return process.pid == getpid() || process.pid == requester;  // which ends by itself
        });
        return found;
      },
      [this, report = std::move(report)](const ProcessEnder::Ended& ended) {
        log_ended(ended);
        report(ended.asked != 0 ? ProcessEnder::describe(ended) : "");
        loop_.stop();
      });
}

}  // namespace weft::daemon
