// Commands of a channel: data, execution, responses.

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "ulp/srp/channel.h"
#include "ulp/srp/channel_slot.h"
#include "ulp/srp/planted_bug.h"

namespace weft::srp {
namespace {

[[nodiscard]] std::optional<scsi::TaskAttribute> attribute_of(wire::SrpTaskAttribute attribute) {
  switch (attribute) {
    case wire::SrpTaskAttribute::Simple:
      return scsi::TaskAttribute::Simple;
    case wire::SrpTaskAttribute::HeadOfQueue:
      return scsi::TaskAttribute::HeadOfQueue;
    case wire::SrpTaskAttribute::Ordered:
      return scsi::TaskAttribute::Ordered;
    case wire::SrpTaskAttribute::Aca:
      return scsi::TaskAttribute::Aca;
  }
  return std::nullopt;
}

[[nodiscard]] scsi::Completion check_condition(scsi::SenseKey key, scsi::SenseCode code) {
  return {
      .status = scsi::Status::CheckCondition,
      .sense = scsi::SenseData{{.key = key, .code = code}, scsi::SenseData::Format::Fixed}
  };
}

/// Residuals belong to data-in if there is any, else to data-out.
void set_residual(wire::SrpRsp& header, std::int64_t residual, bool has_data_in) {
  if (residual == 0) {
    return;
  }
  const auto count = static_cast<std::uint32_t>(residual > 0 ? residual : -residual);
  using Flag = wire::SrpResponseFlag;
  if (has_data_in) {
    header.data_in_residual = count;
    header.flags |= residual > 0 ? Flag::DataInUnder : Flag::DataInOver;
  } else {
    header.data_out_residual = count;
    header.flags |= residual > 0 ? Flag::DataOutUnder : Flag::DataOutOver;
  }
}

}  // namespace

void Channel::handle_command(Slot& slot, ByteSpan unit) {
  const auto header = wire::parse<wire::SrpCmd>(unit);
  if (!header) {  // without a tag there is nobody to answer
    finish(slot, CommandEvent::Drop);
    protocol_violation();
    return;
  }
  slot.tag = header->tag;
  slot.lun = header->lun;
  slot.plan = {};
  slot.lent.clear();
  const auto attribute = attribute_of(header->attribute);
  auto command = wire::parse_srp_command(unit, options_.immediate_offset);
  if (!command || !attribute) {
    ++counters_.refused_descriptors;
    refuse(slot, scsi::SenseKey::IllegalRequest,
           scsi::SenseCode::InvalidFieldInCommandInformationUnit);
    return;
  }
  auto plan = plan_transfer(std::move(command->data_out), std::move(command->data_in),
                            options_.max_transfer_bytes);
  if (!plan) {
    ++counters_.refused_descriptors;
    refuse(slot, scsi::SenseKey::IllegalRequest,
           scsi::SenseCode::InvalidFieldInCommandInformationUnit);
    return;
  }
  slot.plan = *std::move(plan);
  slot.cdb.assign(header->cdb.begin(), header->cdb.end());
  slot.cdb.insert(slot.cdb.end(), command->additional_cdb.begin(), command->additional_cdb.end());
  slot.data_out.assign(command->immediate_data.begin(), command->immediate_data.end());
  slot.data_out.resize(static_cast<std::size_t>(slot.plan.out.bytes));
  // Not cleared: only what the command puts there is sent, and what else it has is of the same
  // initiator's earlier commands.
  slot.data_in.resize(static_cast<std::size_t>(slot.plan.in.bytes));
  slot.command = {.nexus = nexus_,
                  .lun = slot.lun,
                  .tag = slot.tag,
                  .attribute = *attribute,
                  .cdb = slot.cdb,
                  .data_out = slot.data_out,
                  .data_in = slot.data_in,
                  .lend_to = &slot.lent,
                  .client = this};
  fetch(slot);
}

/// Reads what the command needs before it is executed, one thing at a time: tables, then data-out.
void Channel::fetch(Slot& slot) {
  if (slot.plan.out.table) {
    slot.reading = Slot::Reading::TableOut;
  } else if (slot.plan.in.table) {
    slot.reading = Slot::Reading::TableIn;
  } else if (!slot.plan.out.segments.empty() && slot.plan.out.bytes > 0 &&
             slot.reading != Slot::Reading::Data) {
    slot.reading = Slot::Reading::Data;
  } else {
    slot.reading = Slot::Reading::Nothing;
    if (slot.state == CommandState::NeedData) {
      slot.state = transition(slot.state, CommandEvent::Arrived).next;
    }
    execute(slot);
    return;
  }
  slot.state = transition(slot.state, CommandEvent::Fetch).next;
  if (!post_next_read(slot)) {
    abort(slot);
    close();
  }
}

bool Channel::post_next_read(Slot& slot) {
  if (slot.reading == Slot::Reading::Data) {
    return connection_.post_read(slot.index, slot.plan.out.segments, slot.data_out).has_value();
  }
  const Segment table =
      slot.reading == Slot::Reading::TableOut ? *slot.plan.out.table : *slot.plan.in.table;
  slot.table.assign(table.length, std::byte{});
  return connection_.post_read(slot.index, {&table, 1}, slot.table).has_value();
}

/// srpt_rdma_read_done.
void Channel::handle_read_done(std::size_t index, bool succeeded) {
  WEFT_ASSERT(index < slots_.size(), "slots are this channel's");
  Slot& slot = *slots_[index];
  const auto waiters = std::exchange(slot.waiters, {});
  const bool executes = !slot.is_aborted || planted(PlantedBug::AbortedWriteExecuted);
  if (!succeeded) {
    slot.reading = Slot::Reading::Nothing;
    counters_.failed_reads += abort(slot) == CommandState::NeedData ? 1 : 0;
    close();
  } else if (!executes) {
    slot.reading = Slot::Reading::Nothing;
    finish(slot, CommandEvent::Drop);
  } else {
    Transfer& read = slot.reading == Slot::Reading::TableIn ? slot.plan.in : slot.plan.out;
    const bool is_table = slot.reading != Slot::Reading::Data;
    if (is_table && !read.set_table(slot.table)) {
      ++counters_.refused_descriptors;
      slot.reading = Slot::Reading::Nothing;
      slot.state = transition(slot.state, CommandEvent::Arrived).next;
      refuse(slot, scsi::SenseKey::IllegalRequest,
             scsi::SenseCode::InvalidFieldInCommandInformationUnit);
    } else {
      fetch(slot);
    }
  }
  for (const auto& pending : waiters) {
    end_wait(*pending);
  }
  process_waiting();
  answer_credit_shortage();
  release_if_quiet();
}

void Channel::execute(Slot& slot) {
  if (!can_send()) {  // the nexus is closed, or closing
    finish(slot, CommandEvent::Drop);
    return;
  }
  target_.submit(slot.command);
}

/// The residual is of data-in where there is any, as in the response.
void Channel::count_data(const Slot& slot, const scsi::Completion& completion) {
  if (completion.status != scsi::Status::Good) {
    return;
  }
  if (!slot.data_in.empty()) {
    ++counters_.reads;
    counters_.read_bytes += completion.data_in_bytes;
  }
  if (!slot.data_out.empty()) {
    const auto bytes = static_cast<std::int64_t>(slot.data_out.size());
    const std::int64_t unused = slot.data_in.empty() ? completion.residual : 0;
    ++counters_.writes;
    counters_.written_bytes +=
        static_cast<std::uint64_t>(bytes - std::clamp<std::int64_t>(unused, 0, bytes));
  }
}

void Channel::handle_completion(scsi::Command& command, const scsi::Completion& completion) {
  const auto found =
      std::ranges::find_if(slots_, [&](const auto& slot) { return &slot->command == &command; });
  WEFT_ASSERT(found != slots_.end(), "commands are in slots");
  Slot& slot = **found;
  if (completion.has_status) {
    slot.is_status_only = false;
    respond(slot, completion);
    if (!slot.is_status_only) {
      count_data(slot, completion);
    }
  } else {
    finish(slot, CommandEvent::Drop);
    answer_credit_shortage();
  }
  release_if_quiet();
}

/// srpt_build_cmd_rsp. Sense data need not be cut: target_login.cc sees to the room.
void Channel::respond(Slot& slot, const scsi::Completion& completion) {
  wire::SrpResponseUnit response;
  response.header.tag = slot.tag;
  response.header.status = std::to_underlying(completion.status);
  set_residual(response.header, completion.residual, !slot.data_in.empty());
  response.sense = completion.sense.octets();
  slot.pieces.clear();
  std::size_t left = completion.data_in_bytes;
  for (const scsi::BlockLoan& loan : slot.lent) {
    slot.pieces.push_back(loan.octets.first(std::min(left, loan.octets.size())));
    left -= slot.pieces.back().size();
  }
  if (slot.lent.empty()) {
    slot.pieces.push_back(ByteSpan{slot.data_in}.first(left));
  }
  std::erase_if(slot.pieces, [](ByteSpan piece) { return piece.empty(); });
  post_response(slot, response);
}

void Channel::refuse(Slot& slot, scsi::SenseKey key, scsi::SenseCode code) {
  respond(slot, check_condition(key, code));
}

/// srpt_queue_response: data and response in one chain.
void Channel::post_response(Slot& slot, const wire::SrpResponseUnit& unit) {
  if (!can_send()) {
    finish(slot, CommandEvent::Drop);
    return;
  }
  wire::SrpResponseUnit granted = unit;
  limit_.end();
  granted.header.request_limit_delta = limit_.grant();
  wire::put_unit(granted, slot.unit);
  slot.state = transition(slot.state, CommandEvent::Respond).next;
  ++counters_.responses;
  auto posted = slot.pieces.empty()
                    ? connection_.post_send(slot.index, slot.unit)
                    : connection_.post_write_and_send(slot.index, slot.pieces,
                                                      slot.plan.in.segments, slot.unit);
  if (!posted && !slot.pieces.empty() && posted.error().code != ErrorCode::ShutDown) {
    posted = post_status_only(slot, granted.header.request_limit_delta);
  }
  if (!posted) {
    finish(slot, CommandEvent::Abort);
    close();
  }
}

/// The connection lives, and the data cannot go: queue_status_only of srpt_queue_response. The
/// initiator must not take what its buffer has for the data.
Result<void> Channel::post_status_only(Slot& slot, std::int32_t delta) {
  slot.is_status_only = true;
  ++counters_.failed_writes;
  const scsi::Completion failed =
      check_condition(scsi::SenseKey::HardwareError, scsi::SenseCode::InternalTargetFailure);
  wire::SrpResponseUnit response;
  response.header.tag = slot.tag;
  response.header.request_limit_delta = delta;
  response.header.status = std::to_underlying(failed.status);
  response.sense = failed.sense.octets();
  set_residual(response.header, static_cast<std::int64_t>(slot.data_in.size()), true);
  wire::put_unit(response, slot.unit);
  return connection_.post_send(slot.index, slot.unit);
}

/// srpt_abort_cmd: what the channel's failure means for a command, by its state.
CommandState Channel::abort(Slot& slot) {
  const CommandState found = slot.state;
  const CommandTransition step = transition(found, CommandEvent::Abort);
  switch (step.action) {
    case CommandAction::Fail:
      slot.state = step.next;
      refuse(slot, scsi::SenseKey::AbortedCommand, scsi::SenseCode::None);
      break;
    case CommandAction::Finish:
      finish(slot, CommandEvent::Abort);
      break;
    case CommandAction::LeaveToCore:
    case CommandAction::Ignore:
    case CommandAction::Proceed:
      break;
  }
  return found;
}

/// The slot is free again. A request that ends without a response gives its credit to a later one.
void Channel::finish(Slot& slot, CommandEvent event) {
  const CommandTransition step = transition(slot.state, event);
  if (step.action != CommandAction::Finish) {
    return;
  }
  slot.state = step.next;
  slot.lent.clear();
  if (event == CommandEvent::Drop && !planted(PlantedBug::CreditLostWithAbort)) {
    limit_.end();
  }
}

void Channel::answer_credit_shortage() {
  if (state_ != ChannelState::Live || cred_req_tag_ || !limit_.wants_cred_req()) {
    return;
  }
  const std::uint64_t tag = next_tag_++;
  const wire::SrpCredReq request{.request_limit_delta = limit_.owed(), .tag = tag};
  if (post_service(kCredReq, wire::to_unit(request))) {
    std::ignore = limit_.grant();
    cred_req_tag_ = tag;
  }
}

}  // namespace weft::srp
