#include "subnet/subnet_manager.h"

#include <algorithm>
#include <utility>

namespace weft::subnet {
namespace {

/// Blocks of VLArbitrationTable: low priority in 1 and 2, high priority in 3 and 4, with 32 entries
/// each (IBTA vol 1 §14.2.5.9).
std::vector<std::uint32_t> arbitration_blocks(const wire::PortInfo& info) {
  constexpr std::uint8_t kEntries = 32;
  std::vector<std::uint32_t> blocks;
  const auto add = [&](std::uint32_t first, std::uint8_t entries) {
    if (entries > 0) {
      blocks.push_back(first);
    }
    if (entries > kEntries) {
      blocks.push_back(first + 1);
    }
  };
  add(1, info.vl_arbitration_low_cap);
  add(3, info.vl_arbitration_high_cap);
  return blocks;
}

}  // namespace

SubnetManager::SubnetManager(mad::ManagementInterface& smi, SubnetManagerOptions options,
                             SubnetObserver* observer)
    : smi_(smi),
      options_(std::move(options)),
      observer_(observer),
      prompt_sweeps_(options_.prompt_sweep_interval, options_.prompt_sweeps) {}

SubnetManager::~SubnetManager() {
  if (client_) {
    client_->forget();
    controls_->forget();
  }
  for (const auto& agent : {directed_, lid_routed_}) {
    if (agent) {
      static_cast<void>(smi_.unregister_agent(*agent, Instant{}));
    }
  }
}

Result<void> SubnetManager::start(Instant now) {
  const mad::MethodSet requests =
      mad::methods({wire::MadMethod::Get, wire::MadMethod::Set, wire::MadMethod::Trap});
  for (auto [mgmt_class, agent] : {
           std::pair{wire::ManagementClass::SubnDirectedRoute, &directed_  },
           std::pair{wire::ManagementClass::SubnLidRouted,     &lid_routed_}
  }) {
    mad::Registration registration;
    registration.mgmt_class = mgmt_class;
    registration.methods = requests;
    registration.name = "subnet manager";
    const auto registered = smi_.register_agent(std::move(registration), &responder_);
    if (!registered) {
      return std::unexpected(registered.error());
    }
    *agent = *registered;
  }
  client_.emplace(smi_, *directed_, options_);
  controls_.emplace(smi_, *directed_, options_);
  begin_sweep(now);
  return {};
}

bool SubnetManager::is_settled() const {
  return state_ == wire::SmState::Master && work_ == Work::Idle && !sweep_wanted_ &&
         !update_wanted_ && retry_at_ == Instant::never();
}

Instant SubnetManager::deadline() const {
  return std::min({light_sweep_at_, retry_at_, poll_at_, handover_until_, grace_until_});
}

void SubnetManager::handle_timeout(Instant now) {
  if (handover_until_ <= now) {  // the handover was not accepted
    handover_until_ = Instant::never();
    unresponsive_managers_.insert(*std::exchange(handing_over_to_, std::nullopt));
    sweep_wanted_ = true;
    rest(now);
  }
  if (poll_at_ <= now) {
    poll_at_ = now + options_.polling_interval;
    poll_master(now);
  }
  if (grace_until_ <= now) {
    end_grace_after_trap(now);
  }
  if (retry_at_ <= now) {
    retry_at_ = Instant::never();
    request_sweep(now);
  }
  if (light_sweep_at_ <= now) {
    light_sweep_at_ = now + options_.sweep_interval;
    if (work_ == Work::Idle && state_ == wire::SmState::Master) {
      begin_light_sweep(now);
    }
  }
}

void SubnetManager::request_sweep(Instant now) {
  sweep_wanted_ = true;
  if (work_ == Work::Idle || work_ == Work::LightSweep || work_ == Work::Survey) {
    rest(now);
  }
}

/// A link changed, so the findings of the current work are outdated. SMPs in flight may still be
/// answered for a short time, so that their effect is known; then a sweep starts. The first sweep
/// as master is not aborted, because no routes exist yet that an abort could save, but it no longer
/// waits for lost SMPs.
void SubnetManager::restart_after_trap(Instant now) {
  const bool is_in_hand = work_ != Work::Idle && work_ != Work::LightSweep && work_ != Work::Survey;
  if (!is_in_hand || is_aborted_ || grace_until_ != Instant::never() ||
      !prompt_sweeps_.may_pass(now)) {
    return;
  }
  prompt_sweeps_.pass(now);
  is_aborted_ = !takes_over_;
  grace_until_ = now + options_.grace_after_trap;
}

void SubnetManager::end_grace_after_trap(Instant now) {
  grace_until_ = Instant::never();
  is_pumping_ = true;  // send everything before advancing
  client_->give_up(now);
  is_pumping_ = false;
  pump(now);
}

/// Ends the current work when none of its SMPs is in flight. Unwritten changes are planned again by
/// the next sweep; tables that were being written completely are in an unknown state.
void SubnetManager::abort_work(Instant now) {
  ++counters_.aborted;
  uncertain_.merge(unconfirmed_);
  guids_to_write_.merge(guids_under_way_);
  drop_work(now);
  begin_sweep(now);
}

void SubnetManager::drop_work(Instant now) {
  client_->cancel(now);
  work_ = Work::Idle;
  is_aborted_ = false;
  grace_until_ = Instant::never();
  unconfirmed_.clear();
  guids_under_way_.clear();
}

/// Selects the next work when idle.
void SubnetManager::rest(Instant now) {
  work_ = Work::Idle;
  const bool may_work = state_ == wire::SmState::Master || state_ == wire::SmState::Discovering;
  if (!may_work || handing_over_to_) {
    return;
  }
  const bool is_prompt = link_changed_at_ != Instant::never() && prompt_sweeps_.may_pass(now);
  const bool is_too_early = now < no_sweep_before_ && !takes_over_;
  if (sweep_wanted_ && is_too_early && is_prompt) {
    prompt_sweeps_.pass(now);
    return begin_sweep(now);
  }
  if (sweep_wanted_ && is_too_early) {
    retry_at_ = std::min(retry_at_, no_sweep_before_);
  } else if (std::exchange(sweep_wanted_, false)) {
    return begin_sweep(now);
  }
  if (state_ != wire::SmState::Master || !setup_) {
    return;
  }
  if (update_wanted_) {
    begin_update(now);
  } else if (std::exchange(survey_wanted_, false)) {
    begin_survey(now);
  }
}

void SubnetManager::begin_sweep(Instant now) {
  drop_work(now);
  retry_at_ = Instant::never();
  work_ = Work::Discover;
  sweep_wanted_ = false;
  sweep_began_ = now;
  for (const Guid guid : std::exchange(changed_nodes_, {})) {
    if (const auto node = subnet_.find_node(guid)) {
      subnet_.node(*node).description = {};  // to be read again
    }
  }
  const bool knows = state_ == wire::SmState::Master && !takes_over_ && setup_.has_value();
  discovery_.emplace(options_.subnet_prefix, knows ? &subnet_ : nullptr);
  pump(now);
}

void SubnetManager::begin_light_sweep(Instant now) {
  drop_work(now);
  work_ = Work::LightSweep;
  requests_.clear();
  next_request_ = 0;
  for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
    if (subnet_.nodes()[i].is_switch()) {
      requests_.push_back({
          .to = {NodeId{i}, PortNumber{}},
            .attribute = wire::SmpAttribute::SwitchInfo
      });
    }
  }
  for (const OtherManager& other : others_) {
    requests_.push_back({.to = other.port, .attribute = wire::SmpAttribute::SmInfo});
  }
  if (own_port_.number != PortNumber{}) {  // an HCA sends no trap for its own link
    requests_.push_back({.to = own_port_,
                         .attribute = wire::SmpAttribute::PortInfo,
                         .modifier = own_port_.number.value()});
  }
  pump(now);
}

/// Reads SLtoVLMappingTable and VLArbitrationTable for SA's records. Skipped where they are very
/// many, as on large switches; tables that this SM wrote are known anyway.
void SubnetManager::begin_survey(Instant now) {
  constexpr std::size_t kMaxRequests = 20'000;  // policy
  requests_.clear();
  next_request_ = 0;
  for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
    SubnetNode& node = subnet_.nodes()[i];
    const auto inputs = static_cast<std::uint32_t>(node.is_switch() ? node.ports.size() : 1);
    for (SubnetPort& port : node.ports) {
      const bool has_lanes = port.is_up() && port.info.vl_cap > 1 &&
                             port.sl_to_vl.size() < inputs &&
                             (node.is_switch() ? port.number != PortNumber{} : port.guid != Guid{});
      if (!has_lanes || requests_.size() + inputs + 4 > kMaxRequests) {
        continue;
      }
      const std::uint32_t number = node.is_switch() ? port.number.value() : 0U;
      const PortId id{NodeId{i}, port.number};
      for (std::uint32_t input = 0; input < inputs; ++input) {
        requests_.push_back({.to = id,
                             .attribute = wire::SmpAttribute::SlToVlMappingTable,
                             .modifier = node.is_switch() ? input << 8 | number : 0});
      }
      for (const std::uint32_t block : arbitration_blocks(port.info)) {
        requests_.push_back({.to = id,
                             .attribute = wire::SmpAttribute::VlArbitrationTable,
                             .modifier = block << 16 | number});
      }
    }
  }
  if (!requests_.empty()) {
    work_ = Work::Survey;
    pump(now);
  }
}

void SubnetManager::take_survey(const SmpRequest& request, const SmpAnswer& answer) {
  SubnetPort& port = subnet_.port(request.to);
  if (!answer.is_good()) {
    return;
  }
  if (request.attribute == wire::SmpAttribute::SlToVlMappingTable) {
    const std::size_t input = request.modifier >> 8;
    port.sl_to_vl.resize(std::max(port.sl_to_vl.size(), input + 1));
    port.sl_to_vl[input] = answer.as<wire::SlToVlMappingTable>();
  } else {
    const std::size_t block = request.modifier >> 16;
    port.vl_arbitration.resize(std::max(port.vl_arbitration.size(), block));
    port.vl_arbitration[block - 1] = answer.as<wire::VlArbitrationTable>();
  }
}

void SubnetManager::begin_update(Instant now) {
  update_wanted_ = false;
  work_ = Work::Update;
  setup_->plan_multicast(known_tables());
  for (const auto& [guid, guids] : guids_to_write_) {
    if (const auto port = subnet_.find_port(guid)) {
      setup_->plan_guids(*port, guids);
    }
  }
  guids_under_way_ = std::exchange(guids_to_write_, {});
  pump(now);
}

/// Sends requests up to the in-flight limit; when all are answered, proceeds to the next step.
void SubnetManager::pump(Instant now) {
  if (std::exchange(is_pumping_, true)) {
    return;
  }
  while (work_ != Work::Idle) {
    const auto request = client_->has_room() && !is_aborted_ ? next_request() : std::nullopt;
    if (request) {
      send(*request, now);
    } else if (client_->is_idle()) {
      is_pumping_ = false;  // the next step may start sending
      is_aborted_ ? abort_work(now) : advance(now);
      if (std::exchange(is_pumping_, true)) {
        return;
      }
    } else {
      break;
    }
  }
  is_pumping_ = false;
}

std::optional<SmpRequest> SubnetManager::next_request() {
  switch (work_) {
    case Work::Idle:
      return std::nullopt;
    case Work::Discover:
      return discovery_->next();
    case Work::QueryManagers:
    case Work::Survey:
    case Work::LightSweep:
      return next_request_ < requests_.size() ? std::optional{requests_[next_request_++]}
                                              : std::nullopt;
    case Work::Tables:
    case Work::Ports:
    case Work::Active:
    case Work::Update:
      return setup_->next();
  }
  return std::nullopt;
}

void SubnetManager::send(const SmpRequest& request, Instant now) {
  const bool is_found = work_ == Work::Discover;
  ++(request.is_set ? counters_.writes : counters_.reads);
  client_->send(
      is_found ? discovery_->route_of(request) : subnet_.route_to(request.to), request,
      request.is_set ? setup_->data_of(request) : SmpData{},
      [this](const SmpRequest& asked, const SmpAnswer& answer, Instant at) {
        take(asked, answer, at);
        pump(at);
      },
      now);
}

void SubnetManager::take(const SmpRequest& request, const SmpAnswer& answer, Instant) {
  switch (work_) {
    case Work::Idle:
      return;
    case Work::Discover:
      return discovery_->take(request, answer);
    case Work::QueryManagers:
      if (answer.is_good()) {
        record_manager(request.to, answer.as<wire::SmInfo>());
      }
      return;
    case Work::Survey:
      return take_survey(request, answer);
    case Work::LightSweep:
      return take_light_sweep(request, answer);
    case Work::Tables:
    case Work::Ports:
    case Work::Active:
    case Work::Update:
      if (!answer.is_good()) {
        uncertain_.insert(subnet_.node(request.to.node).info.node_guid);
      }
      return setup_->take(request, answer);
  }
}

/// Any deviation from the model triggers a sweep.
void SubnetManager::take_light_sweep(const SmpRequest& request, const SmpAnswer& answer) {
  bool is_quiet = answer.is_good();
  if (request.attribute == wire::SmpAttribute::SwitchInfo) {
    is_quiet = is_quiet && !answer.as<wire::SwitchInfo>().port_state_change;
  } else if (request.attribute == wire::SmpAttribute::PortInfo) {
    is_quiet = is_quiet &&
               answer.as<wire::PortInfo>().port_state == subnet_.port(request.to).info.port_state;
  } else if (is_quiet) {
    record_manager(request.to, answer.as<wire::SmInfo>());
  }
  sweep_wanted_ = sweep_wanted_ || !is_quiet;
}

/// All requests of one kind of work are complete.
void SubnetManager::advance(Instant now) {
  switch (work_) {
    case Work::Idle:
      return;
    case Work::Discover:
      return finish_discovery(now);
    case Work::QueryManagers:
      return decide(now);
    case Work::Tables:
      if (link_changed_at_ <= sweep_began_) {
        ++counters_.reroutes;
        counters_.last_reroute = now - std::exchange(link_changed_at_, Instant::never());
      }
      unconfirmed_.clear();
      work_ = Work::Ports;
      return setup_->plan_ports();
    case Work::Ports:
      work_ = Work::Active;
      return setup_->plan_active();
    case Work::Active:
      return finish_sweep(now);
    case Work::Update:
    case Work::Survey:
      guids_under_way_.clear();
      grace_until_ = Instant::never();
      ++subnet_.generation;
      return rest(now);
    case Work::LightSweep:
      return finish_light_sweep(now);
  }
}

void SubnetManager::finish_discovery(Instant now) {
  problems_ = discovery_->problems();
  if (!discovery_->own_port()) {  // not even the local SMA answered: retry later
    retry_at_ = now + options_.retry_interval;
    work_ = Work::Idle;
    return;
  }
  work_ = Work::QueryManagers;
  others_.clear();
  requests_.clear();
  next_request_ = 0;
  adopt(std::move(discovery_->subnet()));
  for (const PortId port : discovery_->managers()) {
    requests_.push_back({.to = port, .attribute = wire::SmpAttribute::SmInfo});
  }
}

void SubnetManager::finish_light_sweep(Instant now) {
  ++counters_.light_sweeps;
  for (const OtherManager& other : others_) {
    sweep_wanted_ = sweep_wanted_ || (takes_precedence(other.info, sm_info()) &&
                                      !unresponsive_managers_.contains(other.info.guid));
  }
  rest(now);
}

void SubnetManager::finish_sweep(Instant now) {
  ++counters_.sweeps;
  takes_over_ = false;
  grace_until_ = Instant::never();
  ++subnet_.generation;
  light_sweep_at_ = now + options_.sweep_interval;
  no_sweep_before_ = now + (now - sweep_began_);
  const bool is_clean = problems_.unanswered == 0 && setup_->failures() == 0;
  retries_ = is_clean ? 0 : retries_ + 1;
  if (!is_clean && retries_ <= options_.retries_of_sweep) {
    retry_at_ = now + options_.retry_interval;
  }
  std::erase_if(unresponsive_managers_, [&](Guid guid) {
    return std::ranges::none_of(others_,
                                [&](const OtherManager& other) { return other.info.guid == guid; });
  });
  work_ = Work::Idle;
  survey_wanted_ = true;
  report_changes(now);
  if (work_ == Work::Idle) {
    rest(now);
  }
}

}  // namespace weft::subnet
