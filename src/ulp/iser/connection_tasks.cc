// What a connection sends and receives for tasks (R-ISER-13 to 19, 22).

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/planted_bug.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/login.h"

namespace weft::iser {

using wire::iscsi::Opcode;

namespace {

constexpr std::size_t kOut = 0;
constexpr std::size_t kIn = 1;

[[nodiscard]] std::uint64_t bytes_of(std::span<const core::ScatterEntry> list) {
  std::uint64_t bytes = 0;
  for (const core::ScatterEntry& entry : list) {
    bytes += entry.length;
  }
  return bytes;
}

}  // namespace

Result<void> Connection::initialise_task_headers(TransmitDescriptor& descriptor) {
  if (state_ != ConnectionState::Up || mapper_ == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "the connection is {}: tasks go over another one",
                name_of(state_));
  }
  return mapper_->map(descriptor);
}

Result<void> Connection::initialise_task(Task& task) {
  if (task.descriptor == nullptr) {
    task.descriptor = descriptors_.take();
  }
  if (auto mapped = initialise_task_headers(*task.descriptor); !mapped) {
    return mapped;
  }
  if (!task.has_allocated_pdu) {
    return {};
  }
  const ByteSpan headers = task.allocated_headers();
  const auto basic = headers.first<wire::iscsi::kHeaderBytes>();
  if (wire::unpack<wire::iscsi::BasicHeader>(basic).opcode == Opcode::ScsiCommand) {
    task.command = wire::unpack<wire::iscsi::ScsiCommand>(basic);
  }
  const ByteSpan additional = headers.subspan(wire::iscsi::kHeaderBytes);
  task.additional_headers = {additional.begin(), additional.end()};
  return {};
}

Result<void> Connection::transmit(Task& task) {
  if (state_ != ConnectionState::Up) {
    return fail(ErrorCode::NoSuchDevice, "the connection is {}", name_of(state_));
  }
  if (task.descriptor == nullptr || !task.descriptor->is_mapped()) {
    if (auto ready = initialise_task(task); !ready) {
      return ready;
    }
  }
  if (!task.is_sent) {
    if (auto sent = send_command(task); !sent) {
      return sent;
    }
  }
  while (task.sent_unsolicited < task.plan.total() && !task.is_answered) {
    if (auto sent = send_data_out(task); !sent) {
      return sent;
    }
  }
  return {};
}

Result<Registration> Connection::register_side(Task& task, bool target_writes,
                                               SendRequests& requests) {
  const auto& list = target_writes ? task.data_in : task.data_out;
  auto registration = task.protection ? pool_->map_protected(list, *task.protection)
                                      : pool_->map(list, target_writes);
  if (registration && registration->needs_request) {
    auto request = channel_->sends().take();
    request->wr = RegistrationPool::show_request(*registration, target_writes);
    requests.push_back(std::move(request));
  }
  return registration;
}

// The task's memory from `offset` on, behind the header. A copy, since the HCA may send it again
// after the response has come, when the memory is its owner's.
void Connection::append_data(SendRequest& request, Task& task, std::uint32_t offset,
                             std::uint32_t bytes) {
  for (const core::ScatterEntry& entry : task.data_out) {
    if (offset >= entry.length) {
      offset -= entry.length;
      continue;
    }
    const std::uint32_t part = std::min(bytes, entry.length - offset);
    const ByteSpan from{std::bit_cast<const std::byte*>(entry.address + offset), part};
    request.octets.insert(request.octets.end(), from.begin(), from.end());
    bytes -= part;
    offset = 0;
    if (bytes == 0) {
      break;
    }
  }
  if (!request.octets.empty()) {
    request.sges.push_back(channel_->sge_of(request.octets));
  }
}

Result<void> Connection::check_room(const Task& task) const {
  if (awaits_hello_reply_) {
    return fail(ErrorCode::TryAgain, "the target has not replied to the Hello yet");
  }
  const std::uint32_t tag = task.command.initiator_task_tag;
  if (tasks_.size() >= options_.max_commands) {
    return fail(ErrorCode::TryAgain, "{} commands are under way, as many as may", tasks_.size());
  }
  if (tasks_.contains(tag)) {
    return fail(ErrorCode::Exists, "a command with Initiator Task Tag {:#x} is under way", tag);
  }
  if (channel_->sends().room() < 5 + reserved_sends()) {
    return fail(ErrorCode::TryAgain, "no room for a command and its registrations");
  }
  if (bytes_of(task.data_out) > options_.max_transfer_bytes ||
      bytes_of(task.data_in) > options_.max_transfer_bytes) {
    return fail(ErrorCode::InvalidArgument, "a command moves at most {} bytes each way",
                options_.max_transfer_bytes);
  }
  if (task.protection && task.data_in.empty() == task.data_out.empty()) {
    return fail(ErrorCode::InvalidArgument, "protection is of data that goes one way");
  }
  return {};
}

// Both sides, as far as the target is to reach them; the keys as the iSER header has them.
Result<wire::iser::ControlHeader> Connection::register_data(Task& task, SendRequests& requests) {
  wire::iser::ControlHeader header;
  if (task.plan.total() < bytes_of(task.data_out)) {
    const auto made = register_side(task, false, requests);
    if (!made) {
      return std::unexpected(made.error());
    }
    task.registrations[kOut] = *made;
    header.has_write_stag = true;
    header.write_stag = made->rkey.value();
    // Past what goes unsolicited, as Linux: the target adds nothing.
    header.write_base_offset =
        made->address + (planted(PlantedBug::UnsolicitedNotPassed) ? 0 : task.plan.total());
  }
  if (!task.data_in.empty()) {
    const auto made = register_side(task, true, requests);
    if (!made) {
      release_registrations(task);
      return std::unexpected(made.error());
    }
    task.registrations[kIn] = *made;
    header.has_read_stag = true;
    header.read_stag = made->rkey.value();
    header.read_base_offset = made->address;
  }
  return header;
}

Result<void> Connection::send_command(Task& task) {
  if (auto checked = check_room(task); !checked) {
    return checked;
  }
  wire::iscsi::ScsiCommand& command = task.command;
  const auto write_bytes = static_cast<std::uint32_t>(bytes_of(task.data_out));
  const auto read_bytes = static_cast<std::uint32_t>(bytes_of(task.data_in));
  const std::uint32_t data_bytes = write_bytes != 0 ? write_bytes : read_bytes;
  // Tuples are made and checked in a region: the target fetches all of what has them.
  task.plan = task.protection ? UnsolicitedPlan{} : UnsolicitedPlan{write_bytes, agreed_};
  command.write = write_bytes != 0;
  command.read = read_bytes != 0;
  command.final = task.plan.data_out_bytes == 0;
  command.expected_data_transfer_length =
      task.protection ? static_cast<std::uint32_t>(wire_bytes_of(*task.protection, data_bytes))
                      : data_bytes;
  SendRequests requests;
  const auto header = register_data(task, requests);
  if (!header) {
    return std::unexpected(header.error());
  }
  iscsi::OutgoingPdu pdu{command};
  pdu.set_additional_headers(task.additional_headers);
  auto basic = pdu.as<wire::iscsi::ScsiCommand>();
  basic.data_segment_length = task.plan.immediate_bytes;
  pdu.set_header(basic);
  auto request = channel_->sends().take();
  request->wr.opcode = verbs::WrOpcode::Send;
  request->descriptor = task.descriptor;
  request->sges.push_back(channel_->sge_of(task.descriptor->store(to_message(*header, pdu))));
  append_data(*request, task, 0, task.plan.immediate_bytes);
  requests.push_back(std::move(request));
  if (auto posted = channel_->sends().post(std::move(requests)); !posted) {
    release_registrations(task);
    apply(ConnectionEvent::Terminate, posted.error().reason);
    return posted;
  }
  for (std::optional<Registration>& registration : task.registrations) {
    if (registration) {
      registration->is_visible = registration->needs_request;
    }
  }
  task.is_sent = true;
  task.sent_unsolicited = task.plan.immediate_bytes;
  tasks_.emplace(command.initiator_task_tag, &task);
  return {};
}

Result<void> Connection::send_data_out(Task& task) {
  const std::uint32_t bytes =
      std::min(task.plan.total() - task.sent_unsolicited, agreed_.max_send_segment_bytes);
  wire::iscsi::DataOut header;
  header.lun = task.command.lun;
  header.initiator_task_tag = task.command.initiator_task_tag;
  header.exp_stat_sn = task.command.exp_stat_sn;
  header.data_sn = task.data_sn;
  header.buffer_offset = task.sent_unsolicited;
  header.final = task.sent_unsolicited + bytes == task.plan.total();
  iscsi::OutgoingPdu pdu{header};
  header.data_segment_length = bytes;
  pdu.set_header(header);
  auto request = channel_->make_send(to_message({}, pdu));
  request->sges.clear();  // header and data are one piece
  append_data(*request, task,
              planted(PlantedBug::UnsolicitedOffsetIgnored) ? 0 : task.sent_unsolicited, bytes);
  request->must_signal = true;
  if (channel_->sends().room() <= reserved_sends()) {
    return fail(ErrorCode::TryAgain, "no room for Data-Out in the send queue");
  }
  SendRequests requests;
  requests.push_back(std::move(request));
  auto posted = channel_->sends().post(std::move(requests));
  if (posted) {
    ++task.data_sn;
    task.sent_unsolicited += bytes;
  }
  return posted;
}

Result<void> Connection::transmit_management(Task& task) {
  if (auto ready = initialise_task(task); !ready) {
    return ready;
  }
  if (!task.has_allocated_pdu) {
    return fail(ErrorCode::InvalidArgument, "a management task has its PDU in allocate_pdu()");
  }
  const ByteSpan headers = task.allocated_headers();
  iscsi::HeaderOctets header{};
  std::ranges::copy(headers.first(header.size()), header.begin());
  const iscsi::OutgoingPdu pdu{header, task.additional_headers, task.management_data};
  if (pdu.basic_header().opcode == Opcode::ScsiCommand) {
    return fail(ErrorCode::InvalidArgument, "a SCSI command goes by transmit()");
  }
  auto sent = send_control(pdu);
  task.is_sent = sent.has_value();
  return sent;
}

Result<void> Connection::send_control(const iscsi::OutgoingPdu& pdu) {
  if (state_ != ConnectionState::Up) {
    return fail(ErrorCode::NoSuchDevice, "the connection is {}", name_of(state_));
  }
  if (awaits_hello_reply_ || channel_->sends().room() <= reserved_sends()) {
    return fail(ErrorCode::TryAgain, "no room in the send queue, or no reply to the Hello yet");
  }
  if (pdu.basic_header().opcode == Opcode::LoginRequest) {
    // The answer's place; further PDUs have theirs when login has ended.
    if (auto posted = channel_->post_single(wire::iser::kAllHeaderBytes + kLoginBytes); !posted) {
      return posted;
    }
  }
  auto request = channel_->make_send(to_message({}, pdu));
  request->must_signal = true;
  SendRequests requests;
  requests.push_back(std::move(request));
  return channel_->sends().post(std::move(requests));
}

void Connection::handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                                std::optional<RKey> invalidated) {
  if (state_ != ConnectionState::Up) {
    return;
  }
  const auto message = parse_message(octets);
  if (!message) {
    apply(ConnectionEvent::Terminate, message.error().reason);
    return;
  }
  if (const auto* const reply = std::get_if<wire::iser::HelloReply>(&*message)) {
    channel_->give_back(buffer);
    take_hello_reply(*reply);
    return;
  }
  const auto* const control = std::get_if<ControlMessage>(&*message);
  if (control == nullptr || awaits_hello_reply_) {
    apply(ConnectionEvent::Terminate,
          control == nullptr ? "a Hello to an initiator" : "a PDU where the reply to Hello is due");
    return;
  }
  const auto basic = control->pdu.basic_header();
  Task* task = nullptr;
  if (basic.opcode == Opcode::ScsiResponse) {
    const auto found = tasks_.find(basic.initiator_task_tag);
    task = found != tasks_.end() ? found->second : nullptr;
  }
  if (!take_invalidation(task, invalidated)) {
    apply(ConnectionEvent::Terminate,
          "the target has invalidated a key that is none of the task's");
    return;
  }
  if (task != nullptr) {
    task->is_answered = true;
    hide(*task);
  }
  if (basic.opcode == Opcode::LoginResponse && !is_full_feature_) {
    const auto response = control->pdu.as<wire::iscsi::LoginResponse>();
    if (response.transit && response.next_stage == wire::iscsi::LoginStage::FullFeature &&
        response.status == wire::iscsi::LoginStatus::Success) {
      if (const auto begun = begin_full_feature(); !begun) {
        apply(ConnectionEvent::Terminate, begun.error().reason);
        return;
      }
    }
  }
  arrivals_.push_back({.buffer = &buffer, .message = *control, .task = task});
  deliver();
}

Result<void> Connection::begin_full_feature() {
  is_full_feature_ = true;
  if (auto opened = channel_->open_ring(2 * std::bit_ceil(options_.max_commands),
                                        wire::iser::kAllHeaderBytes + options_.receive_data_bytes);
      !opened) {
    return opened;
  }
  return {};
}

// False: it is a key that the target had no right to (R-ISER-22).
bool Connection::take_invalidation(Task* task, std::optional<RKey> invalidated) {
  if (!invalidated) {
    return true;
  }
  if (!remote_invalidation_ || task == nullptr) {
    return false;
  }
  for (std::optional<Registration>& registration : task->registrations) {
    if (registration && registration->is_visible && registration->rkey == *invalidated) {
      registration->is_visible = false;
      return true;
    }
  }
  return false;
}

// Keys that the target has left valid end before anybody hears of the response.
void Connection::hide(Task& task) {
  SendRequests requests;
  for (const std::optional<Registration>& registration : task.registrations) {
    if (registration && registration->is_visible) {
      auto request = channel_->sends().take();
      request->wr = RegistrationPool::hide_request(*registration);
      request->must_signal = true;
      request->done = [&task](verbs::WcStatus /*status*/) { --task.pending; };
      requests.push_back(std::move(request));
    }
  }
  task.pending += static_cast<unsigned>(requests.size());
  const std::size_t count = requests.size();
  if (const auto posted = channel_->sends().post(std::move(requests)); !posted) {
    task.pending -= static_cast<unsigned>(count);
    apply(ConnectionEvent::Terminate, posted.error().reason);
  }
}

void Connection::deliver() {
  if (std::exchange(is_delivering_, true)) {
    return;
  }
  while (!arrivals_.empty() && state_ == ConnectionState::Up &&
         (arrivals_.front().task == nullptr || arrivals_.front().task->pending == 0)) {
    const Arrival arrival = arrivals_.front();
    arrivals_.pop_front();
    if (arrival.task != nullptr) {
      tasks_.erase(arrival.task->command.initiator_task_tag);
      release_registrations(*arrival.task);
    }
    if (client_ != nullptr) {
      client_->handle_pdu(arrival.message.pdu, environment_.now());
    }
    if (channel_ != nullptr) {
      channel_->give_back(*arrival.buffer);
    }
  }
  is_delivering_ = false;
}

void Connection::release_registrations(Task& task) {
  for (std::optional<Registration>& registration : task.registrations) {
    if (registration && pool_ != nullptr) {
      if (is_protected(*registration)) {
        task.protection_status = RegistrationPool::status_of(*registration);
      }
      pool_->release(*registration);
    }
    registration.reset();
  }
}

Result<void> Connection::cleanup_task(Task& task) {
  const auto found = tasks_.find(task.command.initiator_task_tag);
  if (found == tasks_.end() || found->second != &task) {
    // Never sent, answered, or gone with the device. Its headers stay mapped until the HCA needs
    // them no more, or the device goes.
    task.descriptor.reset();
    return {};
  }
  return fail(ErrorCode::Busy,
              "the target may still reach the task's memory: it ends with a response or with the "
              "connection");
}

}  // namespace weft::iser
