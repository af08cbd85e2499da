#include "sriov/multiplexer.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sriov/planted_bug.h"

namespace weft::sriov {

Multiplexer::Multiplexer(const MultiplexerOptions& options, Instant now)
    : options_(options),
      numbers_{.proxy_base = options.proxy_base,
               .tunnel_base = options.tunnel_base,
               .port = options.port},
      gids_(options.subnet_prefix),
      transactions_(options.transactions),
      tables_(options.tables),
      cm_(options.connections, options.first_communication_id, options.services),
      groups_(options.groups, Gid{options.subnet_prefix, options.port_guid}),
      alias_guids_(options.alias_guids),
      observer_(options.port) {
  WEFT_ASSERT(options.most_functions <= kMostFunctions, "functions are entries of GUIDInfo");
  pkeys_.set_physical({kDefaultPKey});
  const auto is_set = gids_.set(kPhysicalFunction, options.port_guid);
  WEFT_ASSERT(is_set.has_value(), "a port has a GUID");
  open(kPhysicalFunction, {});
  change_port(kPhysicalFunction, FunctionPortInput::GuidValid);
  settle(now);
}

void Multiplexer::open(FunctionId function, const FunctionOptions& options) {
  Function made{
      .options = options,
      .tunnels = {Tunnel{options_.ring_slots}, Tunnel{options_.ring_slots}},
      .port = {},
      .pacer = mad::Pacer{options.mad_interval, options.mad_burst}
  };
  for (Tunnel& tunnel : made.tunnels) {
    for (const TunnelInput input : {TunnelInput::Open, TunnelInput::Opened}) {
      const auto opened = tunnel.handle(input);
      WEFT_ASSERT(opened.has_value(), "a new tunnel can be opened");
    }
  }
  functions_.emplace(function, std::move(made));
}

Result<void> Multiplexer::can_add(FunctionId function, Instant now) const {
  if (function == kPhysicalFunction || function.value() >= options_.most_functions) {
    return fail(ErrorCode::InvalidArgument, "virtual functions are 1 to {}, not {}",
                options_.most_functions - 1, function.value());
  }
  if (functions_.contains(function)) {
    return fail(ErrorCode::Exists, "{} is there", name_of(function));
  }
  if (const auto kept = quarantine_.find(function);
      kept != quarantine_.end() && now < kept->second) {
    return fail(ErrorCode::Busy, "MADs for the {} that is gone may still come for {} ms",
                name_of(function), (kept->second - now).milliseconds());
  }
  return {};
}

Result<void> Multiplexer::add_function(FunctionId function, const FunctionOptions& options,
                                       Instant now) {
  if (auto possible = can_add(function, now); !possible) {
    return possible;
  }
  if (auto assigned = pkeys_.assign(function, options.pkeys); !assigned) {
    return assigned;
  }
  quarantine_.erase(function);
  counters_.forget(function);
  decisions_.forget(function);
  open(function, options);
  groups_.set_limit(function, options.most_groups);
  if (is_up_) {
    change_port(function, FunctionPortInput::PortUp);
  }
  if (auto wanted = alias_guids_.set(function, options.guid, now); !wanted) {
    return wanted;
  }
  settle(now);
  return {};
}

Result<void> Multiplexer::change_function(FunctionId function, const FunctionOptions& options) {
  const auto found = functions_.find(function);
  if (found == functions_.end() || function == kPhysicalFunction) {
    return fail(ErrorCode::NotFound, "there is no virtual function {}", function.value());
  }
  if (auto assigned = pkeys_.assign(function, options.pkeys); !assigned) {
    return assigned;
  }
  const Guid guid = found->second.options.guid;
  found->second.options = options;
  found->second.options.guid = guid;
  found->second.pacer = mad::Pacer{options.mad_interval, options.mad_burst};
  groups_.set_limit(function, options.most_groups);
  return {};
}

std::size_t Multiplexer::adopt_connections(std::span<const CommunicationId> connections) {
  std::size_t lost = 0;
  for (CommunicationId id : connections) {
    id.function = kPhysicalFunction;
    id.physical = id.local;
    lost += cm_.ids().adopt(id) ? 0 : 1;
  }
  return lost;
}

Result<void> Multiplexer::set_guid(FunctionId function, Guid guid, Instant now) {
  const auto found = functions_.find(function);
  if (found == functions_.end() || function == kPhysicalFunction) {
    return fail(ErrorCode::NotFound, "there is no virtual function {}", function.value());
  }
  if (auto wanted = alias_guids_.set(function, guid, now); !wanted) {
    return wanted;
  }
  found->second.options.guid = guid;
  settle(now);
  return {};
}

Result<void> Multiplexer::remove_function(FunctionId function, Instant now) {
  if (function == kPhysicalFunction) {
    return fail(ErrorCode::InvalidArgument, "the physical function stays");
  }
  if (!functions_.contains(function)) {
    return fail(ErrorCode::NotFound, "there is no {}", name_of(function));
  }
  close(function, now);
  return {};
}

void Multiplexer::close(FunctionId function, Instant now) {
  functions_.erase(function);
  quarantine_[function] = now + options_.connections.release_delay;
  transactions_.remove(function);
  tables_.remove(function);
  cm_.remove(function, now);
  groups_.remove(function, now);
  pkeys_.remove(function);
  gids_.remove(function);
  std::erase_if(events_, [&](const FunctionEvent& told) { return told.function == function; });
  const auto withdrawn = alias_guids_.set(function, kGuidDelete, now);
  WEFT_ASSERT(withdrawn.has_value(), "a virtual function has an alias GUID");
  settle(now);
}

Result<FunctionState> Multiplexer::export_function(FunctionId function, Instant now) {
  if (function == kPhysicalFunction || !functions_.contains(function)) {
    return fail(ErrorCode::NotFound, "there is no virtual function {}", function.value());
  }
  const auto gid = gids_.gid_of(function);
  FunctionState state{.guid = gid ? gid->interface_id() : alias_guids_.admin_guid_of(function),
                      .memberships = groups_.memberships_of(function),
                      .connections = cm_.ids().live_of(function)};
  close(function, now);
  return state;
}

Result<std::vector<std::uint32_t>> Multiplexer::import_function(FunctionId function,
                                                                FunctionOptions options,
                                                                const FunctionState& state,
                                                                Instant now) {
  options.guid = state.guid;
  if (auto added = add_function(function, options, now); !added) {
    return std::unexpected(added.error());
  }
  std::vector<std::uint32_t> lost;
  for (CommunicationId id : state.connections) {
    id.function = function;
    if (!cm_.ids().adopt(id)) {
      lost.push_back(id.physical);
    }
  }
  groups_.adopt(function, state.memberships, now);
  settle(now);
  return lost;
}

Result<void> Multiplexer::post_send(FunctionId function, SpecialQp qp, Qpn source_qp,
                                    const wire::TunnelSend& send) {
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    return fail(ErrorCode::NotFound, "there is no {}", name_of(function));
  }
  const Tunnel::Buffer buffer = wire::pack(send);
  auto posted = found->second.tunnels[static_cast<std::size_t>(qp)].post_send(source_qp, buffer);
  if (posted) {
    show(function, qp, false, buffer);
  }
  return posted;
}

void Multiplexer::show(FunctionId function, SpecialQp qp, bool is_to_function,
                       const Tunnel::Buffer& buffer) const {
  if (!tunnel_tap_ || function == kPhysicalFunction) {
    return;
  }
  const Qpn proxy = numbers_.proxy(function, qp);
  const Qpn tunnel = numbers_.tunnel(function, qp);
  tunnel_tap_({.function = function,
               .is_to_function = is_to_function,
               .source_qp = is_to_function ? tunnel : proxy,
               .dest_qp = is_to_function ? proxy : tunnel,
               .qkey = numbers_.qkey(function, qp),
               .payload = buffer});
}

std::optional<wire::TunnelReceive> Multiplexer::poll_receive(FunctionId function, SpecialQp qp) {
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    return std::nullopt;
  }
  const auto buffer = found->second.tunnels[static_cast<std::size_t>(qp)].take_receive();
  return buffer ? std::optional{wire::unpack<wire::TunnelReceive>(*buffer)} : std::nullopt;
}

std::optional<Decision> Multiplexer::serve_tunnel(Instant now) {
  if (to_wire_.size() >= options_.wire_queue) {
    return std::nullopt;
  }
  auto turn = functions_.upper_bound(last_served_);
  for (std::size_t i = 0; i < functions_.size(); ++i, ++turn) {
    if (turn == functions_.end()) {
      turn = functions_.begin();
    }
    for (const SpecialQp qp : {SpecialQp::Smi, SpecialQp::Gsi}) {
      auto send = turn->second.tunnels[static_cast<std::size_t>(qp)].take_send();
      if (send) {
        last_served_ = turn->first;
        return handle_outbound(turn->first, qp, *send, now);
      }
    }
  }
  return std::nullopt;
}

std::optional<OutboundMad> Multiplexer::poll_wire(Instant now) {
  if (!to_wire_.empty()) {
    const OutboundMad mad = to_wire_.front();
    to_wire_.pop_front();
    return mad;
  }
  if (!is_up_) {
    return std::nullopt;  // a GMP from a port that is not Active is lost, and waits for a timeout
  }
  auto request = groups_.poll_transmit();
  if (!request) {
    request = alias_guids_.poll_transmit(now);
  }
  if (!request) {
    return std::nullopt;
  }
  OutboundMad mad{.function = kPhysicalFunction};
  mad.to.lid = manager_lid_;
  mad.bytes = wire::pack(*request);
  return mad;
}

std::optional<Multiplexer::FunctionEvent> Multiplexer::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  const FunctionEvent event = events_.front();
  events_.pop_front();
  return event;
}

void Multiplexer::tell(FunctionId function, verbs::AsyncEventType event) {
  const FunctionEvent told{.function = function, .event = event};
  // Who does not read its events learns of each kind once.
  const bool is_known = std::ranges::any_of(events_, [&](const FunctionEvent& queued) {
    return queued.function == told.function && queued.event == told.event;
  });
  const bool is_state =
      event == verbs::AsyncEventType::PortActive || event == verbs::AsyncEventType::PortError;
  if (is_state) {
    std::erase_if(events_, [&](const FunctionEvent& queued) {
      return queued.function == function && (queued.event == verbs::AsyncEventType::PortActive ||
                                             queued.event == verbs::AsyncEventType::PortError);
    });
  }
  if (is_state || !is_known) {
    events_.push_back(told);
  }
}

void Multiplexer::change_port(FunctionId function, FunctionPortInput input) {
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    return;
  }
  if (const auto event = found->second.port.handle(input)) {
    tell(function, *event);
  }
}

FunctionPortState Multiplexer::port_state(FunctionId function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? FunctionPortState::Down : found->second.port.state();
}

void Multiplexer::observe_smp(const MadBytes& answer, wire::MadMethod request, Instant now) {
  const PortChange change = observer_.observe(answer, request);
  is_up_ = change.is_up.value_or(is_up_);
  for (const auto& [function, state] : functions_) {
    if (change.is_up) {
      change_port(function,
                  *change.is_up ? FunctionPortInput::PortUp : FunctionPortInput::PortDown);
    }
    for (const verbs::AsyncEventType event : change.events) {
      tell(function, event);
    }
  }
  if (change.is_up.value_or(false)) {
    alias_guids_.handle_port_up();
  }
  if (change.needs_registration) {
    alias_guids_.reregister_all(now);
    groups_.rejoin_all(now);
  }
  settle(now);
}

void Multiplexer::set_manager(Lid lid, Lid own_lid) {
  manager_lid_ = lid;
  alias_guids_.set_lid(own_lid);
}

void Multiplexer::set_subnet_prefix(std::uint64_t prefix) {
  gids_.set_subnet_prefix(prefix);
  groups_.set_port_gid(Gid{prefix, options_.port_guid});
}

/// Passes on what the parts have to say.
void Multiplexer::settle(Instant /*now*/) {
  while (const auto change = alias_guids_.poll_change()) {
    const bool is_valid = has_function(change->function) && change->guid != Guid{} &&
                          gids_.set(change->function, change->guid).has_value();
    if (!is_valid) {
      gids_.remove(change->function);
    }
    change_port(change->function,
                is_valid ? FunctionPortInput::GuidValid : FunctionPortInput::GuidInvalid);
    if (has_function(change->function)) {
      tell(change->function, verbs::AsyncEventType::GidChange);
    }
  }
  while (const auto answer = groups_.poll_answer()) {
    InboundMad mad{.slid = manager_lid_};
    mad.bytes = wire::pack(answer->mad);
    const auto delivered = deliver(answer->function, mad, mad.bytes);
    counters_.count(answer->function, delivered ? Reason::AggregateAnswer : delivered.error());
  }
}

void Multiplexer::handle_timeout(Instant now) {
  transactions_.handle_timeout(now);
  tables_.handle_timeout(now);
  cm_.handle_timeout(now);
  groups_.handle_timeout(now);
  alias_guids_.handle_timeout(now);
  std::erase_if(quarantine_, [&](const auto& entry) { return entry.second <= now; });
  settle(now);
}

Instant Multiplexer::poll_deadline() const {
  return std::min({transactions_.poll_deadline(), tables_.poll_deadline(), cm_.poll_deadline(),
                   groups_.poll_deadline(),
                   is_up_ ? alias_guids_.poll_deadline() : Instant::never()});
}

const Tunnel* Multiplexer::tunnel(FunctionId function, SpecialQp qp) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : &found->second.tunnels[static_cast<std::size_t>(qp)];
}

void Multiplexer::check_invariants() const {
  transactions_.check_invariants();
  cm_.check_invariants();
  groups_.check_invariants();
  alias_guids_.check_invariants();
  for (const auto& [function, state] : functions_) {
    for (const Tunnel& tunnel : state.tunnels) {
      tunnel.check_invariants();
    }
    WEFT_ASSERT(!quarantine_.contains(function), "a function that is there is not gone");
  }
}

}  // namespace weft::sriov
