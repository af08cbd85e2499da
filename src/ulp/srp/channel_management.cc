// Task management of a channel, and what a target sends unasked.

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "ulp/srp/channel.h"
#include "ulp/srp/channel_slot.h"

namespace weft::srp {
namespace {

using wire::SrpResponseCode;
using wire::SrpTaskFunction;

[[nodiscard]] std::optional<scsi::TaskManagement> function_of(SrpTaskFunction function) {
  switch (function) {
    case SrpTaskFunction::AbortTask:
      return scsi::TaskManagement::AbortTask;
    case SrpTaskFunction::AbortTaskSet:
      return scsi::TaskManagement::AbortTaskSet;
    case SrpTaskFunction::ClearTaskSet:
      return scsi::TaskManagement::ClearTaskSet;
    case SrpTaskFunction::LogicalUnitReset:
      return scsi::TaskManagement::LogicalUnitReset;
    case SrpTaskFunction::ClearAca:
      return scsi::TaskManagement::ClearAca;
  }
  return std::nullopt;
}

/// SRP does not distinguish a task that was aborted from one that was not there.
[[nodiscard]] SrpResponseCode code_of(scsi::TaskManagementResponse response) {
  switch (response) {
    case scsi::TaskManagementResponse::Complete:
    case scsi::TaskManagementResponse::Succeeded:
    case scsi::TaskManagementResponse::TaskNotFound:
      return SrpResponseCode::Complete;
    case scsi::TaskManagementResponse::NotSupported:
      return SrpResponseCode::NotSupported;
    case scsi::TaskManagementResponse::IncorrectLun:
      return SrpResponseCode::InvalidField;
    case scsi::TaskManagementResponse::Rejected:
    case scsi::TaskManagementResponse::NoSuchNexus:
      return SrpResponseCode::Failed;
  }
  return SrpResponseCode::Failed;
}

}  // namespace

/// The SCSI target does not know commands whose data is still being read; they are aborted here,
/// and the response waits until their READs have ended, because only then is the initiator's memory
/// its own again.
void Channel::handle_task_management(Slot& slot, const wire::SrpTskMgmt& request) {
  slot.state = transition(slot.state, CommandEvent::Manage).next;
  slot.tag = request.tag;
  slot.lun = request.lun;
  const auto function = function_of(request.function);
  if (!function) {
    respond_management(slot, SrpResponseCode::NotSupported);
    return;
  }
  if (request.function == SrpTaskFunction::LogicalUnitReset) {
    ++counters_.resets;
  } else if (request.function != SrpTaskFunction::ClearAca) {
    ++counters_.aborts;
  }
  const auto pending = std::make_shared<PendingManagement>(
      PendingManagement{.waits_for = 1, .channel = this, .slot = slot.index});
  switch (request.function) {
    case SrpTaskFunction::AbortTask:
      for (const auto& each : slots_) {
        if (each->tag == request.task_tag && each->lun == request.lun) {
          abort_fetch(*each, pending);
        }
      }
      break;
    case SrpTaskFunction::AbortTaskSet:
      abort_fetches(request.lun, pending);
      break;
    case SrpTaskFunction::ClearTaskSet:  // of all initiators, as a reset (SAM-5 §7.5, §7.7)
    case SrpTaskFunction::LogicalUnitReset:
      abort_fetches(request.lun, pending);
      owner_.abort_fetches(*this, request.lun, pending);
      break;
    case SrpTaskFunction::ClearAca:
      break;
  }
  target_.manage(nexus_, *function, request.lun, request.task_tag,
                 [pending](scsi::TaskManagementResponse response) {
                   pending->code = code_of(response);
                   end_wait(*pending);
                 });
}

void Channel::abort_fetches(std::uint64_t lun, const std::shared_ptr<PendingManagement>& pending) {
  for (const auto& slot : slots_) {
    if (slot->lun == lun) {
      abort_fetch(*slot, pending);
    }
  }
}

void Channel::abort_fetch(Slot& slot, const std::shared_ptr<PendingManagement>& pending) {
  if (slot.state == CommandState::NeedData) {
    slot.is_aborted = true;
    slot.waiters.push_back(pending);
    ++pending->waits_for;
  }
}

void Channel::end_wait(PendingManagement& pending) {
  if (--pending.waits_for == 0) {
    Channel& channel = *pending.channel;
    channel.respond_management(*channel.slots_[pending.slot], pending.code);
  }
}

/// srpt_build_tskmgmt_rsp.
void Channel::respond_management(Slot& slot, SrpResponseCode code) {
  wire::SrpResponseUnit response;
  response.header.tag = slot.tag;
  response.response_code = code;
  slot.pieces.clear();
  post_response(slot, response);
  release_if_quiet();
}

void Channel::handle_cred_rsp(ByteSpan unit) {
  const auto response = wire::parse<wire::SrpCredRsp>(unit);
  if (!response || cred_req_tag_ != response->tag) {
    protocol_violation();
    return;
  }
  cred_req_tag_.reset();
  answer_credit_shortage();
}

void Channel::handle_aer_rsp(ByteSpan unit) {
  const auto response = wire::parse<wire::SrpAerRsp>(unit);
  if (!response || aer_tag_ != response->tag) {
    protocol_violation();
    return;
  }
  aer_tag_.reset();
}

Result<void> Channel::report_event(std::uint64_t lun, ByteSpan sense) {
  if (state_ != ChannelState::Live) {
    return weft::fail(ErrorCode::ShutDown, "the channel is {}", name_of(state_));
  }
  if (aer_tag_) {
    return weft::fail(ErrorCode::Busy, "the initiator has not answered the event before");
  }
  const std::size_t room = options_.max_target_iu - wire::kSizeOf<wire::SrpAerReq>;
  wire::SrpAerUnit event;
  event.header = {.request_limit_delta = limit_.owed(), .tag = next_tag_++, .lun = lun};
  event.sense = sense.first(std::min(sense.size(), room));
  if (!post_service(kAerReq, wire::to_unit(event))) {
    return weft::fail(ErrorCode::TryAgain, "the event before is still being sent");
  }
  std::ignore = limit_.grant();
  aer_tag_ = event.header.tag;
  return {};
}

bool Channel::post_service(ServiceSlot slot, Unit unit) {
  if (service_busy_[slot]) {
    return false;
  }
  service_units_[slot] = std::move(unit);
  if (!connection_.post_send(slots_.size() + slot, service_units_[slot])) {
    return false;
  }
  service_busy_[slot] = true;
  return true;
}

}  // namespace weft::srp
