// SCSI commands with their data, and what answers them (RFC 7143 §11.3, §11.4, §11.7, §11.8).

#include <algorithm>
#include <utility>

#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"
#include "wire/iscsi/basic_header.h"

namespace weft::iscsi {

using wire::iscsi::AdditionalHeader;
using wire::iscsi::AdditionalHeaderType;
using wire::iscsi::DataIn;
using wire::iscsi::DataOut;
using wire::iscsi::R2t;
using wire::iscsi::RejectReason;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;

namespace {

// Sense that iSCSI itself reports, with ABORTED COMMAND (RFC 7143 §11.4.7.2).
constexpr std::uint16_t kUnexpectedUnsolicitedData = 0x0C0C;
constexpr std::uint16_t kIncorrectAmountOfData = 0x0C0D;
constexpr std::uint16_t kProtocolServiceCrcError = 0x4705;

[[nodiscard]] scsi::Completion aborted_command(std::uint16_t sense_code) {
  const scsi::Sense sense{.key = scsi::SenseKey::AbortedCommand,
                          .code = static_cast<scsi::SenseCode>(sense_code)};
  return {
      .status = scsi::Status::CheckCondition,
      .sense = scsi::SenseData{sense, scsi::SenseData::Format::Fixed}
  };
}

[[nodiscard]] std::vector<std::byte> with_sense_length(ByteSpan sense) {
  std::vector<std::byte> data;
  if (!sense.empty()) {
    data.push_back(static_cast<std::byte>(sense.size() >> 8));
    data.push_back(static_cast<std::byte>(sense.size() & 0xFF));
    data.insert(data.end(), sense.begin(), sense.end());
  }
  return data;
}

struct Residual {
  bool overflow{};
  bool underflow{};
  std::uint32_t count{};
};

[[nodiscard]] Residual residual_of(const TargetTask& task) {
  const std::int64_t residual = task.completion.residual;
  return {.overflow = residual < 0,
          .underflow = residual > 0,
          .count = static_cast<std::uint32_t>(residual < 0 ? -residual : residual)};
}

}  // namespace

bool TargetConnection::take_additional_headers(const ReceivedPdu& pdu, TargetTask& task) const {
  task.cdb.assign(task.header.cdb.begin(), task.header.cdb.end());
  for (ByteSpan rest = pdu.additional_headers; !rest.empty();) {
    const auto header = wire::parse<AdditionalHeader>(rest);
    constexpr std::size_t kFixed = wire::kSizeOf<AdditionalHeader>;
    if (!header || header->length == 0 || header->length > rest.size() - kFixed) {
      return false;
    }
    const ByteSpan body = rest.subspan(kFixed, header->length);  // a reserved octet first
    if (header->type == AdditionalHeaderType::ExtendedCdb) {
      task.cdb.insert(task.cdb.end(), body.begin() + 1, body.end());
    } else if (header->type == AdditionalHeaderType::BidirectionalReadLength && body.size() == 5) {
      task.read_length = static_cast<std::uint32_t>(wire::internal::read_bits(body.data(), 8, 32));
    } else {
      return false;
    }
    const std::size_t whole = kFixed + header->length;
    rest = rest.subspan(std::min(rest.size(), whole + wire::iscsi::padding_of(whole)));
  }
  return true;
}

void TargetConnection::handle_command(const ReceivedPdu& pdu, Instant now) {
  const auto header = pdu.as<ScsiCommand>();
  if (!header.immediate && !session_->is_welcome(header.cmd_sn)) {
    return;  // RFC 7143 §4.2.2.1: silently
  }
  if (session_->find_task(header.initiator_task_tag) != nullptr) {
    reject(pdu, RejectReason::TaskInProgress);
    return;
  }
  if (header.immediate && session_->immediate_tasks() >= server_.options_.max_immediate_tasks) {
    reject(pdu, RejectReason::TooManyImmediateCommands);
    return;
  }
  const auto task = std::make_shared<TargetTask>();
  task->session = session_;
  task->connection = this;
  task->cid = cid_;
  task->completions = server_.completions_;
  task->hold = datamover_.command_hold();
  task->header = header;
  task->read_length = header.read && !header.write ? header.expected_data_transfer_length : 0;
  task->write_length = header.write ? header.expected_data_transfer_length : 0;
  const std::uint32_t limit = static_cast<std::uint32_t>(server_.options_.max_transfer_bytes);
  if (!take_additional_headers(pdu, *task) || (!header.write && !pdu.data.empty()) ||
      header.initiator_task_tag == wire::iscsi::kNoTag) {
    reject(pdu, RejectReason::InvalidPduField);
    return;
  }
  const Parameters& agreed = session_->parameters();
  const std::size_t most_unsolicited =
      std::min<std::size_t>(agreed.first_burst_length, task->write_length);
  const bool announces_data = header.write && !header.final;
  const bool is_unexpected = (!pdu.data.empty() && !agreed.immediate_data) ||
                             pdu.data.size() > most_unsolicited ||
                             (announces_data && agreed.initial_r2t);
  session_->add_task(task);
  if (is_unexpected) {
    session_->refuse(task, aborted_command(kUnexpectedUnsolicitedData), now);
  } else if (task->write_length > limit) {
    session_->refuse(task, {.status = scsi::Status::TaskSetFull}, now);
  } else {
    begin_data(*task, pdu);
  }
  if (header.immediate) {
    session_->begin_turn(task, now);
  } else {
    session_->take(header.cmd_sn,
                   HeldRequest{.connection = this, .task = task, .header = {}, .data = {}}, now);
  }
  request_data(task, now);
}

void TargetConnection::begin_data(TargetTask& task, const ReceivedPdu& pdu) const {
  Parameters agreed = session_->parameters();
  choose_protection(task, pdu);
  if (task.protection) {
    const std::size_t bytes = task.protection->block_bytes();
    task.data_out = SharedBuffer{task.protection->writes ? bytes : 0};
    task.data_in = SharedBuffer{task.protection->writes ? 0 : bytes};
    task.tuples = SharedBuffer{task.protection->tuple_bytes()};
    agreed.max_burst_length = task.write_length;  // in one: bursts would divide blocks
  } else {
    const auto limit = static_cast<std::uint32_t>(server_.options_.max_transfer_bytes);
    task.data_out = SharedBuffer{task.write_length};
    task.data_in = server_.buffers_.take(std::min(task.read_length, limit));
    copy_bytes(task.data_out.octets(), pdu.data);
  }
  const std::size_t most_unsolicited =
      std::min<std::size_t>(agreed.first_burst_length, task.write_length);
  const bool announces_data = task.header.write && !task.header.final;
  task.writes.emplace(task.write_length, pdu.data.size(),
                      announces_data && pdu.data.size() < most_unsolicited, agreed);
}

// R-IST-4: the adapter moves all data of the command at once, no more and no less than its CDB
// says; of any other command the disk takes the tuples off and puts them on.
void TargetConnection::choose_protection(TargetTask& task, const ReceivedPdu& pdu) const {
  const std::size_t most = datamover_.max_protected_bytes();
  const SessionIdentity& identity = session_->identity();
  const bool goes_one_way = task.header.write != task.header.read;
  if (most == 0 || identity.scsi == nullptr || !goes_one_way || !pdu.data.empty() ||
      (task.header.write && !task.header.final)) {
    return;
  }
  const auto how = identity.scsi->protection_of(task.lun(), task.cdb);
  if (how && how->blocks != 0 && how->writes == task.header.write && how->block_bytes() <= most &&
      how->transfer_bytes() == task.header.expected_data_transfer_length) {
    task.protection = how;
  }
}

void TargetConnection::request_data(const std::shared_ptr<TargetTask>& task, Instant now) {
  if (task->session == nullptr || task->state != TargetTask::State::Collecting || task->aborted) {
    return;
  }
  if (task->writes->is_complete()) {
    task->data_deadline = Instant::never();
    session_->deliver();
    return;
  }
  if (recovery_level() > 0) {
    task->data_deadline = now + server_.options_.data_timeout;
  }
  while (const auto wanted = task->writes->next_request(session_->next_transfer_tag())) {
    send_r2t(*task, *wanted);
  }
}

void TargetConnection::send_r2t(const TargetTask& task, const DataRequest& wanted) {
  R2t request;
  request.lun = task.lun();
  request.initiator_task_tag = task.tag();
  request.target_transfer_tag = wanted.target_transfer_tag;
  request.r2t_sn = wanted.r2t_sn;
  request.buffer_offset = static_cast<std::uint32_t>(wanted.offset);
  request.desired_length = static_cast<std::uint32_t>(wanted.bytes);
  number(request);
  if (task.protection) {
    datamover_.get_protected_data(
        OutgoingPdu{request},
        {.how = *task.protection, .blocks = task.data_out, .tuples = task.tuples});
    return;
  }
  datamover_.get_data(OutgoingPdu{request},
                      task.data_out.octets().subspan(wanted.offset, wanted.bytes));
}

void TargetConnection::handle_data_out(const ReceivedPdu& pdu, Instant now) {
  const auto header = pdu.as<DataOut>();
  const std::shared_ptr<TargetTask> task = session_->find_task(header.initiator_task_tag);
  if (task == nullptr || task->state != TargetTask::State::Collecting || task->aborted ||
      task->connection != this) {
    return;  // of a task that was aborted or refused (RFC 7143 §11.5.1)
  }
  const DataOutVerdict verdict =
      task->writes->take({.target_transfer_tag = header.target_transfer_tag,
                          .data_sn = header.data_sn,
                          .offset = header.buffer_offset,
                          .bytes = pdu.data.size(),
                          .final = header.final,
                          .damaged = pdu.data_is_damaged});
  if (pdu.data_is_damaged) {
    reject(pdu, RejectReason::DataDigestError);
  }
  switch (verdict) {
    case DataOutVerdict::Stored:
      copy_bytes(task->data_out.octets().subspan(header.buffer_offset), pdu.data);
      break;
    case DataOutVerdict::Discarded:
      break;
    case DataOutVerdict::Unexpected:
      session_->refuse(task, aborted_command(kUnexpectedUnsolicitedData), now);
      return;
    case DataOutVerdict::Incorrect:
      session_->refuse(
          task,
          aborted_command(pdu.data_is_damaged ? kProtocolServiceCrcError : kIncorrectAmountOfData),
          now);
      return;
  }
  request_data(task, now);
}

void TargetConnection::handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) {
  if (phase_ != Phase::FullFeature) {
    return;
  }
  server_.completions_->begin();
  for (const auto& [tag, task] : session_->tasks()) {
    if (task->connection == this && task->state == TargetTask::State::Collecting && task->writes &&
        task->writes->take_fetched(target_transfer_tag)) {
      const std::shared_ptr<TargetTask> found = task;
      request_data(found, now);
      break;
    }
  }
  server_.drain(now);
}

std::shared_ptr<TargetTask> TargetConnection::find_protected(std::uint32_t tag) const {
  const auto task = phase_ == Phase::FullFeature ? session_->find_task(tag) : nullptr;
  return task != nullptr && task->connection == this && task->protection ? task : nullptr;
}

void TargetConnection::handle_protection_error(std::uint32_t initiator_task_tag,
                                               const scsi::ProtectionError& error) {
  if (const auto task = find_protected(initiator_task_tag)) {
    task->protection_error = error;  // of what was written it is the disk that ends the command
  }
}

void TargetConnection::put_protected(TargetTask& task) {
  DataIn header;
  number(header);
  header.lun = task.lun();
  header.initiator_task_tag = task.tag();
  header.final = true;
  header.stat_sn = 0;
  task.data_in_count = 1;
  task.awaits_put = true;
  datamover_.put_protected_data(
      OutgoingPdu{header},
      {.how = *task.protection, .blocks = task.data_in, .tuples = task.tuples});
}

void TargetConnection::handle_data_put(std::uint32_t initiator_task_tag, Instant now) {
  const auto task = find_protected(initiator_task_tag);
  if (task == nullptr || !std::exchange(task->awaits_put, false)) {
    return;  // it was aborted meanwhile
  }
  if (task->protection_error) {
    task->completion = session_->identity().scsi->failed_check(task->lun(), *task->protection,
                                                               *task->protection_error);
  }
  send_scsi_response(task, now);
}

void TargetConnection::answer(const std::shared_ptr<TargetTask>& task, Instant now) {
  scsi::Completion& ended = task->completion;
  if (task->protection) {
    if (ended.residual != 0) {  // it failed before it moved anything; in octets of the transfer
      ended.residual = task->header.expected_data_transfer_length;
    }
    if (ended.data_in_bytes != 0) {
      put_protected(*task);
    } else {
      send_scsi_response(task, now);
    }
    return;
  }
  task->was_answered = true;
  const std::size_t beyond = task->read_length - task->data_in.size();
  ended.residual += static_cast<std::int64_t>(beyond);  // expected, but more than any command moves
  const bool has_data = ended.data_in_bytes != 0;
  const DataInPlan plan{ended.data_in_bytes, session_->parameters().max_burst_length,
                        parameters_.max_recv_data_segment_length};
  task->data_in_count = has_data ? plan.count() : 0;
  if (has_data) {
    task->collect_read_data();
    send_data_in(*task, 0, task->data_in_count);
  }
  const bool status_went = has_data && ended.status == scsi::Status::Good &&
                           ended.sense.octets().empty() && !task->header.write;
  if (!status_went) {
    send_scsi_response(task, now);
    return;
  }
  if (recovery_level() == 0) {
    session_->remove_task(task->tag());
  }
}

void TargetConnection::send_data_in(TargetTask& task, std::uint32_t begin, std::uint32_t count) {
  const scsi::Completion& ended = task.completion;
  const DataInPlan plan{ended.data_in_bytes, session_->parameters().max_burst_length,
                        parameters_.max_recv_data_segment_length};
  const bool takes_status =
      ended.status == scsi::Status::Good && ended.sense.octets().empty() && !task.header.write;
  const Residual residual = residual_of(task);
  plan.for_each([&](const DataInPart& part) {
    if (part.data_sn - begin >= count) {
      return;
    }
    DataIn header;
    number(header);
    header.lun = task.lun();
    header.initiator_task_tag = task.tag();
    header.data_sn = part.data_sn;
    header.buffer_offset = static_cast<std::uint32_t>(part.offset);
    header.final = part.final;
    header.has_status = part.last && takes_status;
    if (recovery_level() > 0 && part.final) {  // RFC 7143 §11.7.2
      header.acknowledge = true;
      header.target_transfer_tag = session_->next_transfer_tag();
    }
    if (!header.has_status) {
      header.stat_sn = 0;
      datamover_.put_data(OutgoingPdu{header, task.read_data.subspan(part.offset, part.bytes)});
      return;
    }
    header.overflow = residual.overflow;
    header.underflow = residual.underflow;
    header.residual = residual.count;
    const bool is_new = !task.stat_sn.has_value();
    header.stat_sn = task.stat_sn.value_or(stat_sn_);
    OutgoingPdu pdu{header, task.read_data.subspan(part.offset, part.bytes)};
    if (is_new) {
      task.stat_sn = stat_sn_++;
      if (recovery_level() > 0) {
        sent_.push_back({.stat_sn = header.stat_sn, .pdu = pdu, .task = task.shared_from_this()});
      }
    }
    datamover_.put_data(std::move(pdu));
  });
}

void TargetConnection::send_scsi_response(const std::shared_ptr<TargetTask>& task,
                                          Instant /*now*/) {
  const scsi::Completion& ended = task->completion;
  task->was_answered = true;
  const Residual residual = residual_of(*task);
  ScsiResponse response;
  response.initiator_task_tag = task->tag();
  response.status = static_cast<std::uint8_t>(ended.status);
  response.exp_data_sn = task->data_in_count + (task->writes ? task->writes->r2t_count() : 0);
  response.overflow = residual.overflow;
  response.underflow = residual.underflow;
  response.residual = residual.count;
  if (recovery_level() == 0) {
    session_->remove_task(task->tag());  // before, so that MaxCmdSN says that there is room
  }
  task->stat_sn = send_status(response, with_sense_length(ended.sense.octets()), task);
}

}  // namespace weft::iscsi
