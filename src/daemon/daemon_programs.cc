// Programs: attachment, lanes, multicast groups, cleanup.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/daemon_impl.h"
#include "hca/limits.h"
#include "host/lane_memory.h"
#include "os/clock.h"
#include "os/shared_memory.h"

namespace weft::daemon {
namespace {

/// More memberships than a device offers are nobody's need; many questions for nobody are no race.
constexpr std::size_t kMaxGroups = hca::DeviceLimits{}.max_mcast_groups;
constexpr std::uint64_t kManyFailedRequests = 1'000;  // policy

constexpr std::size_t kMaxDeparted = 64;  // programs whose names are kept for late reports; policy

}  // namespace

Client* Daemon::Impl::client_of(node::ProcessId process) const {
  const auto found = programs_.find(process);
  return found == programs_.end() ? nullptr : found->second;
}

void Daemon::Impl::hello(Client& client, const uabi::Hello& hello) {
  if (auto admitted = admit(client, hello); !admitted) {
    client.refuse(admitted.error().reason);
  }
}

Result<void> Daemon::Impl::admit(Client& client, const uabi::Hello& hello) {
  if (hello.version != uabi::kVersion) {
    return fail(ErrorCode::NotSupported,
                "the program's Weft uses version {} of the control protocol, this daemon {}",
                hello.version, uabi::kVersion);
  }
  const std::size_t page_bytes = fabric::CounterPage::bytes_needed();
  auto page = os::create_shared_memory("weft-counters", page_bytes);
  auto attention = os::create_shared_memory("weft-attention", host::kAttentionPageBytes);
  if (!page || !attention) {
    return std::unexpected(page ? attention.error() : page.error());
  }
  // Formatted here as well, so that reading is possible before the program wrote anything.
  auto memory = os::map_shared(*page, os::Protection::ReadWrite, page_bytes, page_bytes);
  if (!memory) {
    return std::unexpected(memory.error());
  }
  static_cast<void>(fabric::CounterPage::format(memory->bytes()));
  auto counters = fabric::CounterPageView::open(memory->bytes());
  if (!counters) {
    return std::unexpected(counters.error());
  }
  const auto process = fabric_->attach(hello.host, os::now());
  if (!process) {
    return std::unexpected(process.error());
  }
  if (fabric_->take_slots_changed()) {
    publish();  // peers find the process by its QPNs
  }
  client.process = *process;
  client.counter_memory = std::move(*memory);
  client.counters = *counters;
  client.attention = std::make_shared<const os::UniqueFd>(std::move(*attention));
  programs_[*process] = &client;
  const auto page_fd = std::make_shared<const os::UniqueFd>(std::move(*page));
  client.send(
      uabi::Welcome{.self = address_of(*process), .time_scale = options_.topology.time_scale},
      {tables_, page_fd, client.attention, clocks_, fault_counters_});
  for (auto& [id, capture] : captures_) {
    add_source(id, capture, client);
  }
  for (const Lid mlid : fabric_->groups()) {
    uabi::GroupMembers group{.mlid = mlid, .members = {}};
    for (const node::ProcessId member : fabric_->members(mlid)) {
      group.members.push_back(address_of(member));
    }
    client.send(group);
  }
  client.send(uabi::InitialStateSent{});
  return {};
}

void Daemon::Impl::open_lane(Client& client, const uabi::OpenLane& request) {
  const node::ProcessId peer = process_of(request.peer);
  Client* const other = client_of(peer);
  const auto is_new = fabric_->join_lane(*client.process, peer);
  if (!is_new || other == nullptr) {
    record_offence(client, "requests for lanes to processes that do not exist",
                   kManyFailedRequests);
    client.send(uabi::NoSuchProcess{.peer = request.peer});
    return;
  }
  if (!*is_new) {
    return;  // both have the lane, or the message is in flight
  }
  auto memory = os::create_shared_memory("weft-lanes", host::kPairMemoryBytes);
  if (!memory) {
    client.send(uabi::NoSuchProcess{.peer = request.peer});
    return;
  }
  const auto lane = std::make_shared<const os::UniqueFd>(std::move(*memory));
  // All clients are this user's, so that they could reach each other's memory anyway.
  const bool may_place =
      !options_.is_isolating && !offences_.has_of(client.pid()) && !offences_.has_of(other->pid());
  const auto pid_of = [&](const Client& whose) {
    return may_place ? static_cast<std::uint32_t>(whose.pid()) : 0;
  };
  client.send(
      uabi::Lane{
          .peer = request.peer, .side = 0, .self_pid = pid_of(client), .peer_pid = pid_of(*other)},
      {lane, other->attention});
  other->send(uabi::Lane{.peer = address_of(*client.process),
                         .side = 1,
                         .self_pid = pid_of(*other),
                         .peer_pid = pid_of(client)},
              {lane, client.attention});
}

void Daemon::Impl::join_group(Client& client, const uabi::JoinGroup& request) {
  if (client.groups >= kMaxGroups) {
    record_offence(client, "multicast groups too many");
    client.send(uabi::GroupJoined{});
    return;
  }
  const auto changed = fabric_->join_group(*client.process, fabric::PortIndex{request.port},
                                           request.mgid, request.mlid, os::now());
  if (!changed && changed.error().code == ErrorCode::InvalidArgument) {
    record_offence(client, "requests for groups or ports that it cannot have");
  }
  if (changed && *changed) {
    ++client.groups;
    settle_management();
    send_members(request.mlid);
  }
  client.send(uabi::GroupJoined{});
}

void Daemon::Impl::leave_group(Client& client, const uabi::LeaveGroup& request) {
  const auto changed = fabric_->leave_group(*client.process, fabric::PortIndex{request.port},
                                            request.mgid, request.mlid, os::now());
  if (changed && *changed) {
    --client.groups;
    settle_management();
    send_members(request.mlid);
  }
}

/// Logs a program's report about another, naming the reporter, since reports can be false.
void Daemon::Impl::report_peer(Client& reporter, const uabi::ReportPeer& report) {
  const node::ProcessId process = process_of(report.peer);
  const auto departed = std::ranges::find_if(
      recently_detached_, [&](const auto& entry) { return entry.first == process; });
  ProgramName offender;
  if (const Client* const peer = client_of(process)) {
    offender = name_of(*peer);
  } else if (departed != recently_detached_.end()) {
    offender = departed->second;
  } else {
    record_offence(reporter, "reports of processes that do not exist");
    return;
  }
  if (const auto line =
          offences_.add_reported(offender, fmt::format("records {}", uabi::words(report.what)),
                                 report.count, name_of(reporter))) {
    log_.write(*line);
  }
}

/// What a program's HCA dropped: for the agents of its port.
void Daemon::Impl::note_bad_keys(Client& client, const uabi::BadKeys& report) {
  const agents::BadKey last{.source = report.source,
                            .destination = report.destination,
                            .sl = ServiceLevel{report.sl},
                            .source_qp = report.source_qp,
                            .destination_qp = report.destination_qp,
                            .source_gid = report.source_gid,
                            .key = report.key};
  const node::BadKeyReport noted{.port = fabric::PortIndex{report.port},
                                 .is_qkey = report.is_qkey,
                                 .count = report.count,
                                 .last = last};
  if (!fabric_->note_bad_keys(*client.process, noted, os::now())) {
    record_offence(client, "reports of ports that it does not have");
    return;
  }
  run_management();
}

void Daemon::Impl::send_members(Lid mlid) {
  uabi::GroupMembers group{.mlid = mlid, .members = {}};
  for (const node::ProcessId member : fabric_->members(mlid)) {
    if (group.members.size() < uabi::kMaxGroupMembers) {
      group.members.push_back(address_of(member));
    }
  }
  for (const auto& [process, program] : programs_) {
    program->send(group);
  }
}

/// Publishes a new generation of the tables to all programs.
void Daemon::Impl::publish() {
  const Instant start = os::now();
  static_cast<void>(management().tables_changed());
  std::vector<std::byte> image = fabric_->next_tables();
  auto file = os::publish_memory("weft-tables", image);
  auto view = fabric::TablesView::open(image);
  if (!file || !view) {
    return;  // out of memory: programs keep using their current tables
  }
  view_ = *view;
  image_ = std::move(image);  // its bytes stay where they are
  tables_ = std::make_shared<const os::UniqueFd>(std::move(*file));
  for (const auto& [process, program] : programs_) {
    program->send(uabi::TablesChanged{}, {tables_});
  }
  namespaces_.tables_changed();
  published_at_ = os::now();
  publishing_takes_ = published_at_ - start;
}

/// Cleans up after a process as a kernel would (docs/ARCHITECTURE.md, decision 9): its QPNs are not
/// reused for a while, its memberships end, its peers are notified, its counters are kept.
void Daemon::Impl::remove_program(Client& client) {
  if (!client.process) {
    return;
  }
  const node::ProcessId process = *client.process;
  recently_detached_.emplace_back(process, name_of(client));
  if (recently_detached_.size() > kMaxDeparted) {
    recently_detached_.pop_front();
  }
  programs_.erase(process);
  counters_->ledger().fold(view(), {.page = *client.counters,
                                    .owner = process.host,
                                    .shared = fabric_->hosts_shared_by(process.host)});
  const node::DetachResult departure = fabric_->detach(process, os::now());
  for (const node::ProcessId peer : departure.peers) {
    if (Client* const other = client_of(peer)) {
      other->send(uabi::LaneClosed{.peer = address_of(process)});
    }
  }
  leave_xrc_domains(process);  // last, so that messages it sent before are processed
  leave_devices(process);
  census_.forget(process);
  if (!departure.groups.empty()) {
    publish();
    for (const Lid mlid : departure.groups) {
      send_members(mlid);
    }
  }
  for (auto& [id, capture] : captures_) {
    if (capture.not_ready.erase(&client) != 0) {
      send_live_if_ready(*capture.reader, false);
    }
  }
}

}  // namespace weft::daemon
