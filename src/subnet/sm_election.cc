// SubnetManager: election of the master (IBTA vol 1 §14.4.1), and requests to this SM.

#include <algorithm>
#include <span>
#include <utility>

#include "subnet/subnet_manager.h"
#include "wire/mad/notice.h"

namespace weft::subnet {
namespace {

constexpr std::size_t kDataAt = 64;  // offset of SMPData in an SMP (IBTA vol 1 §14.2.1)

template <wire::WireType T>
[[nodiscard]] T data_of(const mad::MadMessage& message) {
  return wire::unpack<T>(std::span{message.mad}.subspan<kDataAt, wire::kSizeOf<T>>());
}

}  // namespace

wire::SmInfo SubnetManager::sm_info() const {
  return {.guid = own_guid_,
          .sm_key = options_.sm_key,
          .act_count = act_count_,
          .priority = options_.priority,
          .state = state_};
}

const mad::MadMessage* SubnetManager::answer(mad::MadRequest& request) {
  const wire::MadHeader header = request.message.header();
  if (header.method == wire::MadMethod::Trap) {
    return answer_trap(request);
  }
  if (header.attribute_id == static_cast<std::uint16_t>(wire::SmpAttribute::SmInfo)) {
    return answer_sm_info(request);
  }
  request.message.set_status(wire::kMadStatusMethodAttributeUnsupported);
  return &request.message;
}

/// The SM_Key is disclosed to requesters that know the M_Key, because OpenSM ignores an SM with a
/// different SM_Key. All others see 0 (§14.2.5.13).
const mad::MadMessage* SubnetManager::answer_sm_info(mad::MadRequest& request) {
  const wire::MadHeader header = request.message.header();
  if (own_guid_ == Guid{}) {
    return nullptr;  // the own GUID is not known yet: the requester will retry
  }
  std::optional<SmEvent> event;
  if (header.method == wire::MadMethod::Set) {
    const auto sender = data_of<wire::SmInfo>(request.message);
    event = event_of(header.attribute_modifier);
    if (!event || !may_control(*event, sender) || !transition(state_, *event)) {
      ++counters_.refused_controls;
      request.message.set_status(wire::kMadStatusInvalidField);
      event.reset();
    } else if (*event == SmEvent::HandoverReceived) {
      handed_over_by_ = sender.guid;
    }
  }
  if (event) {
    apply(*event, request.now);
  }
  ++act_count_;
  wire::SmInfo info = sm_info();
  const auto asked = wire::unpack<wire::SmpLidRouted>(std::span{request.message.mad});
  info.sm_key = asked.mkey == options_.mkey ? options_.sm_key : 0;
  wire::pack(info, std::span{request.message.mad}.subspan<kDataAt, wire::kSizeOf<wire::SmInfo>>());
  return &request.message;
}

/// A standby accepts control from its master only; a master accepts the acknowledgement of the SM
/// it handed over to, and handovers from other masters.
bool SubnetManager::may_control(SmEvent event, const wire::SmInfo& sender) const {
  if (sender.sm_key != options_.sm_key || sender.guid == Guid{} || sender.guid == own_guid_) {
    return false;
  }
  if (event == SmEvent::Acknowledged) {
    return handing_over_to_ == sender.guid;
  }
  if (state_ == wire::SmState::Standby) {
    return !master_ || master_->info.guid == sender.guid;
  }
  return state_ != wire::SmState::Master ||
         std::ranges::any_of(
             others_, [&](const OtherManager& other) { return other.info.guid == sender.guid; });
}

/// Represses every trap from the subnet (§14.4.10); traps about changes trigger a sweep.
const mad::MadMessage* SubnetManager::answer_trap(mad::MadRequest& request) {
  const wire::MadHeader header = request.message.header();
  const auto notice = data_of<wire::Notice>(request.message);
  const auto issuer = subnet_.find_lid(request.source.lid);
  if (state_ != wire::SmState::Master || !issuer || notice.issuer_lid != request.source.lid ||
      header.attribute_id != static_cast<std::uint16_t>(wire::SmpAttribute::Notice)) {
    return nullptr;
  }
  ++counters_.traps;
  if (notice.is_generic) {
    switch (static_cast<wire::Trap>(notice.trap_number)) {
      case wire::Trap::LinkStateChange:
        sweep_wanted_ = true;
        link_changed_at_ = std::min(link_changed_at_, request.now);
        restart_after_trap(request.now);
        break;
      case wire::Trap::CapabilityMaskChange:
      case wire::Trap::SystemImageGuidChange:
        changed_nodes_.insert(subnet_.node(issuer->node).info.node_guid);
        sweep_wanted_ = true;
        break;
      default:
        break;
    }
  }
  if (observer_ != nullptr) {
    observer_->trap_received(notice, request.now);
  }
  if (sweep_wanted_) {
    request_sweep(request.now);
  }
  auto repress = wire::unpack<wire::SmpLidRouted>(std::span{request.message.mad});
  repress.mkey = options_.mkey;
  request.message.mad = wire::pack(repress);
  return &request.message;
}

void SubnetManager::record_manager(PortId port, const wire::SmInfo& info) {
  if (info.guid == own_guid_) {
    return;
  }
  const auto known = std::ranges::find(others_, port, &OtherManager::port);
  if (known == others_.end()) {
    others_.push_back({.port = port, .info = info});
  } else {
    known->info = info;
  }
}

/// Called when all other SMs were queried: determines which SM is master.
void SubnetManager::decide(Instant now) {
  const OtherManager* better = nullptr;
  for (const OtherManager& other : others_) {
    const bool is_master = other.info.state == wire::SmState::Master;
    const bool counts = state_ == wire::SmState::Master
                            ? takes_precedence(other.info, sm_info()) &&
                                  other.info.state != wire::SmState::NotActive &&
                                  other.info.state != wire::SmState::Discovering &&
                                  !unresponsive_managers_.contains(other.info.guid)
                            : is_master || (takes_precedence(other.info, sm_info()) &&
                                            other.info.state != wire::SmState::NotActive);
    const bool is_superior = better == nullptr ||
                             (is_master && better->info.state != wire::SmState::Master) ||
                             (is_master == (better->info.state == wire::SmState::Master) &&
                              takes_precedence(other.info, better->info));
    if (counts && is_superior) {
      better = &other;
    }
  }
  if (state_ == wire::SmState::Master) {
    return better != nullptr ? hand_over(*better, now) : set_up(now);
  }
  if (better != nullptr) {
    master_ = *better;
  }
  apply(better != nullptr ? SmEvent::FoundSuperior : SmEvent::FoundNone, now);
}

void SubnetManager::apply(SmEvent event, Instant now) {
  const auto row = transition(state_, event);
  if (!row) {
    return;
  }
  const bool is_new_state = row->to != state_;
  const Work work = work_;
  state_ = row->to;
  if (is_new_state) {
    light_sweep_at_ = retry_at_ = poll_at_ = handover_until_ = Instant::never();
    handing_over_to_.reset();
  }
  if (is_new_state && observer_ != nullptr) {
    observer_->state_changed(state_, now);
  }
  switch (row->action) {
    case SmAction::Nothing:
      break;
    case SmAction::Discover:
      sweep_wanted_ = true;
      drop_work(now);
      rest(now);
      break;
    case SmAction::TakeOver:
      takes_over_ = true;
      if (work == Work::QueryManagers) {
        set_up(now);
      }
      break;
    case SmAction::Poll:
      drop_work(now);
      sweep_wanted_ = false;
      in_service_.clear();
      missed_polls_ = 0;
      poll_at_ = now + options_.polling_interval;
      break;
    case SmAction::TakeOverAndAck:
    case SmAction::AckAndResweep:  // the other SM wrote tables that we do not know
      takes_over_ = true;
      drop_work(now);
      acknowledge(now);
      request_sweep(now);
      break;
    case SmAction::Deactivate:
      drop_work(now);
      master_.reset();
      break;
  }
}

/// Hands mastership over to `to`. Nothing is written until it accepts, by its response and
/// optionally by ACKNOWLEDGE (§14.4.1), which OpenSM does not send.
void SubnetManager::hand_over(const OtherManager& to, Instant now) {
  handing_over_to_ = to.info.guid;
  handover_until_ = now + options_.handover_timeout;
  master_ = to;
  work_ = Work::Idle;
  control(to.port, wire::SmInfoControl::Handover, now);
}

void SubnetManager::take_control_answer(const SmpRequest& request, const SmpAnswer& answer,
                                        Instant now) {
  const bool is_handover =
      request.modifier == static_cast<std::uint32_t>(wire::SmInfoControl::Handover);
  if (is_handover && answer.is_good() && handing_over_to_ == answer.as<wire::SmInfo>().guid) {
    apply(SmEvent::Acknowledged, now);
  }
}

/// Sends ACKNOWLEDGE to the SM that handed over, if its port is known.
void SubnetManager::acknowledge(Instant now) {
  if (const auto port = subnet_.find_port(std::exchange(handed_over_by_, Guid{}))) {
    control(*port, wire::SmInfoControl::Acknowledge, now);
  }
}

/// Sends an SMInfo Set independently of sweeps; the interface retries it.
void SubnetManager::control(PortId to, wire::SmInfoControl what, Instant now) {
  ++counters_.writes;
  controls_->send(
      subnet_.route_to(to),
      {.to = to,
       .attribute = wire::SmpAttribute::SmInfo,
       .modifier = static_cast<std::uint32_t>(what),
       .is_set = true},
      smp_data(sm_info()),
      [this](const SmpRequest& request, const SmpAnswer& answer, Instant at) {
        take_control_answer(request, answer, at);
      },
      now);
}

void SubnetManager::poll_master(Instant now) {
  if (state_ != wire::SmState::Standby || !master_) {
    return;
  }
  ++counters_.reads;
  controls_->send(
      subnet_.route_to(master_->port),
      {.to = master_->port, .attribute = wire::SmpAttribute::SmInfo}, {},
      [this](const SmpRequest&, const SmpAnswer& answer, Instant at) { take_poll(answer, at); },
      now);
}

/// A responding master stays master; one that is silent or no longer master is lost after some
/// retries.
void SubnetManager::take_poll(const SmpAnswer& answer, Instant now) {
  if (state_ != wire::SmState::Standby) {
    return;
  }
  const bool is_master =
      answer.is_good() && answer.as<wire::SmInfo>().state == wire::SmState::Master;
  missed_polls_ = is_master ? 0 : missed_polls_ + 1;
  if (missed_polls_ > options_.polling_retries) {
    apply(SmEvent::MasterLost, now);
  }
}

}  // namespace weft::subnet
