#include "ulp/iser/initiator_datamover.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace weft::iser {
namespace {

[[nodiscard]] std::vector<core::ScatterEntry> list_of(const iscsi::SharedBuffer& buffer) {
  if (buffer.size() == 0) {
    return {};
  }
  return {
      {.address = std::bit_cast<std::uint64_t>(buffer.octets().data()),
       .length = static_cast<std::uint32_t>(buffer.size())}
  };
}

}  // namespace

InitiatorDatamover::InitiatorDatamover(core::Environment& environment, SessionBinding& binding,
                                       const ConnectionOptions& options,
                                       std::function<void()> handle_gone)
    : binding_(binding),
      options_(options),
      handle_gone_(std::move(handle_gone)),
      answer_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { take_answer(); }),
      gone_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { go(); }) {}

InitiatorDatamover::~InitiatorDatamover() {
  WEFT_ASSERT(connection_ == nullptr, "a datamover is freed when it has gone");
  answer_work_.cancel_and_wait();
  gone_work_.cancel_and_wait();
}

Result<void> InitiatorDatamover::connect(std::string_view address, Connected connected) {
  WEFT_ASSERT(client_ != nullptr, "the client is set first");
  const auto endpoint = binding_.initiator().connect_endpoint(address, options_, false);
  if (!endpoint) {
    return std::unexpected(endpoint.error());
  }
  endpoint_ = *endpoint;
  connected_ = std::move(connected);
  Connection& link = *binding_.initiator().find(endpoint_);
  link.answer_notice = [this] { answer_work_.queue(); };
  link.room_notice = [this] { flush(); };
  return {};
}

// What ep_poll says, once it has something to say.
void InitiatorDatamover::take_answer() {
  if (client_ == nullptr) {
    return;  // it was abandoned meanwhile
  }
  const PollResult answer = binding_.initiator().poll_endpoint(endpoint_, {});
  if (answer == PollResult::NotYet) {
    return;
  }
  std::string reason = "the target does not answer";
  if (answer == PollResult::Connected) {
    const auto bound = binding_.bind(endpoint_, *this);
    if (bound) {
      connection_ = *bound;
      is_bound_ = true;
      return tell_connected({});
    }
    reason = bound.error().reason;
  } else if (const Connection* const link = binding_.initiator().find(endpoint_);
             link != nullptr && !link->reason().empty()) {
    reason = link->reason();
  }
  disconnect(reason);
  tell_connected(reason);
}

void InitiatorDatamover::tell_connected(const std::string& reason) {
  if (const auto connected = std::exchange(connected_, {})) {
    connected(reason);
  }
}

void InitiatorDatamover::abandon() {
  client_ = nullptr;
  connected_ = {};
  stop_flag_ = StopFlag::Terminate;
  disconnect("nobody wants it any more");
}

// ep_disconnect. Of what is bound handle_lost() follows; nobody would hear of any other.
void InitiatorDatamover::disconnect(std::string_view reason) {
  if (Connection* const link = binding_.initiator().find(endpoint_); link != nullptr) {
    link->begin_termination(reason);
    if (connection_ == nullptr) {
      link->answer_notice = {};
      link->room_notice = {};
    }
  }
  binding_.initiator().disconnect_endpoint(endpoint_);
  if (connection_ == nullptr) {
    gone_work_.queue();
  }
}

void InitiatorDatamover::limit(iscsi::Preferences& preferences) const {
  preferences.values.rdma_extensions = true;
  if (options_.hello == iscsi::HelloPolicy::Agreed) {
    preferences.values.hello_required = true;
  }
  preferences.values.max_recv_data_segment_length = options_.receive_data_bytes;
  preferences.values.initiator_recv_data_segment_length = options_.receive_data_bytes;
  // How much goes with a command. isert of Linux agrees to any number, and a SEND with more than
  // the default (RFC 7145 §6.4) ends the connection: that is what its receives have room for.
  preferences.values.target_recv_data_segment_length =
      std::min(preferences.values.target_recv_data_segment_length,
               iscsi::Parameters{}.target_recv_data_segment_length);
  preferences.values.error_recovery_level = 0;
  preferences.header_digest = iscsi::DigestPolicy::Never;
  preferences.data_digest = iscsi::DigestPolicy::Never;
}

bool InitiatorDatamover::agree(const iscsi::Parameters& agreed) {
  if (connection_ == nullptr) {
    return true;
  }
  return connection_->agree(
      {.initial_r2t = agreed.initial_r2t,
       .immediate_data = agreed.immediate_data,
       .first_burst_bytes = agreed.first_burst_length,
       .max_send_segment_bytes =
           std::min(agreed.max_recv_data_segment_length, agreed.target_recv_data_segment_length),
       .says_hello =
           options_.hello == iscsi::HelloPolicy::Unasked || agreed.hello_required.value_or(false)});
}

void InitiatorDatamover::send_command(iscsi::OutgoingPdu pdu, iscsi::SharedBuffer data_out,
                                      iscsi::SharedBuffer data_in) {
  auto command = std::make_unique<Command>();
  command->task.command = pdu.as<wire::iscsi::ScsiCommand>();
  const ByteSpan additional = pdu.additional_headers();
  command->task.additional_headers = {additional.begin(), additional.end()};
  const std::uint32_t tag = command->task.command.initiator_task_tag;
  command->task.data_out = list_of(data_out);
  command->task.data_in = list_of(data_in);
  command->data_out = std::move(data_out);
  command->data_in = std::move(data_in);
  waiting_.emplace_back(command.get());
  tasks_.insert_or_assign(tag, std::move(command));
  flush();
}

void InitiatorDatamover::send_control(iscsi::OutgoingPdu pdu) {
  if (pdu.basic_header().opcode == wire::iscsi::Opcode::LogoutRequest) {
    stop_flag_ = StopFlag::Terminate;  // nothing of the session is to be recovered
  }
  waiting_.emplace_back(std::move(pdu));
  flush();
}

void InitiatorDatamover::flush() {
  if (std::exchange(is_flushing_, true)) {
    return;  // what was sent made room: the loop below goes on
  }
  while (!waiting_.empty() && connection_ != nullptr &&
         connection_->state() == ConnectionState::Up) {
    auto& next = waiting_.front();
    Command** const command = std::get_if<Command*>(&next);
    const auto sent = command != nullptr
                          ? connection_->transmit((*command)->task)
                          : connection_->send_control(std::get<iscsi::OutgoingPdu>(next));
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      break;  // room_notice comes
    }
    if (!sent) {
      disconnect(sent.error().reason);
      break;
    }
    waiting_.pop_front();
  }
  is_flushing_ = false;
}

void InitiatorDatamover::put_data(iscsi::OutgoingPdu /*data_in*/) {
  terminate(Ending::AtOnce, "an initiator puts no data");
}

void InitiatorDatamover::get_data(iscsi::OutgoingPdu /*r2t*/, MutableByteSpan /*into*/) {
  terminate(Ending::AtOnce, "an initiator fetches no data");
}

void InitiatorDatamover::enable(bool header_digest, bool data_digest,
                                std::size_t /*max_receive_bytes*/) {
  if (header_digest || data_digest) {
    return terminate(Ending::AtOnce, "digests were negotiated, which iSER has none of");
  }
  if (const auto started = binding_.start(); !started) {
    terminate(Ending::AtOnce, started.error().reason);
  }
}

void InitiatorDatamover::terminate(Ending /*ending*/, std::string_view reason) {
  // What is to be sent before the end is answered before the session ends it.
  if (connection_ != nullptr) {
    disconnect(reason);
  }
}

void InitiatorDatamover::handle_pdu(const iscsi::ReceivedPdu& pdu, Instant now) {
  const auto basic = pdu.basic_header();
  std::unique_ptr<Command> ended;
  if (basic.opcode == wire::iscsi::Opcode::ScsiResponse) {
    if (const auto found = tasks_.find(basic.initiator_task_tag); found != tasks_.end()) {
      ended = std::move(found->second);
      tasks_.erase(found);
    }
  }
  if (client_ != nullptr) {
    client_->handle_pdu(pdu, now);
  }
  flush();
}

void InitiatorDatamover::handle_data_fetched(std::uint32_t /*tag*/, Instant /*now*/) {}

void InitiatorDatamover::handle_agreed(Instant now) {
  if (client_ != nullptr) {
    client_->handle_agreed(now);
  }
}

void InitiatorDatamover::handle_lost(std::string_view reason, Instant now) {
  connection_ = nullptr;
  waiting_.clear();
  tasks_.clear();
  gone_work_.queue();  // not from inside: conn_stop waits for the end of this
  if (iscsi::DatamoverClient* const client = std::exchange(client_, nullptr); client != nullptr) {
    client->handle_lost(reason, now);
  }
}

void InitiatorDatamover::go() {
  if (std::exchange(is_bound_, false)) {
    binding_.stop(stop_flag_);  // it is down already, so that nothing waits
  }
  binding_.initiator().disconnect_endpoint(endpoint_);
  if (const auto handle = std::exchange(handle_gone_, {})) {
    handle();
  }
}

}  // namespace weft::iser
