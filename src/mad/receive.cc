// ManagementInterface, receive side: validation, agents and responses.

#include <span>
#include <utility>
#include <vector>

#include "mad/management_interface.h"

namespace weft::mad {
namespace {

[[nodiscard]] wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

}  // namespace

void ManagementInterface::handle_mad(const MadAddress& source, ByteSpan bytes, Instant now) {
  ++counters_.received;
  snoop(Direction::Received, source, bytes);
  if (bytes.size() != wire::kMadBytes) {  // R-MI-5
    ++counters_.wrong_size;
    return;
  }
  MadBytes mad{};
  copy_bytes(mad, bytes);
  const wire::MadHeader header = header_of(mad);
  if (header.base_version != wire::kMadBaseVersion) {
    ++counters_.bad_version;
    return refuse(source, mad, wire::kMadStatusBadVersion);
  }
  if (!belongs_to(header.mgmt_class, kind_)) {  // §13.5.1: silently dropped
    ++counters_.unsupported_class;
    return;
  }
  if (has_rmpp_header(header.mgmt_class) && rmpp_of(mad).is_active) {
    if (!deliver_segment(source, mad, now)) {
      handle_rmpp(source, mad, now);
    }
    return;
  }
  if (is_answer(header)) {
    handle_answer(source, mad, now);
  } else {
    handle_request(source, mad, now);
  }
}

/// Finds the exchange of a MAD by the exact address; a client's also without one, as for directed
/// routes.
ManagementInterface::ExchangeEntry ManagementInterface::find(const MadAddress& source,
                                                             const wire::MadHeader& header) {
  ExchangeKey key = key_of_received(source, header);
  auto entry = exchanges_.find(key);
  if (entry == exchanges_.end() && key.side == Side::Client && !source.global) {
    key.lid = Lid{};
    entry = exchanges_.find(key);
  }
  return entry;
}

void ManagementInterface::handle_answer(const MadAddress& source, const MadBytes& mad,
                                        Instant now) {
  const wire::MadHeader header = header_of(mad);
  const auto entry = find(source, header);
  if (entry == exchanges_.end() || entry->second.phase == Phase::Lingering ||
      entry->second.phase == Phase::Waiting) {
    ++counters_.unmatched_answers;
    return;
  }
  const MadMessage answer{.mad = mad};
  Exchange& exchange = entry->second;
  const std::uint16_t status = answer.status();
  const bool may_ask_again = exchange.phase == Phase::Asked && !exchange.request.is_rmpp;
  if ((status & wire::kMadStatusBusy) != 0 && may_ask_again && exchange.options.waits_when_busy &&
      exchange.sends <= exchange.options.retries) {
    // §13.4.7: BUSY permits a retry; it is delayed, and the number of retries is limited.
    ++counters_.busy;
    return arm(entry, now + response_timeout(exchange));
  }
  if ((status & wire::kMadStatusRedirect) != 0 && may_ask_again && redirect(entry, answer, now)) {
    return;
  }
  complete(entry, {.status = TransactionStatus::Answered, .answer = &answer, .source = source},
           now);
}

/// Delivers a segment or ACK to an agent that implements RMPP. The first segment of a response
/// completes the transaction as a whole response would.
bool ManagementInterface::deliver_segment(const MadAddress& source, const MadBytes& mad,
                                          Instant now) {
  MadHandler* const handler = agents_.find_segment_handler(mad);
  if (handler == nullptr) {
    return false;
  }
  const wire::MadHeader header = header_of(mad);
  const auto entry = find(source, header);
  if (is_answer(header) && entry != exchanges_.end() && entry->second.phase == Phase::Asked) {
    const MadMessage answer{.mad = mad};
    complete(entry, {.status = TransactionStatus::Answered, .answer = &answer, .source = source},
             now);
  } else {
    handler->handle_segment(source, mad);
  }
  return true;
}

/// Finds the agent for a request. If there is none, counts it and sends an error response.
MadHandler* ManagementInterface::handler_for(const MadAddress& source, const MadBytes& mad) {
  const AgentTable::Lookup lookup = agents_.find(mad);
  switch (lookup.match) {
    case AgentTable::Match::Found:
      break;
    // there is no status for this; same choice as the kernel's MAD layer
    case AgentTable::Match::NoClass:
      ++counters_.unsupported_class;
      refuse(source, mad, wire::kMadStatusMethodAttributeUnsupported);
      break;
    case AgentTable::Match::NoVersion:
      ++counters_.bad_version;
      refuse(source, mad, wire::kMadStatusBadVersion);
      break;
    case AgentTable::Match::NoMethod:
      ++counters_.unsupported_method;
      refuse(source, mad, wire::kMadStatusMethodUnsupported);
      break;
  }
  return lookup.handler;
}

void ManagementInterface::handle_request(const MadAddress& source, const MadBytes& mad,
                                         Instant now) {
  const ExchangeKey key = key_of_received(source, header_of(mad));
  const auto entry = exchanges_.find(key);
  if (entry != exchanges_.end()) {
    if (entry->second.phase != Phase::Lingering) {
      ++counters_.duplicates;
      return;
    }
    erase(entry);
  }
  const std::vector<MadHandler*> listeners = agents_.find_listeners(mad);
  if (MadHandler* const handler = handler_for(source, mad)) {
    deliver(*handler, key, source, {.mad = mad}, now);
  }
  for (MadHandler* const listener : listeners) {
    MadRequest heard{*this, key, source, {.mad = mad}, now};
    static_cast<void>(listener->handle(heard));  // another answers
  }
}

void ManagementInterface::deliver(MadHandler& handler, const ExchangeKey& key,
                                  const MadAddress& source, MadMessage request, Instant now) {
  MadRequest in_hand{*this, key, source, std::move(request), now};
  const MadMessage* const message = handler.handle(in_hand);
  if (message != nullptr) {
    answer(key, source, *message, now);
  }
}

/// Sends an agent's response, by RMPP if requested.
void ManagementInterface::answer(const ExchangeKey& key, const MadAddress& to, MadMessage message,
                                 Instant now) {
  wire::MadHeader header = message.header();
  header.mgmt_class = key.mgmt_class;
  header.transaction_id = key.transaction_id;
  message.set_header(header);
  convert_to_response(message);
  if (message.is_rmpp && has_rmpp_header(key.mgmt_class) &&
      message.data.size() <= limits_.rmpp_message_bytes && can_serve(key, message.data.size())) {
    return start_sending(serve(key, to), std::move(message), now);
  }
  const auto entry = exchanges_.find(key);
  if (entry != exchanges_.end() && entry->second.phase == Phase::Deferred) {
    erase(entry);
  }
  if (message.is_rmpp) {
    ++counters_.discarded;
    message.set_status(wire::kMadStatusBusy);
  }
  transmit(to, message.mad);
}

Result<void> ManagementInterface::respond(const Deferral& deferral, MadMessage message,
                                          Instant now) {
  const auto entry = exchanges_.find(deferral.key);
  if (entry == exchanges_.end() || entry->second.phase != Phase::Deferred) {
    return fail(ErrorCode::NotFound, "transaction ID {:#x} was answered before, or given up",
                deferral.key.transaction_id);
  }
  if (message.is_rmpp && !has_rmpp_header(deferral.key.mgmt_class)) {
    return fail(ErrorCode::NotSupported, "MADs of class {:#x} have no RMPP header",
                static_cast<unsigned>(deferral.key.mgmt_class));
  }
  answer(deferral.key, deferral.to, std::move(message), now);
  return {};
}

/// Sends an error response to a request that expects a response (IBTA vol 1 §13.4.7).
void ManagementInterface::refuse(const MadAddress& source, const MadBytes& mad,
                                 std::uint16_t status) {
  MadMessage message{.mad = mad};
  const wire::MadMethod method = message.header().method;
  if (method == wire::MadMethod::Trap || !response_method(method)) {
    return;
  }
  if (has_rmpp_header(message.header().mgmt_class)) {
    set_rmpp(message.mad, {});
  }
  message.set_status(status);
  convert_to_response(message);
  transmit(source, message.mad);
}

}  // namespace weft::mad
