#include "node/management_plane.h"

#include <algorithm>

namespace weft::node {

using fabric::PortIndex;

ManagementPlane::ManagementPlane(fabric::TablesBuilder& tables,
                                 const ManagementPlaneOptions& options)
    : tables_(tables),
      limits_(options.limits),
      agents_(tables, options.counters == nullptr ? own_counters_ : *options.counters,
              options.time_scale),
      network_(tables, agents_, *this,
               {.counters = options.counters == nullptr ? &own_counters_ : options.counters,
                .faults = options.faults}),
      shared_(tables,
              {.send =
                   [this](PortIndex from, const mad::MadPacket& packet) {
                     network_.send(from, mad::InterfaceKind::Gsi, packet);
                   },
               .deliver =
                   [this](PortIndex at, const mad::MadAddress& source, const mad::MadBytes& mad) {
                     hand_over(at, mad::InterfaceKind::Gsi, source, mad);
                   }}),
      omni_path_(tables),
      omni_path_users_(tables, network_, omni_path_),
      is_runnable_(tables.ports().size()) {
  omni_path_changed_ = omni_path_.sweep();
}

ManagementPort& ManagementPlane::find_or_create(PortIndex own) {
  std::unique_ptr<ManagementPort>& place = ports_[own];
  if (!place) {
    place = std::make_unique<ManagementPort>(own, limits_);
  }
  const fabric::PortRecord& record = tables_.port(own);
  place->smi().set_subnet_manager(record.sm_lid, record.sm_sl);
  place->gsi().set_subnet_manager(record.sm_lid, record.sm_sl);
  return *place;
}

ManagementPort& ManagementPlane::port(PortIndex index) {
  const PortIndex own = agents_.management_port(index);
  ManagementPort& found = find_or_create(own);
  wake(own);
  return found;
}

void ManagementPlane::wake(PortIndex index) {
  const PortIndex own = agents_.management_port(index);
  if (!is_runnable_[own.value()]) {
    is_runnable_[own.value()] = true;
    runnable_.push_back(own);
  }
}

void ManagementPlane::deliver(PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
                              const mad::MadBytes& mad, Instant now) {
  now_ = now;
  if (shared_.empty() || !shared_.receive(at, kind, source, mad, now)) {
    hand_over(at, kind, source, mad);
  }
}

void ManagementPlane::hand_over(PortIndex at, mad::InterfaceKind kind,
                                const mad::MadAddress& source, const mad::MadBytes& mad) {
  find_or_create(at).interface(kind).handle_mad(source, mad, now_);
  wake(at);
}

/// What a port that functions share sends to a group reaches the others of them inside it.
void ManagementPlane::copy_to_functions(PortIndex physical, const Gid& sender,
                                        const mad::Datagram& datagram, Instant now) {
  const fabric::PortRecord& port = tables_.port(physical);
  if (sink_ == nullptr || !datagram.to.global || port.state != fabric::PortState::Active) {
    return;
  }
  mad::MadAddress source = datagram.to;
  source.lid = port.lid;
  source.qp = datagram.source_qp;
  source.global->dgid = sender;
  sink_->take(physical,
              {.destination_qp = datagram.to.qp,
               .destination_gid = datagram.to.global->dgid,
               .source = source,
               .payload = datagram.payload},
              now);
}

void ManagementPlane::send(PortIndex from, mad::Datagram datagram, Instant now) {
  const auto function = shared_.function_at(from);
  const PortIndex physical = function ? function->physical : from;
  const bool is_shared = !shared_.empty() && !shared_.functions_of(physical).empty();
  if (is_shared && datagram.to.lid.is_multicast()) {
    copy_to_functions(physical, tables_.gids(from).front(), datagram, now);
  }
  if (function && datagram.to.global) {
    datagram.to.global->sgid_index = static_cast<std::uint8_t>(function->number.value());
  }
  network_.send(physical, std::move(datagram));
}

void ManagementPlane::schedule(PortIndex index, Instant deadline) {
  Instant& known = deadlines_.try_emplace(index, Instant::never()).first->second;
  if (known == deadline) {
    return;
  }
  schedule_.erase({known, index});
  known = deadline;
  if (deadline != Instant::never()) {
    schedule_.emplace(deadline, index);
  }
}

void ManagementPlane::handle_timeouts(Instant now) {
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const PortIndex index = schedule_.begin()->second;
    schedule(index, Instant::never());
    ManagementPort& due = *ports_.at(index);
    due.smi().handle_timeout(now);
    due.gsi().handle_timeout(now);
    wake(index);
  }
}

/// Returns true if the port has more to send than one run allows.
bool ManagementPlane::collect_from(ManagementPort& port, Instant now) {
  bool has_more = false;
  for (const mad::InterfaceKind kind : {mad::InterfaceKind::Smi, mad::InterfaceKind::Gsi}) {
    std::size_t sent = 0;
    while (sent < kMadsPerInterface) {
      const auto packet = port.interface(kind).poll_transmit(now);
      if (!packet) {
        break;
      }
      if (shared_.empty() || !shared_.send(port.index(), kind, *packet, now)) {
        network_.send(port.index(), kind, *packet);
      }
      ++sent;
    }
    has_more |= sent == kMadsPerInterface;
  }
  return has_more;
}

void ManagementPlane::collect(Instant now) {
  const std::vector<PortIndex> turn = std::exchange(runnable_, {});
  for (const PortIndex index : turn) {
    is_runnable_[index.value()] = false;
  }
  for (const PortIndex index : turn) {
    const auto found = ports_.find(index);
    if (found == ports_.end()) {
      continue;
    }
    if (collect_from(*found->second, now)) {
      wake(index);
    } else {
      schedule(index, found->second->deadline());
    }
  }
}

bool ManagementPlane::run(Instant now) {
  now_ = now;
  omni_path_changed_ |= omni_path_.sweep();
  shared_.run(now);
  handle_timeouts(now);
  bool network_has_more = false;
  for (std::size_t carried = 0; carried < kMadsPerRun; carried += kMadsPerInterface) {
    collect(now);
    network_has_more = network_.run(kMadsPerInterface, now);
    shared_.run(now);
    if (!network_has_more && runnable_.empty() && shared_.deadline() > now) {
      return false;
    }
  }
  return true;
}

Instant ManagementPlane::deadline() const {
  if (!runnable_.empty()) {
    return Instant{};
  }
  const Instant timer = schedule_.empty() ? Instant::never() : schedule_.begin()->first;
  return std::min({timer, network_.deadline(), shared_.deadline()});
}

void ManagementPlane::grow(Instant now) {
  is_runnable_.resize(tables_.ports().size());
  network_.grow();
  agents_.grow(now);
}

Result<void> ManagementPlane::set_link(PortIndex port, bool is_up, Instant now) {
  if (tables_.port(port).peer == fabric::kNoPort) {
    return fail(ErrorCode::InvalidArgument, "the port has no cable");
  }
  agents_.set_plugged(port, is_up, now);
  return {};
}

Result<void> ManagementPlane::configure(PortIndex port, const agents::PortSettings& settings,
                                        Instant now) {
  return agents_.configure(port, settings, now);
}

}  // namespace weft::node
