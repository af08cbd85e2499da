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
  while (state_ == SessionState::Live && logout_ == Logout::None && datamover_ != nullptr &&
         !dropped_ && !waiting_.empty() && window_is_open() &&
         tasks_.size() < options_.max_commands) {
    InitiatorCommand* const command = waiting_.front();
    waiting_.pop_front();
    send_command(*command, now);
  }
}

void InitiatorSession::send_command(InitiatorCommand& command, Instant now) {
  const std::uint32_t tag = next_tag();
  const std::size_t total = command.data_out.size();
  const std::size_t segment = agreed_.max_recv_data_segment_length;
  const std::size_t unsolicited = std::min<std::size_t>(total, agreed_.first_burst_length);
  const bool sends_data = !datamover_->moves_data();
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
  header.cmd_sn = cmd_sn_;
  header.exp_stat_sn = exp_stat_sn_;
  const ByteSpan cdb{command.cdb};
  std::ranges::copy(cdb.first(std::min(cdb.size(), kCdbBytes)), header.cdb.begin());
  OutgoingPdu pdu =
      immediate == 0 ? OutgoingPdu{header} : OutgoingPdu{header, command.data_out, 0, immediate};
  if (cdb.size() > kCdbBytes) {
    pdu.set_additional_headers(extended_cdb(cdb));
  }
  const auto [task, added] = tasks_.emplace(
      tag,
      Task{.command = &command, .cmd_sn = cmd_sn_, .deadline = now + options_.command_timeout});
  WEFT_ASSERT(added, "tags are new");
  ++cmd_sn_;
  if (!sends_data) {
    datamover_->send_command(std::move(pdu), command.data_out, command.data_in);
    return;
  }
  datamover_->send_control(std::move(pdu));
  if (follows != 0) {
    send_data(task->second, tag, kNoTag, immediate, follows);
  }
}

void InitiatorSession::send_data(const Task& task, std::uint32_t tag, std::uint32_t transfer_tag,
                                 std::size_t offset, std::size_t bytes) {
  const std::size_t end = offset + bytes;
  for (std::uint32_t data_sn = 0; offset < end; ++data_sn) {
    const std::size_t part =
        std::min<std::size_t>(agreed_.max_recv_data_segment_length, end - offset);
    DataOut header;
    header.lun = task.command->lun;
    header.initiator_task_tag = tag;
    header.target_transfer_tag = transfer_tag;
    header.exp_stat_sn = exp_stat_sn_;
    header.data_sn = data_sn;
    header.buffer_offset = static_cast<std::uint32_t>(offset);
    header.final = offset + part == end;
    const std::size_t from =
        planted(PlantedBug::RequestedOffsetIgnored) ? offset - (end - bytes) : offset;
    datamover_->send_control(OutgoingPdu{header, task.command->data_out, from, part});
    offset += part;
  }
}

void InitiatorSession::handle_r2t(const ReceivedPdu& pdu) {
  const auto request = pdu.as<R2t>();
  if (!take_numbers(request, false)) {
    return;
  }
  const auto found = tasks_.find(request.initiator_task_tag);
  if (found == tasks_.end()) {
    return;  // of a command that was ended by a task management function
  }
  Task& task = found->second;
  const std::size_t total = task.command->data_out.size();
  const bool fits =
      request.buffer_offset <= total && request.desired_length <= total - request.buffer_offset &&
      request.desired_length != 0 && request.desired_length <= agreed_.max_burst_length;
  if (!fits || request.r2t_sn != task.next_r2t_sn || request.target_transfer_tag == kNoTag) {
    drop("an R2T is out of order, or for data that there is not");
    return;
  }
  ++task.next_r2t_sn;
  send_data(task, request.initiator_task_tag, request.target_transfer_tag, request.buffer_offset,
            request.desired_length);
}

void InitiatorSession::handle_data_in(const ReceivedPdu& pdu) {
  const auto header = pdu.as<DataIn>();
  if (!take_numbers(header, header.has_status)) {
    return;
  }
  const auto found = tasks_.find(header.initiator_task_tag);
  if (found == tasks_.end()) {
    return;
  }
  Task& task = found->second;
  const MutableByteSpan buffer = task.command->data_in.octets();
  // DataPDUInOrder and DataSequenceInOrder are Yes, which is what this end offers.
  if (header.data_sn != task.data_in_count || header.buffer_offset != task.received ||
      pdu.data.size() > buffer.size() - task.received) {
    drop("Data-In is out of order, or more than was asked for");
    return;
  }
  const std::size_t place = planted(PlantedBug::DataInAtStart) ? 0 : task.received;
  copy_bytes(buffer.subspan(place), pdu.data);
  ++task.data_in_count;
  task.received += pdu.data.size();
  if (header.has_status) {
    finish(header.initiator_task_tag,
           {.kind = InitiatorOutcome::Kind::Answered,
            .status = header.status,
            .residual = residual_of(header.overflow, header.underflow, header.residual)});
  }
}

void InitiatorSession::handle_scsi_response(const ReceivedPdu& pdu) {
  const auto header = pdu.as<ScsiResponse>();
  if (!take_numbers(header, true)) {
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
  if (const auto found = tasks_.find(header.initiator_task_tag);
      found != tasks_.end() && datamover_->moves_data()) {
    // What the residual leaves is there: it was placed before the response (RFC 7145 §7.3.6).
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(outcome.residual, 0));
    const std::size_t wanted = found->second.command->data_in.size();
    found->second.received = wanted - std::min(left, wanted);
  }
  finish(header.initiator_task_tag, std::move(outcome));
}

// GOOD is believed if all data has come that the residual leaves.
void InitiatorSession::finish(std::uint32_t tag, InitiatorOutcome outcome) {
  const auto found = tasks_.find(tag);
  if (found == tasks_.end()) {
    return;  // ended by a task management function
  }
  const Task task = found->second;
  outcome.data_in_bytes = task.received;
  const std::size_t wanted = task.command->data_in.size();
  const std::size_t missing = wanted - task.received;
  const auto left = static_cast<std::size_t>(std::max<std::int64_t>(outcome.residual, 0));
  if (outcome.is_good() && missing > left) {
    drop("a status has come before its data");
    return;
  }
  tasks_.erase(found);
  end_command(task.command, std::move(outcome));
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
  found->second.aborting = true;
  send_management({.function = wire::iscsi::TaskManagementFunction::AbortTask,
                   .lun = command.lun,
                   .referenced_tag = found->first,
                   .cmd_sn = found->second.cmd_sn,
                   .deadline = {},
                   .handler = {}},
                  now);
}

}  // namespace weft::iscsi
