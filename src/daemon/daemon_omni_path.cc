// Programs at hosts' Omni-Path ports: they attach, join groups, set their port's capabilities and
// find others; of what changes they are told.

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/daemon_impl.h"

namespace weft::daemon {
namespace {

/// A port as an attached program has it.
[[nodiscard]] uabi::OmniPathPortState state_of(const fabric::TablesBuilder& tables,
                                               fabric::PortIndex port) {
  const fabric::PortRecord& record = tables.port(port);
  const std::span<const PKey> pkeys = tables.pkeys(port);
  return {
      .lid = record.lid,
      .is_active = record.state == fabric::PortState::Active,
      .pkeys = {pkeys.begin(), pkeys.end()}
  };
}

[[nodiscard]] bool is_same(const uabi::OmniPathPortState& a, const uabi::OmniPathPortState& b) {
  return a.lid == b.lid && a.is_active == b.is_active && a.pkeys == b.pkeys;
}

}  // namespace

void Daemon::Impl::ask_omni_path_ports(Client& client, const uabi::AskOmniPathPorts& request) {
  std::optional<fabric::NodeIndex> wanted;
  if (!request.host.empty() || request.version != uabi::kVersion) {
    const auto host = namespace_host(request.version, request.host);
    if (!host) {
      return client.refuse(host.error().reason);
    }
    wanted = *host;
  }
  if (const auto found = omni_path_programs_.find(&client); found != omni_path_programs_.end()) {
    found->second.listed_changes = management().omni_path().changes();
    found->second.is_told = false;
  }
  const fabric::TablesBuilder& tables = fabric_->builder();
  uabi::OmniPathPorts part;
  for (std::uint32_t i = 0; i < tables.ports().size(); ++i) {
    const fabric::PortRecord& port = tables.port(fabric::PortIndex{i});
    if (!port.is_omni_path() || port.is_switch_port() || tables.node(port.node).is_removed() ||
        (wanted && port.node != *wanted)) {
      continue;
    }
    if (part.ports.size() == uabi::kMaxOmniPathPorts) {
      client.send(std::exchange(part, {}));
    }
    const auto capabilities = management().omni_path().capabilities(fabric::PortIndex{i});
    part.ports.push_back({.host = std::string{tables.name(tables.node(port.node))},
                          .hca = port.hca.value() - tables.node(port.node).first_hca.value(),
                          .port = port.number.value(),
                          .lid = port.lid,
                          .is_active = port.state == fabric::PortState::Active,
                          .capabilities = capabilities.mask,
                          .capability_changes = capabilities.changes});
  }
  part.is_last = true;
  client.send(std::move(part));
}

Result<fabric::PortIndex> Daemon::Impl::find_omni_path_port(
    const uabi::AttachOmniPath& request) const {
  const auto host = namespace_host(request.version, request.host);
  if (!host) {
    return std::unexpected(host.error());
  }
  const fabric::TablesBuilder& tables = fabric_->builder();
  const fabric::NodeRecord& node = tables.node(*host);
  if (request.hca < node.hca_count) {
    const fabric::HcaRecord& hca = tables.hcas()[node.first_hca.value() + request.hca];
    if (request.port >= 1 && request.port <= hca.port_count) {
      return fabric::PortIndex{hca.first_port.value() + request.port - 1};
    }
  }
  return fail(ErrorCode::NotFound, "{} has no port {} of an HCA {}: HCAs are counted from 0",
              request.host, request.port, request.hca);
}

void Daemon::Impl::attach_omni_path(Client& client, const uabi::AttachOmniPath& request) {
  const auto port = find_omni_path_port(request);
  if (!port) {
    return client.refuse(port.error().reason);
  }
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return client.refuse(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  os::UniqueFd ours{ends[0]};
  auto theirs = std::make_shared<const os::UniqueFd>(ends[1]);
  node::OmniPathUse use{.takes_ethernet = request.takes_ethernet,
                        .takes_answers = request.takes_answers,
                        .requests = {}};
  for (std::size_t method = 0; method < use.requests.size(); ++method) {
    use.requests.set(method, (request.mad_methods.at(method / 64) >> method % 64 & 1) != 0);
  }
  node::OmniPathUsers& users = management().omni_path_users();
  const auto user = users.attach(*port, use);
  if (!user) {
    return client.refuse(fmt::format("{}: {}", request.host, user.error().reason));
  }
  auto channel = std::make_shared<OmniPathChannel>(loop_, std::move(ours), users, *user);
  channel->start(
      {.on_sent = [this] { run_management(); },
       .on_offence = [this, &client](std::string_view what) { record_offence(client, what); }});
  const OmniPathProgram& program =
      omni_path_programs_
          .insert_or_assign(&client,
                            OmniPathProgram{.channel = std::move(channel),
                                            .state = state_of(fabric_->builder(), *port),
                                            .watches_ports = request.watches_ports,
                                            .listed_changes = management().omni_path().changes()})
          .first->second;
  client.send(uabi::OmniPathAttached{}, {std::move(theirs)});
  client.send(program.state);
}

void Daemon::Impl::join_omni_path_group(Client& client, const uabi::JoinOmniPathGroup& request) {
  const auto joined = management().omni_path_users().join(
      omni_path_programs_.at(&client).channel->user(), fabric::ExtendedLid{request.mlid.value()});
  run_management();  // so that the switches know it
  client.send(uabi::OmniPathGroupJoined{.mlid = request.mlid,
                                        .reason = joined ? "" : joined.error().reason});
}

void Daemon::Impl::leave_omni_path_group(Client& client, const uabi::LeaveOmniPathGroup& request) {
  management().omni_path_users().leave(omni_path_programs_.at(&client).channel->user(),
                                       fabric::ExtendedLid{request.mlid.value()});
  run_management();
}

void Daemon::Impl::set_omni_path_capabilities(Client& client,
                                              const uabi::SetOmniPathCapabilities& request) {
  management().omni_path_users().set_capabilities(omni_path_programs_.at(&client).channel->user(),
                                                  request.mask);
  tell_omni_path_programs();
}

/// After each turn of the plane: sends programs their packets, and what has changed.
void Daemon::Impl::serve_omni_path_programs() {
  for (const auto& [client, program] : omni_path_programs_) {
    program.channel->flush();
  }
  tell_omni_path_programs();
}

/// A program that watches ports is told once until it asks what there is.
void Daemon::Impl::tell_omni_path_programs() {
  const std::uint64_t changes = management().omni_path().changes();
  if (std::exchange(omni_path_told_, changes) == changes) {
    return;
  }
  for (auto& [client, program] : omni_path_programs_) {
    const fabric::PortIndex port = management().omni_path_users().port(program.channel->user());
    if (auto state = state_of(fabric_->builder(), port); !is_same(state, program.state)) {
      program.state = std::move(state);
      client->send(program.state);
    }
    if (program.watches_ports && !program.is_told && program.listed_changes != changes) {
      program.is_told = true;
      client->send(uabi::OmniPathPortsChanged{});
    }
  }
}

void Daemon::Impl::close_omni_path(Client& client) {
  const auto found = omni_path_programs_.find(&client);
  if (found == omni_path_programs_.end()) {
    return;
  }
  const std::shared_ptr<OmniPathChannel> channel = found->second.channel;
  omni_path_programs_.erase(found);
  channel->close();
  management().omni_path_users().detach(channel->user());
  run_management();  // its groups end
}

}  // namespace weft::daemon
