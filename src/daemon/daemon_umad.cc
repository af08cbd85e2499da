// umad for programs (libibumad): devices of a node, open ports with their agents, and the issm
// files of subnet managers.

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/daemon_impl.h"
#include "daemon/umad/devices.h"
#include "os/clock.h"

namespace weft::daemon {

Result<fabric::NodeIndex> Daemon::Impl::umad_node(std::uint32_t version,
                                                  const std::string& name) const {
  if (version != uabi::kVersion) {
    return fail(ErrorCode::NotSupported,
                "the program's Weft uses version {} of the control protocol, this daemon {}",
                version, uabi::kVersion);
  }
  const auto node = view().find_node(name);
  if (!node) {
    return fail(ErrorCode::NotFound, "fabric {} has no host or switch {} (WEFT_HOST chooses)",
                options_.fabric, name);
  }
  return *node;
}

void Daemon::Impl::list_umad_devices(Client& client, const uabi::ListUmadDevices& request) {
  const auto node = umad_node(request.version, request.node);
  if (!node) {
    return client.refuse(node.error().reason);
  }
  client.send(uabi::UmadDevices{.names = umad_devices(view(), *node)});
}

void Daemon::Impl::describe_umad_device(Client& client, const uabi::DescribeUmadDevice& request) {
  const auto node = umad_node(request.version, request.node);
  const auto ports = node ? umad_ports(view(), *node, request.device)
                          : Result<std::vector<fabric::PortIndex>>{std::unexpected(node.error())};
  if (!ports) {
    return client.refuse(ports.error().reason);
  }
  const wire::NodeInfo info = management().agents().node_info(ports->front());
  uabi::UmadDevice device{.is_switch = view().port(ports->front()).is_switch_port(),
                          .node_guid = info.node_guid,
                          .system_image_guid = info.system_image_guid,
                          .ports = {}};
  for (const fabric::PortIndex port : *ports) {
    device.ports.push_back(describe(fabric_->builder().port(port),
                                    management().agents().port_info(port),
                                    fabric_->builder().pkeys(port)));
  }
  client.send(std::move(device));
}

/// The path of a port's issm file, which is there and watched.
Result<std::string> Daemon::Impl::watch_is_sm(fabric::NodeIndex node, const std::string& name,
                                              const std::string& device, PortNumber number) {
  const auto port = umad_port(view(), node, device, number);
  if (!port) {
    return std::unexpected(port.error());
  }
  std::string path = fmt::format("{}/sys/{}/issm-{}-{}", directory_, name, device, number.value());
  if (auto watched = is_sm_files_.watch(*port, path); !watched) {
    return std::unexpected(std::move(watched.error()));
  }
  return path;
}

void Daemon::Impl::find_is_sm(Client& client, const uabi::FindIsSm& request) {
  const auto node = umad_node(request.version, request.node);
  const auto path = node
                        ? watch_is_sm(*node, request.node, request.device, PortNumber{request.port})
                        : Result<std::string>{std::unexpected(node.error())};
  if (!path) {
    return client.refuse(path.error().reason);
  }
  client.send(uabi::IsSm{.path = *path});
}

void Daemon::Impl::open_umad(Client& client, const uabi::OpenUmad& request) {
  const auto node = umad_node(request.version, request.node);
  const auto port = node ? umad_port(view(), *node, request.device, PortNumber{request.port})
                         : Result<fabric::PortIndex>{std::unexpected(node.error())};
  if (!port) {
    return client.refuse(port.error().reason);
  }
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return client.refuse(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  os::UniqueFd ours{ends[0]};
  auto theirs = std::make_shared<const os::UniqueFd>(ends[1]);
  node::ManagementPort& management_port = management().port(*port);
  const auto channel =
      std::make_shared<UmadChannel>(loop_, std::move(ours),
                                    node::UmadPortAccess{.smi = management_port.smi(),
                                                         .gsi = management_port.gsi(),
                                                         .tables = fabric_->builder(),
                                                         .port = *port});
  open_ports_[&client] = channel;
  channel->start(
      {.on_sent =
           [this, opened = *port] {
             management().wake(opened);
             run_management();
           },
       .on_offence = [this, &client](std::string_view what) { record_offence(client, what); }});
  client.send(uabi::UmadOpened{}, {std::move(theirs)});
}

void Daemon::Impl::register_umad_agent(Client& client, const uabi::RegisterUmadAgent& request) {
  mad::MethodSet methods;
  for (std::size_t method = 0; method < methods.size(); ++method) {
    methods.set(method, (request.methods.at(method / 64) >> method % 64 & 1) != 0);
  }
  const auto agent =
      open_ports_.at(&client)->file().register_agent({.mgmt_class = request.mgmt_class,
                                                      .class_version = request.class_version,
                                                      .rmpp_version = request.rmpp_version,
                                                      .does_rmpp = request.does_rmpp,
                                                      .oui = request.oui,
                                                      .methods = methods});
  if (agent) {
    update_device_management(open_ports_.at(&client)->file().port());
    return client.send(uabi::UmadAnswer{.error = 0, .agent = *agent, .reason = {}});
  }
  const bool is_limit = agent.error().code == ErrorCode::OutOfMemory;
  client.send(uabi::UmadAnswer{.error = static_cast<std::uint32_t>(is_limit ? ENOMEM : EINVAL),
                               .agent = 0,
                               .reason = agent.error().reason});
}

void Daemon::Impl::unregister_umad_agent(Client& client, const uabi::UnregisterUmadAgent& request) {
  const auto done = open_ports_.at(&client)->file().unregister_agent(request.agent, os::now());
  client.send(uabi::UmadAnswer{.error = done ? 0U : EINVAL,
                               .agent = request.agent,
                               .reason = done ? std::string{} : done.error().reason});
  update_device_management(open_ports_.at(&client)->file().port());
}

/// What a kernel's target sets of its port is so while a program answers for it.
void Daemon::Impl::update_device_management(fabric::PortIndex port) {
  const bool answers = std::ranges::any_of(open_ports_, [port](const auto& open) {
    const node::UmadFile& file = open.second->file();
    return file.port() == port && file.answers(wire::ManagementClass::DevMgt);
  });
  management().agents().set_is_device_management(port, answers, os::now());
  run_management();
}

/// Sends queued MADs to all programs.
void Daemon::Impl::flush_open_ports() {
  for (const auto& [client, channel] : open_ports_) {
    channel->flush();
  }
  if (ibsim_) {
    ibsim_->flush();
  }
}

void Daemon::Impl::close_umad(Client& client) {
  const auto found = open_ports_.find(&client);
  if (found == open_ports_.end()) {
    return;
  }
  const fabric::PortIndex port = found->second->file().port();
  found->second->end();
  open_ports_.erase(found);
  update_device_management(port);
}

}  // namespace weft::daemon
