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

InitiatorDatamover::InitiatorDatamover(core::Environment& environment,
                                       const ConnectionOptions& options,
                                       std::function<void()> handle_gone)
    : options_(options),
      handle_gone_(std::move(handle_gone)),
      up_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { bind(); }),
      connection_(environment, options, [this] { come_down(); }) {
  connection_.up_notice = [this] { up_work_.queue(); };
  connection_.room_notice = [this] { flush(); };
}

InitiatorDatamover::~InitiatorDatamover() { up_work_.cancel_and_wait(); }

Result<void> InitiatorDatamover::connect(std::unique_ptr<CmId> cm, std::string_view address,
                                         Connected connected) {
  WEFT_ASSERT(client_ != nullptr, "the client is set first");
  connected_ = std::move(connected);
  return connection_.connect(std::move(cm), address);
}

void InitiatorDatamover::bind() {
  if (!connection_.bind(*this)) {
    return;  // it has ended meanwhile: come_down() says so
  }
  tell_connected({});
}

void InitiatorDatamover::tell_connected(const std::string& reason) {
  if (const auto connected = std::exchange(connected_, {})) {
    connected(reason);
  }
}

void InitiatorDatamover::abandon() {
  client_ = nullptr;
  connected_ = {};
  connection_.begin_termination("nobody wants it any more");
}

void InitiatorDatamover::limit(iscsi::Preferences& preferences) const {
  preferences.values.rdma_extensions = true;
  preferences.values.max_recv_data_segment_length = options_.receive_data_bytes;
  preferences.values.initiator_recv_data_segment_length = options_.receive_data_bytes;
  preferences.values.error_recovery_level = 0;
  preferences.header_digest = iscsi::DigestPolicy::Never;
  preferences.data_digest = iscsi::DigestPolicy::Never;
}

void InitiatorDatamover::agree(const iscsi::Parameters& agreed) {
  connection_.set_transfer_parameters(
      {.initial_r2t = agreed.initial_r2t,
       .immediate_data = agreed.immediate_data,
       .first_burst_bytes = agreed.first_burst_length,
       .max_send_segment_bytes =
           std::min(agreed.max_recv_data_segment_length, agreed.target_recv_data_segment_length)});
}

void InitiatorDatamover::send_command(iscsi::OutgoingPdu pdu, iscsi::SharedBuffer data_out,
                                      iscsi::SharedBuffer data_in) {
  auto command = std::make_unique<Command>();
  const std::uint32_t tag = pdu.as<wire::iscsi::ScsiCommand>().initiator_task_tag;
  const MutableByteSpan headers = command->task.allocate_pdu(wire::iscsi::Opcode::ScsiCommand);
  std::ranges::copy(pdu.header(), headers.begin());
  std::ranges::copy(pdu.additional_headers(), headers.subspan(wire::iscsi::kHeaderBytes).begin());
  command->task.data_out = list_of(data_out);
  command->task.data_in = list_of(data_in);
  command->data_out = std::move(data_out);
  command->data_in = std::move(data_in);
  waiting_.emplace_back(command.get());
  tasks_.insert_or_assign(tag, std::move(command));
  flush();
}

void InitiatorDatamover::send_control(iscsi::OutgoingPdu pdu) {
  waiting_.emplace_back(std::move(pdu));
  flush();
}

void InitiatorDatamover::flush() {
  if (std::exchange(is_flushing_, true)) {
    return;  // what was sent made room: the loop below goes on
  }
  while (!waiting_.empty() && connection_.state() == ConnectionState::Up) {
    auto& next = waiting_.front();
    Command** const command = std::get_if<Command*>(&next);
    const auto sent = command != nullptr
                          ? connection_.transmit((*command)->task)
                          : connection_.send_control(std::get<iscsi::OutgoingPdu>(next));
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      break;  // room_notice comes
    }
    if (!sent) {
      connection_.begin_termination(sent.error().reason);
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
    terminate(Ending::AtOnce, "digests were negotiated, which iSER has none of");
  }
}

void InitiatorDatamover::terminate(Ending /*ending*/, std::string_view reason) {
  // What is to be sent before the end is answered before the session ends it.
  connection_.begin_termination(reason);
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

void InitiatorDatamover::handle_lost(std::string_view reason, Instant now) {
  waiting_.clear();
  tasks_.clear();
  if (iscsi::DatamoverClient* const client = std::exchange(client_, nullptr); client != nullptr) {
    client->handle_lost(reason, now);
  }
}

void InitiatorDatamover::come_down() {
  tell_connected(connection_.reason().empty() ? "the target does not answer"
                                              : connection_.reason());
  if (const auto handle = std::exchange(handle_gone_, {})) {
    handle();
  }
}

}  // namespace weft::iser
