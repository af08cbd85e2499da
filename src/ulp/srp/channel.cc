#include "ulp/srp/channel.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "ulp/srp/channel_slot.h"
#include "ulp/srp/planted_bug.h"

namespace weft::srp {

ChannelCounters& ChannelCounters::operator+=(const ChannelCounters& other) {
  commands += other.commands;
  responses += other.responses;
  refused_descriptors += other.refused_descriptors;
  violations += other.violations;
  failed_reads += other.failed_reads;
  failed_writes += other.failed_writes;
  reads += other.reads;
  read_bytes += other.read_bytes;
  writes += other.writes;
  written_bytes += other.written_bytes;
  aborts += other.aborts;
  resets += other.resets;
  return *this;
}

Channel::Channel(ChannelOwner& owner, ChannelId id, TargetConnection& connection,
                 scsi::Target& target, scsi::NexusId nexus, const ChannelOptions& options)
    : owner_(owner),
      id_(id),
      connection_(connection),
      target_(target),
      nexus_(nexus),
      options_(options),
      limit_(options.request_limit),
      service_units_(kServiceSlots),
      service_busy_(kServiceSlots) {
  WEFT_ASSERT(options.request_limit > 0, "a login grants credits");
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.request_limit); ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->index = i;
  }
}

Channel::~Channel() { WEFT_ASSERT(is_released_, "its owner waits for handle_released"); }

void Channel::apply(ChannelEvent event) {
  const ChannelTransition step = transition(state_, event);
  if (planted(PlantedBug::RtuAfterDisconnect) && event == ChannelEvent::Rtu &&
      state_ == ChannelState::Disconnecting) {
    state_ = ChannelState::Live;
    return;
  }
  state_ = step.next;
  switch (step.action) {
    case ChannelAction::Ignore:
      break;
    case ChannelAction::Start:
      connection_.make_ready_to_send();
      if (!connection_.post_marker()) {  // its completion begins the wait list (R-SRPT-10)
        close();
      }
      break;
    case ChannelAction::AskPeer:
      connection_.send_dreq();
      break;
    case ChannelAction::Answer:
      connection_.send_drep();
      break;
    case ChannelAction::Drain:
      drain();
      break;
    case ChannelAction::Release:
      release_if_quiet();
      break;
  }
}

void Channel::drain() {
  connection_.fail();
  wait_list_.clear();
  target_.close_nexus(nexus_, [this] {
    nexus_closed_ = true;
    owner_.handle_nexus_closed(*this);
    release_if_quiet();
  });
  if (!connection_.post_marker()) {
    apply(ChannelEvent::MarkerFlushed);  // nothing is posted, so nothing will come
  }
}

void Channel::release_if_quiet() {
  if (is_released_ || state_ != ChannelState::Disconnected || !nexus_closed_ || busy_slots() != 0) {
    return;
  }
  is_released_ = true;
  owner_.handle_released(*this);
}

void Channel::disconnect() {
  if (state_ == ChannelState::Live) {
    wire::SrpTLogout logout;
    logout.tag = next_tag_++;
    std::ignore = post_service(kTLogout, wire::to_unit(logout));
  }
  apply(ChannelEvent::Disconnect);
}

bool Channel::close() {
  const bool begins = state_ < ChannelState::Draining;
  apply(ChannelEvent::Close);
  return begins;
}

void Channel::protocol_violation() {
  ++counters_.violations;
  disconnect();
}

void Channel::handle_marker_done(bool succeeded) {
  if (succeeded) {
    process_waiting();
  } else {
    close();
    apply(ChannelEvent::MarkerFlushed);
  }
}

void Channel::handle_receive(ByteSpan unit) {
  if (state_ > ChannelState::Live) {
    return;  // what comes while the connection ends is of no interest any more
  }
  const auto opcode = wire::srp_opcode(unit);
  if (!opcode || unit.size() > options_.max_initiator_iu) {
    protocol_violation();
    return;
  }
  const bool is_request = *opcode == wire::SrpOpcode::Cmd || *opcode == wire::SrpOpcode::TskMgmt;
  if (is_request && !limit_.take()) {
    protocol_violation();
    return;
  }
  if (state_ == ChannelState::Connecting || !wait_list_.empty() || !process(unit, false)) {
    // Units without a credit are few: two answers and a logout. More is a violation.
    if (wait_list_.size() >= slots_.size() + kServiceSlots) {
      protocol_violation();
      return;
    }
    wait_list_.emplace_back(unit.begin(), unit.end());
  }
}

/// srpt_process_wait_list: in the order of arrival, as far as slots are free.
void Channel::process_waiting() {
  while (state_ == ChannelState::Live && !wait_list_.empty()) {
    const bool from_behind = planted(PlantedBug::WaitListReordered);
    const Unit unit = from_behind ? wait_list_.back() : wait_list_.front();
    if (!process(unit, true)) {
      return;
    }
  }
}

/// srpt_handle_new_iu: false if the unit must wait for a slot.
bool Channel::process(ByteSpan unit, bool has_waited) {
  const auto opcode = *wire::srp_opcode(unit);
  const bool is_request = opcode == wire::SrpOpcode::Cmd || opcode == wire::SrpOpcode::TskMgmt;
  Slot* const slot = is_request ? free_slot() : nullptr;
  if (is_request && slot == nullptr) {
    return false;
  }
  if (has_waited && planted(PlantedBug::WaitListReordered)) {
    wait_list_.pop_back();
  } else if (has_waited) {
    wait_list_.pop_front();
  }
  switch (opcode) {
    case wire::SrpOpcode::Cmd:
    case wire::SrpOpcode::TskMgmt:
      handle_request(*slot, unit);
      break;
    case wire::SrpOpcode::CredRsp:
      handle_cred_rsp(unit);
      break;
    case wire::SrpOpcode::AerRsp:
      handle_aer_rsp(unit);
      break;
    case wire::SrpOpcode::ILogout:
      apply(ChannelEvent::Disconnect);
      break;
    default:  // a login on a channel that has one, or what only targets say
      protocol_violation();
      break;
  }
  return true;
}

void Channel::handle_request(Slot& slot, ByteSpan unit) {
  ++counters_.commands;
  slot.state = CommandState::New;
  slot.is_aborted = false;
  slot.waiters.clear();
  if (*wire::srp_opcode(unit) == wire::SrpOpcode::Cmd) {
    handle_command(slot, unit);
    return;
  }
  const auto request = wire::parse<wire::SrpTskMgmt>(unit);
  if (!request) {
    finish(slot, CommandEvent::Drop);
    protocol_violation();
    return;
  }
  handle_task_management(slot, *request);
}

void Channel::handle_send_done(std::size_t index, bool succeeded) {
  if (index >= slots_.size()) {
    WEFT_ASSERT(index - slots_.size() < kServiceSlots, "slots are this channel's");
    service_busy_[index - slots_.size()] = false;
  } else {
    finish(*slots_[index], CommandEvent::SendDone);
  }
  if (!succeeded) {
    close();
  }
  process_waiting();
  answer_credit_shortage();
  release_if_quiet();
}

void Channel::set_request_limit(std::int32_t limit) {
  limit_.set_limit(std::clamp(limit, 1, static_cast<std::int32_t>(slots_.size())));
  answer_credit_shortage();
}

Channel::Slot* Channel::free_slot() {
  for (const auto& slot : slots_) {
    if (slot->state == CommandState::Done) {
      return slot.get();
    }
  }
  return nullptr;
}

std::size_t Channel::busy_slots() const {
  const auto requests = std::ranges::count_if(
      slots_, [](const auto& slot) { return slot->state != CommandState::Done; });
  return static_cast<std::size_t>(requests + std::ranges::count(service_busy_, true));
}

void Channel::check_invariants() const {
  WEFT_ASSERT(limit_.available() >= 0 && limit_.outstanding() >= 0, "credits are never negative");
  WEFT_ASSERT(wait_list_.size() <= slots_.size() + kServiceSlots, "credits bound what waits");
  WEFT_ASSERT(!is_released_ || (state_ == ChannelState::Disconnected && busy_slots() == 0),
              "nothing of a released channel is under way");
}

}  // namespace weft::srp
