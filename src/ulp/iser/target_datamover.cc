#include "ulp/iser/target_datamover.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "core/device.h"
#include "ulp/iser/planted_bug.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/login.h"
#include "wire/iscsi/scsi_command.h"
#include "wire/iser/private_data.h"

namespace weft::iser {

using wire::iscsi::Opcode;

namespace {

constexpr std::size_t kLoginBytes = 8192;  // RFC 7143 §13.12: data until login ends

/// The whole response that a Data-In PDU with status stands for: over iSER there is no Data-In.
[[nodiscard]] iscsi::OutgoingPdu response_of(const wire::iscsi::DataIn& data_in) {
  wire::iscsi::ScsiResponse response;
  response.initiator_task_tag = data_in.initiator_task_tag;
  response.status = data_in.status;
  response.overflow = data_in.overflow;
  response.underflow = data_in.underflow;
  response.residual = data_in.residual;
  response.stat_sn = data_in.stat_sn;
  response.exp_cmd_sn = data_in.exp_cmd_sn;
  response.max_cmd_sn = data_in.max_cmd_sn;
  return iscsi::OutgoingPdu{response};
}

}  // namespace

TargetDatamover::TargetDatamover(core::Environment& environment, const TargetOptions& options,
                                 std::function<void()> handle_gone)
    : environment_(environment),
      options_(options),
      handle_gone_(std::move(handle_gone)),
      linger_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { end(reason_); }),
      lost_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { lose(); }),
      gone_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { go(); }) {}

TargetDatamover::~TargetDatamover() {
  WEFT_ASSERT(channel_ == nullptr || is_ending_, "a datamover is terminated before it goes");
  WEFT_ASSERT(hold_.use_count() <= 1, "its commands have ended");
  hold_.reset();
  linger_work_.cancel_and_wait();
  lost_work_.cancel_and_wait();
  gone_work_.cancel_and_wait();
  waiting_.clear();
  free_resources();
}

void TargetDatamover::free_resources() {
  cm_.reset();  // which may still look at the QP
  channel_.reset();
  if (core::Pd* const pd = std::exchange(pd_, nullptr); pd != nullptr) {
    const auto gone = core::deallocate_pd(*pd);
    WEFT_ASSERT(gone, "everything inside was this connection's");
  }
}

Result<void> TargetDatamover::accept(std::unique_ptr<CmId> cm, ByteSpan private_data) {
  WEFT_ASSERT(client_ != nullptr, "the client is set first");
  cm_ = std::move(cm);
  auto accepted = open_and_accept(private_data);
  if (!accepted) {
    free_resources();  // it was never connected
  }
  return accepted;
}

Result<void> TargetDatamover::open_and_accept(ByteSpan private_data) {
  core::Device& device = *cm_->device();
  const auto pd = core::allocate_pd(device, {}, "isert");
  if (!pd) {
    return std::unexpected(pd.error());
  }
  pd_ = *pd;
  const bool has_integrity = options_.uses_integrity && device.attributes().capabilities.has(
                                                            core::DeviceCapability::Integrity);
  const std::uint32_t regions = Transfer::regions_for(device, options_.registered_transfers);
  auto channel = Channel::create(
      *pd_,
      {.send_depth = std::min(options_.send_depth, device.attributes().max_qp_wr - 1),
       .receive_depth = options_.receives + 1,
       .signal_interval = 16,  // policy; what must be known is signalled anyway
       .regions = std::max(regions, has_integrity ? options_.registered_transfers : 0),
       .has_integrity = has_integrity,
       .cq_lingers = options_.cq_lingers,
       .caller = "isert"},
      *this);
  if (!channel) {
    return std::unexpected(channel.error());
  }
  channel_ = std::move(*channel);
  if (auto set = cm_->set_qp(channel_->qp()); !set) {
    return set;
  }
  if (auto posted = channel_->post_single(wire::iser::kAllHeaderBytes + kLoginBytes); !posted) {
    return posted;
  }
  const auto peer = wire::parse<wire::iser::PrivateData>(private_data);
  remote_invalidation_ =
      options_.uses_remote_invalidation && peer && !peer->lacks_remote_invalidation;
  const auto own =
      wire::pack(wire::iser::PrivateData{.lacks_remote_invalidation = !remote_invalidation_});
  verbs::ConnectionParameters parameters;
  parameters.qpn = channel_->qp().number();
  parameters.responder_resources = 1;
  parameters.initiator_depth = options_.reads;
  parameters.rnr_retry_count = 7;
  parameters.private_data = {own.begin(), own.end()};
  return cm_->accept(parameters);
}

void TargetDatamover::handle_cm(const CmReport& report) {
  if (report.event != CmEvent::Established) {
    end("the connection has ended");
  }
}

void TargetDatamover::handle_failure(verbs::WcStatus status) {
  end(fmt::format("a work request ended in status {}", std::to_underlying(status)));
}

void TargetDatamover::handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                                     std::optional<RKey> /*invalidated*/) {
  if (is_ending_ || is_refused_) {
    return;
  }
  const auto message = parse_message(octets);
  if (!message) {
    end(message.error().reason);
    return;
  }
  if (const auto* const hello = std::get_if<wire::iser::Hello>(&*message)) {
    if (!take_hello(*hello)) {
      return;
    }
  } else if (const auto* const control = std::get_if<ControlMessage>(&*message)) {
    if (!take_control(*control)) {
      return;
    }
  } else {
    end("a HelloReply to a target");
    return;
  }
  channel_->give_back(buffer);
}

bool TargetDatamover::take_control(const ControlMessage& message) {
  if (std::exchange(hello_, Hello::OutOfPlace) == Hello::Due) {  // RFC 7145 §10.1.3.4
    end("the first message after login is not the Hello that was agreed on");
    return false;
  }
  const Opcode opcode = message.pdu.basic_header().opcode;
  if (opcode == Opcode::ScsiCommand && !take_command(message)) {
    end("a command without the STag of its data");
    return false;
  }
  if (opcode == Opcode::LoginRequest && !is_ring_open_) {  // the next one's place
    if (!channel_->post_single(wire::iser::kAllHeaderBytes + kLoginBytes)) {
      end("no further receive");
      return false;
    }
  }
  client_->handle_pdu(message.pdu, environment_.now());
  return true;
}

bool TargetDatamover::take_command(const ControlMessage& message) {
  const auto command = message.pdu.as<wire::iscsi::ScsiCommand>();
  const std::uint32_t bytes = command.expected_data_transfer_length;
  TaskMemory memory;
  memory.header = message.header;
  memory.write_bytes = command.write ? bytes : 0;
  memory.read_bytes = command.read ? bytes : 0;
  // Without the key of all that is not immediate there must be no more (RFC 7145 §7.3.1): the
  // unsolicited rest is looked at when it is asked for.
  if (memory.read_bytes != 0 && !message.header.has_read_stag) {
    return false;
  }
  if (memory.write_bytes > message.pdu.data.size() && command.final &&
      !message.header.has_write_stag) {
    return false;
  }
  tasks_.insert_or_assign(command.initiator_task_tag, memory);
  return true;
}

bool TargetDatamover::take_hello(const wire::iser::Hello& hello) {
  using wire::iser::kVersion;
  const Hello place = std::exchange(hello_, Hello::OutOfPlace);
  if (place == Hello::OutOfPlace || place == Hello::Refused) {  // RFC 7145 §5.1.3
    end(place == Hello::Refused ? "a Hello where iSERHelloRequired is No"
                                : "a Hello that is not the first message after login");
    return false;
  }
  // RFC 7145 §10.1.3.2: also, an end that never READs cannot fetch what an initiator has to write.
  const bool fits = hello.min_version <= kVersion && kVersion <= hello.max_version &&
                    (hello.ird == 0 || options_.reads != 0);
  const auto reply = wire::pack(wire::iser::HelloReply{
      .rejected = !fits, .ord = std::min<std::uint16_t>(options_.reads, hello.ird)});
  auto request = channel_->make_send(ByteSpan{reply});
  request->must_signal = true;
  enqueue(std::move(request));
  if (!fits) {
    is_refused_ = true;
    terminate(Ending::AfterOutput, "the initiator speaks no version of iSER that this end does");
    return true;
  }
  for (iscsi::OutgoingPdu& pdu : std::exchange(held_, {})) {
    send_control(std::move(pdu));
  }
  return true;
}

// RFC 7145 §5.1.3: who has not heard of the key may say Hello all the same.
bool TargetDatamover::agree(const iscsi::Parameters& agreed) {
  if (agreed.hello_required) {
    after_login_ = *agreed.hello_required ? Hello::Due : Hello::Refused;
  }
  return true;
}

void TargetDatamover::limit(iscsi::Preferences& preferences) const {
  preferences.values.rdma_extensions = true;
  preferences.values.hello_required = preferences.values.hello_required.value_or(true);
  preferences.values.initial_r2t |= !options_.takes_unsolicited_data;
  preferences.values.max_recv_data_segment_length = options_.receive_data_bytes;
  preferences.values.target_recv_data_segment_length = options_.receive_data_bytes;
  for (std::uint32_t* const burst :
       {&preferences.values.max_burst_length, &preferences.values.first_burst_length}) {
    *burst = std::min<std::uint32_t>(*burst, Transfer::kMostBytes);  // which get_data() asks for
  }
  preferences.values.error_recovery_level = 0;  // policy: nothing is lost but with the connection
  preferences.header_digest = iscsi::DigestPolicy::Never;
  preferences.data_digest = iscsi::DigestPolicy::Never;
}

void TargetDatamover::send_control(iscsi::OutgoingPdu pdu) {
  if (is_ending_) {
    return;
  }
  if (hello_ == Hello::Due) {  // whose reply is the first message of a target
    held_.push_back(std::move(pdu));
    return;
  }
  const Opcode opcode = pdu.basic_header().opcode;
  if (opcode == Opcode::ScsiResponse) {
    enqueue(make_response(pdu));
    return;
  }
  if (opcode == Opcode::LoginResponse && !is_ring_open_) {
    const auto response = pdu.as<wire::iscsi::LoginResponse>();
    if (response.transit && response.next_stage == wire::iscsi::LoginStage::FullFeature &&
        response.status == wire::iscsi::LoginStatus::Success && !begin_full_feature()) {
      return;
    }
  }
  auto request = channel_->make_send(to_message({}, pdu));
  request->must_signal = true;
  enqueue(std::move(request));
}

// Before the initiator learns that it may send.
bool TargetDatamover::begin_full_feature() {
  is_ring_open_ = true;
  hello_ = after_login_;
  if (!channel_->open_ring(options_.receives,
                           wire::iser::kAllHeaderBytes + options_.receive_data_bytes)) {
    end("no receives");
    return false;
  }
  return true;
}

// With what the command has read, in one chain (R-IST-4).
SendRequests TargetDatamover::make_response(const iscsi::OutgoingPdu& pdu) {
  auto response = pdu.as<wire::iscsi::ScsiResponse>();
  response.exp_data_sn = 0;  // the initiator has seen neither Data-In nor R2T
  iscsi::OutgoingPdu changed = pdu;
  changed.set_header(response);
  SendRequests chain;
  chain.reserve(2);
  wire::iser::ControlHeader header;
  if (const auto found = tasks_.find(response.initiator_task_tag); found != tasks_.end()) {
    header = found->second.header;
    append_data(found->second, chain);
    tasks_.erase(found);
  }
  if (remote_invalidation_ && (header.has_read_stag || header.has_write_stag)) {
    chain.push_back(make_invalidating(
        changed, RKey{header.has_read_stag ? header.read_stag : header.write_stag}));
  } else {
    chain.push_back(channel_->make_send(to_message({}, changed)));
    chain.back()->must_signal = true;
  }
  return chain;
}

std::unique_ptr<SendRequest> TargetDatamover::make_invalidating(const iscsi::OutgoingPdu& pdu,
                                                                RKey rkey) const {
  auto request = channel_->make_send(to_message({}, pdu));
  request->must_signal = true;
  request->wr.opcode = verbs::WrOpcode::SendWithInvalidate;
  request->wr.invalidate_rkey = rkey;
  return request;
}

void TargetDatamover::send_invalidating(const iscsi::OutgoingPdu& pdu, RKey rkey) {
  enqueue(make_invalidating(pdu, rkey));
}

void TargetDatamover::put_data(iscsi::OutgoingPdu data_in) {
  if (is_ending_) {
    return;
  }
  const auto header = data_in.as<wire::iscsi::DataIn>();
  const auto found = tasks_.find(header.initiator_task_tag);
  const std::size_t bytes = data_in.data().size();
  if (found == tasks_.end() || header.buffer_offset > found->second.read_bytes ||
      bytes > found->second.read_bytes - header.buffer_offset) {
    end("data beyond what the command reads");
    return;
  }
  add_data(found->second, header.buffer_offset, std::move(data_in));
  if (header.has_status) {
    enqueue(make_response(response_of(header)));
  }
}

// Parts that follow each other in one buffer, which src/iscsi divides by what PDUs may have, are
// one RDMA WRITE.
void TargetDatamover::add_data(TaskMemory& memory, std::uint32_t offset, iscsi::OutgoingPdu part) {
  const ByteSpan octets = part.data();
  if (octets.empty()) {
    return;
  }
  if (memory.data_in && !planted(PlantedBug::DataInAtStart)) {
    DataIn& before = *memory.data_in;
    const std::size_t bytes = before.octets.size() + octets.size();
    if (before.first.shares_holder_with(part) && before.offset + before.octets.size() == offset &&
        before.octets.data() + before.octets.size() == octets.data() &&
        bytes <= Transfer::kMostBytes) {
      before.octets = {before.octets.data(), bytes};
      return;
    }
  }
  SendRequests chain;
  append_data(memory, chain);
  if (!chain.empty()) {
    enqueue(std::move(chain));
  }
  memory.data_in = {.first = std::move(part), .offset = offset, .octets = octets};
}

void TargetDatamover::append_data(TaskMemory& memory, SendRequests& chain) {
  if (!memory.data_in) {
    return;
  }
  DataIn data = *std::exchange(memory.data_in, std::nullopt);
  auto request = channel_->sends().take();
  request->transfer.begin(
      core::DmaDirection::ToDevice, data.octets,
      memory.header.read_base_offset + (planted(PlantedBug::DataInAtStart) ? 0 : data.offset),
      RKey{memory.header.read_stag});
  request->pdu = std::move(data.first);
  chain.push_back(std::move(request));
}

void TargetDatamover::get_data(iscsi::OutgoingPdu r2t, MutableByteSpan into) {
  if (is_ending_) {
    return;
  }
  const auto header = r2t.as<wire::iscsi::R2t>();
  const auto found = tasks_.find(header.initiator_task_tag);
  if (found == tasks_.end() || !found->second.header.has_write_stag) {
    end("a command announced unsolicited data only, and did not send it all");
    return;
  }
  TaskMemory& memory = found->second;
  // The first octet that is asked for is the first that was not announced as unsolicited.
  const std::uint32_t begin = memory.write_begin.value_or(header.buffer_offset);
  memory.write_begin = begin;
  if (header.buffer_offset < begin || header.desired_length != into.size()) {
    end("data was asked for that came unsolicited");
    return;
  }
  auto request = channel_->sends().take();
  request->transfer.begin(core::DmaDirection::FromDevice, into,
                          memory.header.write_base_offset + (header.buffer_offset - begin),
                          RKey{memory.header.write_stag});
  request->done = [this, tag = header.target_transfer_tag](verbs::WcStatus status) {
    if (status == verbs::WcStatus::Success && !is_ending_) {
      client_->handle_data_fetched(tag, environment_.now());
    }
  };
  enqueue(std::move(request));
}

std::size_t TargetDatamover::max_protected_bytes() const {
  return channel_ != nullptr && channel_->qp().is_integrity_enabled() ? Transfer::kMostBytes : 0;
}

// The buffers are kept until the adapter has done with them.
std::unique_ptr<SendRequest> TargetDatamover::move_protected(core::DmaDirection direction,
                                                             std::uint32_t tag,
                                                             const iscsi::ProtectedData& data,
                                                             std::uint64_t remote_address,
                                                             RKey rkey) {
  auto request = channel_->sends().take();
  request->transfer.begin(direction, data.blocks.octets(), data.tuples.octets(),
                          protection_of(data.how), remote_address, rkey);
  request->checked = [this, tag, data](const core::SignatureStatus& status) {
    const auto error = error_of(data.how, status);
    if (error && !is_ending_) {
      client_->handle_protection_error(tag, *error);
    }
  };
  return request;
}

void TargetDatamover::get_protected_data(iscsi::OutgoingPdu r2t, iscsi::ProtectedData into) {
  if (is_ending_) {
    return;
  }
  const auto header = r2t.as<wire::iscsi::R2t>();
  const auto found = tasks_.find(header.initiator_task_tag);
  if (found == tasks_.end() || !found->second.header.has_write_stag || header.buffer_offset != 0 ||
      header.desired_length != into.how.transfer_bytes()) {
    end("protected data was asked for that is not all of its command's");
    return;
  }
  const wire::iser::ControlHeader& memory = found->second.header;
  auto request = move_protected(core::DmaDirection::FromDevice, header.initiator_task_tag, into,
                                memory.write_base_offset, RKey{memory.write_stag});
  request->done = [this, tag = header.target_transfer_tag](verbs::WcStatus status) {
    if (status == verbs::WcStatus::Success && !is_ending_) {
      client_->handle_data_fetched(tag, environment_.now());
    }
  };
  enqueue(std::move(request));
}

void TargetDatamover::put_protected_data(iscsi::OutgoingPdu data_in, iscsi::ProtectedData from) {
  if (is_ending_) {
    return;
  }
  const std::uint32_t tag = data_in.as<wire::iscsi::DataIn>().initiator_task_tag;
  const auto found = tasks_.find(tag);
  if (found == tasks_.end() || from.how.transfer_bytes() > found->second.read_bytes) {
    end("data beyond what the command reads");
    return;
  }
  const wire::iser::ControlHeader& memory = found->second.header;
  auto request = move_protected(core::DmaDirection::ToDevice, tag, from, memory.read_base_offset,
                                RKey{memory.read_stag});
  request->done = [this, tag](verbs::WcStatus status) {
    if (status == verbs::WcStatus::Success && !is_ending_) {
      client_->handle_data_put(tag, environment_.now());
    }
  };
  enqueue(std::move(request));
}

void TargetDatamover::enable(bool header_digest, bool data_digest,
                             std::size_t /*max_receive_bytes*/) {
  if (header_digest || data_digest) {
    end("digests were negotiated, which iSER has none of");
  }
}

void TargetDatamover::terminate(Ending ending, std::string_view reason) {
  if (ending == Ending::AfterOutput && !is_ending_ && channel_ != nullptr) {
    if (!ends_after_output_) {
      ends_after_output_ = true;
      reason_ = reason;
    }
    end_if_all_is_sent();
    return;
  }
  end(reason);
}

void TargetDatamover::enqueue(std::unique_ptr<SendRequest> request) {
  SendRequests one;
  one.push_back(std::move(request));
  enqueue(std::move(one));
}

void TargetDatamover::enqueue(SendRequests chain) {
  if (is_ending_ || (waiting_.empty() && send(chain))) {
    return;
  }
  if (!is_ending_) {
    waiting_.push_back(std::move(chain));
  }
}

Result<std::uint32_t> TargetDatamover::prepare(SendRequests& chain) {
  std::uint32_t entries = 0;
  for (const std::unique_ptr<SendRequest>& request : chain) {
    if (request->transfer.has_begun()) {
      const auto prepared = request->transfer.prepare(channel_->qp());
      if (!prepared) {
        return prepared;
      }
      request->entries = *prepared;
    }
    entries += request->entries;
  }
  return entries;
}

/// False: it has to wait for handle_room(), since regions and entries are those of requests under
/// way. What cannot be sent at all ends the connection.
bool TargetDatamover::send(SendRequests& chain) {
  const auto entries = prepare(chain);
  if (!entries && entries.error().code != ErrorCode::TryAgain) {
    end(entries.error().reason);
    return false;
  }
  if (!entries || channel_->sends().room() < *entries) {
    if (channel_->sends().is_idle()) {
      end("a transfer needs more of the device than its QP has");
    }
    return false;
  }
  const auto posted = channel_->sends().post(chain);
  if (!posted) {
    end(posted.error().reason);
  }
  return posted.has_value();
}

void TargetDatamover::flush() {
  while (!is_ending_ && !waiting_.empty() && send(waiting_.front())) {
    waiting_.pop_front();
  }
}

void TargetDatamover::handle_room() {
  flush();
  end_if_all_is_sent();
}

void TargetDatamover::end_if_all_is_sent() {
  if (ends_after_output_ && !is_ending_ && waiting_.empty() && channel_->sends().is_idle()) {
    linger_work_.queue(options_.linger);
  }
}

void TargetDatamover::end(std::string_view reason) {
  if (std::exchange(is_ending_, true)) {
    return;
  }
  if (reason_.empty()) {
    reason_ = reason;
  }
  cm_->disconnect();
  channel_->drain();
}

// The order of an end (R-IST-5): terminate, drain, what waits for data, commands, logout.
void TargetDatamover::lose() {
  linger_work_.cancel_and_wait();
  waiting_.clear();
  tasks_.clear();
  if (iscsi::DatamoverClient* const client = std::exchange(client_, nullptr); client != nullptr) {
    client->handle_lost(reason_, environment_.now());
  }
  hold_.reset();  // go() follows when the last command has
}

void TargetDatamover::go() {
  free_resources();
  if (auto handle = std::exchange(handle_gone_, {}); handle) {
    handle();
  }
  environment_.notify();
}

}  // namespace weft::iser
