// Commands of an initiator and their data (RFC 7143 §11.3, §11.4, §11.7, §11.8).

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "iscsi/initiator_session.h"
#include "iscsi/planted_bug.h"
#include "wire/iscsi/basic_header.h"

namespace weft::iscsi {

using wire::iscsi::AdditionalHeader;
using wire::iscsi::AdditionalHeaderType;
using wire::iscsi::DataIn;
using wire::iscsi::DataOut;
using wire::iscsi::kNoTag;
using wire::iscsi::R2t;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;

namespace {

constexpr std::size_t kCdbBytes = 16;      // of the basic header
constexpr std::size_t kMaxCdbBytes = 260;  // SPC-4 §4.2.3

// The CDB beyond its 16th octet (RFC 7143 §11.2.2.3), padded to 4 octets.
[[nodiscard]] std::vector<std::byte> extended_cdb(ByteSpan cdb) {
  const AdditionalHeader header{.length = static_cast<std::uint16_t>(cdb.size() - kCdbBytes + 1),
                                .type = AdditionalHeaderType::ExtendedCdb};
  const auto packed = wire::pack(header);
  std::vector<std::byte> octets(packed.begin(), packed.end());
  octets.push_back(std::byte{});
  octets.insert(octets.end(), cdb.begin() + kCdbBytes, cdb.end());
  octets.resize(octets.size() + wire::iscsi::padding_of(octets.size()));
  return octets;
}

[[nodiscard]] std::int64_t residual_of(bool overflow, bool underflow, std::uint32_t count) {
  return overflow ? -std::int64_t{count} : underflow ? std::int64_t{count} : 0;
}

}  // namespace

std::uint32_t InitiatorSession::next_tag() {
  for (;;) {
    const std::uint32_t tag = next_tag_++;
    if (tag != kNoTag && !tasks_.contains(tag) && !managements_.contains(tag)) {
      return tag;
    }
  }
}

InitiatorSession::Task* InitiatorSession::find_task(const Connection& on, std::uint32_t tag) {
  const auto found = tasks_.find(tag);
  return found == tasks_.end() || found->second.connection != &on ? nullptr : &found->second;
}

void InitiatorSession::submit(InitiatorCommand& command, Instant now) {
  WEFT_ASSERT(
      command.client != nullptr && !command.cdb.empty() && command.cdb.size() <= kMaxCdbBytes,
      "a command has a client and a CDB");
  WEFT_ASSERT(command.data_out.size() == 0 || command.data_in.size() == 0,
              "a command moves data one way");
  const bool waits = state_ == SessionState::Live || state_ == SessionState::Blocked ||
                     state_ == SessionState::Connecting;
  if (waits) {
    waiting_.push_back(&command);
    send_waiting(now);
  } else {
    end_command(&command, {.kind = InitiatorOutcome::Kind::NotSent});
  }
  tell_ended(now);
}

bool InitiatorSession::window_is_open() const {
  return !serial_before(max_cmd_sn_, cmd_sn_) || planted(PlantedBug::CommandWindowIgnored);
}

void InitiatorSession::send_waiting(Instant now) {
  while (state_ == SessionState::Live && logout_ == Logout::None && !leaving_ &&
         !waiting_.empty() && window_is_open() && tasks_.size() < options_.max_commands) {
    Connection* const on = pick();
    if (on == nullptr) {
      return;
    }
    InitiatorCommand* const command = waiting_.front();
    waiting_.pop_front();
    send_command(*command, *on, now);
  }
}

void InitiatorSession::send_command(InitiatorCommand& command, Connection& on, Instant now) {
  const std::uint32_t tag = next_tag();
  const auto [task, added] = tasks_.emplace(tag, Task{.command = &command,
                                                      .connection = &on,
                                                      .cid = on.cid,
                                                      .cmd_sn = cmd_sn_,
                                                      .deadline = now + options_.command_timeout});
  WEFT_ASSERT(added, "tags are new");
  ++on.tasks;
  ++cmd_sn_;
  send_task(tag, task->second);
}

// A command with what goes with it unasked; again, when it was lost (RFC 7143 §7.2.1).
void InitiatorSession::send_task(std::uint32_t tag, const Task& task) {
  const Connection& on = *task.connection;
  const InitiatorCommand& command = *task.command;
  const std::size_t total = command.data_out.size();
  const std::size_t segment = on.agreed.max_recv_data_segment_length;
  const std::size_t unsolicited = std::min<std::size_t>(total, agreed_.first_burst_length);
  const bool sends_data = !on.datamover->moves_data();
  const std::size_t immediate =
      sends_data && agreed_.immediate_data ? std::min(unsolicited, segment) : 0;
  const std::size_t follows = sends_data && !agreed_.initial_r2t ? unsolicited - immediate : 0;

  ScsiCommand header;
  header.final = follows == 0;
  header.read = command.data_in.size() != 0;
  header.write = total != 0;
  header.attribute = command.attribute;
  header.lun = command.lun;
  header.initiator_task_tag = tag;
  header.expected_data_transfer_length =
      static_cast<std::uint32_t>(std::max(total, command.data_in.size()));
  header.cmd_sn = task.cmd_sn;
  header.exp_stat_sn = on.statuses.expected();
  const ByteSpan cdb{command.cdb};
  std::ranges::copy(cdb.first(std::min(cdb.size(), kCdbBytes)), header.cdb.begin());
  OutgoingPdu pdu = immediate == 0 ? OutgoingPdu{header}
                                   : OutgoingPdu{header, command.data_out.part(0, immediate)};
  if (cdb.size() > kCdbBytes) {
    pdu.set_additional_headers(extended_cdb(cdb));
  }
  if (!sends_data) {
    on.datamover->send_command(std::move(pdu), command.data_out, command.data_in);
    return;
  }
  on.datamover->send_control(std::move(pdu));
  if (follows != 0) {
    send_data(task, tag, kNoTag, immediate, follows);
  }
}

void InitiatorSession::send_data(const Task& task, std::uint32_t tag, std::uint32_t transfer_tag,
                                 std::size_t offset, std::size_t bytes) {
  const Connection& on = *task.connection;
  const std::size_t end = offset + bytes;
  for (std::uint32_t data_sn = 0; offset < end; ++data_sn) {
    const std::size_t part =
        std::min<std::size_t>(on.agreed.max_recv_data_segment_length, end - offset);
    DataOut header;
    header.lun = task.command->lun;
    header.initiator_task_tag = tag;
    header.target_transfer_tag = transfer_tag;
    header.exp_stat_sn = on.statuses.expected();
    header.data_sn = data_sn;
    header.buffer_offset = static_cast<std::uint32_t>(offset);
    header.final = offset + part == end;
    const std::size_t from =
        planted(PlantedBug::RequestedOffsetIgnored) ? offset - (end - bytes) : offset;
    on.datamover->send_control(OutgoingPdu{header, task.command->data_out.part(from, part)});
    offset += part;
  }
}

void InitiatorSession::handle_r2t(Connection& on, const ReceivedPdu& pdu) {
  const auto request = pdu.as<R2t>();
  take_window(request);
  Task* const task = find_task(on, request.initiator_task_tag);
  if (task == nullptr) {
    return;  // of a command that was ended by a task management function
  }
  const std::size_t total = task->command->data_out.size();
  const bool fits =
      request.buffer_offset <= total && request.desired_length <= total - request.buffer_offset &&
      request.desired_length != 0 && request.desired_length <= agreed_.max_burst_length;
  const bool is_next = request.r2t_sn == task->next_r2t_sn;
  if (!fits || (!is_next && level() == 0) || request.target_transfer_tag == kNoTag) {
    drop(on, "an R2T is out of order, or for data that there is not");
    return;
  }
  if (serial_before(request.r2t_sn, task->next_r2t_sn)) {
    if (task->missing_r2ts.erase(request.r2t_sn) == 0) {
      return;  // it was answered
    }
  } else {
    ask_for_r2ts(on, request.initiator_task_tag, *task, request.r2t_sn);
    if (on.dropped) {
      return;
    }
  }
  send_data(*task, request.initiator_task_tag, request.target_transfer_tag, request.buffer_offset,
            request.desired_length);
}

void InitiatorSession::handle_data_in(Connection& on, const ReceivedPdu& pdu) {
  const auto header = pdu.as<DataIn>();
  const std::uint32_t tag = header.initiator_task_tag;
  Task* const task = find_task(on, tag);
  if (task == nullptr || level() == 0) {
    if (!take_numbers(on, header, header.has_status) || task == nullptr) {
      return;
    }
  }
  const MutableByteSpan buffer = task->command->data_in.octets();
  // DataPDUInOrder and DataSequenceInOrder are Yes, which is what this end offers.
  const bool is_next =
      header.data_sn == task->data_in.next() && header.buffer_offset == task->data_in.received();
  const bool fits = header.buffer_offset <= buffer.size() &&
                    pdu.data.size() <= buffer.size() - header.buffer_offset;
  if (!fits || (!is_next && level() == 0)) {
    drop(on, "Data-In is out of order, or more than was asked for");
    return;
  }
  switch (task->data_in.take(header.data_sn, header.buffer_offset, pdu.data.size())) {
    case DataInLedger::Verdict::Wrong:
      drop(on, "Data-In does not begin where the one before ends");
      return;
    case DataInLedger::Verdict::New:
      copy_bytes(buffer.subspan(planted(PlantedBug::DataInAtStart) ? 0 : header.buffer_offset),
                 pdu.data);
      break;
    case DataInLedger::Verdict::Again:
      break;
  }
  InitiatorOutcome outcome{
      .kind = InitiatorOutcome::Kind::Answered,
      .status = header.status,
      .residual = residual_of(header.overflow, header.underflow, header.residual)};
  if (level() == 0) {
    if (header.has_status) {
      finish(on, tag, std::move(outcome));
    }
    return;
  }
  if (header.acknowledge) {
    task->owed_acknowledgement = header.target_transfer_tag;
  }
  if (!header.has_status) {
    take_window(header);
  } else if (take_numbers(on, header, true, false)) {
    end_with(on, tag,
             {.outcome = std::move(outcome),
              .stat_sn = header.stat_sn,
              .data_in_count = header.data_sn + 1});
    return;
  }
  settle(on, tag);
}

void InitiatorSession::handle_scsi_response(Connection& on, const ReceivedPdu& pdu) {
  const auto header = pdu.as<ScsiResponse>();
  const std::uint32_t tag = header.initiator_task_tag;
  Task* const task = find_task(on, tag);
  const bool recovers = level() > 0 && task != nullptr;
  if (!take_numbers(on, header, true, !recovers) || task == nullptr) {
    return;
  }
  InitiatorOutcome outcome{
      .kind = InitiatorOutcome::Kind::Answered,
      .status = header.status,
      .residual = residual_of(header.overflow, header.underflow, header.residual)};
  if (header.response != 0) {  // RFC 7143 §11.4.3: target failure; there is no status
    outcome.kind = InitiatorOutcome::Kind::Interrupted;
  }
  if (pdu.data.size() >= 2) {  // SenseLength (RFC 7143 §11.4.7)
    const auto length = static_cast<std::size_t>(std::to_integer<unsigned>(pdu.data[0]) << 8 |
                                                 std::to_integer<unsigned>(pdu.data[1]));
    const ByteSpan sense = pdu.data.subspan(2, std::min(length, pdu.data.size() - 2));
    outcome.sense.assign(sense.begin(), sense.end());
  }
  if (on.datamover->moves_data()) {
    // What the residual leaves is there: it was placed before the response (RFC 7145 §7.3.6).
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(outcome.residual, 0));
    const std::size_t wanted = task->command->data_in.size();
    static_cast<void>(task->data_in.take(0, 0, wanted - std::min(left, wanted)));
  }
  if (!recovers) {
    finish(on, tag, std::move(outcome));
    return;
  }
  const bool reads = task->command->data_in.size() != 0;  // else ExpDataSN counts R2Ts
  end_with(on, tag,
           {.outcome = std::move(outcome),
            .stat_sn = header.stat_sn,
            .data_in_count = reads ? header.exp_data_sn : 0});
}

// A status has come; it counts when all data has, too (RFC 7143 §7.9).
void InitiatorSession::end_with(Connection& on, std::uint32_t tag, Ending ending) {
  Task& task = tasks_.at(tag);
  if (task.ending) {
    drop(on, "a command has two statuses");
    return;
  }
  task.data_in.expect(ending.data_in_count);
  task.ending = std::move(ending);
  settle(on, tag);
}

// Goes on with a command at level 1 and up, as far as what has come allows.
void InitiatorSession::settle(Connection& on, std::uint32_t tag) {
  Task& task = tasks_.at(tag);
  if (task.data_in.has_gap()) {
    ask_for_data(on, tag, task);
    return;
  }
  if (const auto transfer_tag = std::exchange(task.owed_acknowledgement, std::nullopt);
      transfer_tag && !task.ending) {  // that of the status will do, if it has come
    acknowledge_data(on, task, *transfer_tag);
  }
  if (task.ending) {
    finish(on, tag, InitiatorOutcome{task.ending->outcome});
  }
}

// Nothing is under way of it any more.
void InitiatorSession::release(const Task& task) {
  if (task.connection == nullptr) {
    return;
  }
  --task.connection->tasks;
  if (task.ending) {
    task.connection->statuses.settle(task.ending->stat_sn);
  }
}

// GOOD is believed if all data has come that the residual leaves.
void InitiatorSession::finish(Connection& on, std::uint32_t tag, InitiatorOutcome outcome) {
  const auto found = tasks_.find(tag);
  const Task& task = found->second;
  outcome.data_in_bytes = task.data_in.received();
  const std::size_t missing = task.command->data_in.size() - outcome.data_in_bytes;
  const auto left = static_cast<std::size_t>(std::max<std::int64_t>(outcome.residual, 0));
  if (outcome.is_good() && missing > left) {
    drop(on, "a status has come before its data");
    return;
  }
  release(task);
  end_command(task.command, std::move(outcome));
  tasks_.erase(found);
}

void InitiatorSession::abort(InitiatorCommand& command, Instant now) {
  if (std::erase(waiting_, &command) != 0) {
    end_command(&command, {.kind = InitiatorOutcome::Kind::Aborted});
    tell_ended(now);
    return;
  }
  const auto found = std::ranges::find_if(
      tasks_, [&](const auto& entry) { return entry.second.command == &command; });
  if (found == tasks_.end() || found->second.aborting) {
    return;  // its outcome is on its way
  }
  Task& task = found->second;
  task.aborting = true;
  if (task.connection != nullptr && task.connection->is_up()) {
    send_management({.function = wire::iscsi::TaskManagementFunction::AbortTask,
                     .lun = command.lun,
                     .referenced_tag = found->first,
                     .cmd_sn = task.cmd_sn},
                    *task.connection, now);
  }  // else when its connection is recovered
}

}  // namespace weft::iscsi
