// ManagementInterface, send side: requests with retries, timeouts and cancellation.

#include <algorithm>
#include <span>
#include <utility>

#include "mad/management_interface.h"
#include "wire/mad/class_port_info.h"

namespace weft::mad {
namespace {

constexpr unsigned kHalf = 32;  // bits of a TID that contain the agent

[[nodiscard]] ExchangeKey key_of_request(const MadMessage& request, const MadAddress& to) {
  const wire::MadHeader header = request.header();
  ExchangeKey key{.side = Side::Client,
                  .transaction_id = header.transaction_id,
                  .mgmt_class = header.mgmt_class,
                  .lid = {},
                  .gid = {}};
  if (to.global) {
    key.gid = to.global->dgid;
  } else if (header.mgmt_class != wire::ManagementClass::SubnDirectedRoute &&
             !to.lid.is_permissive()) {
    key.lid = to.lid;
  }
  return key;
}

}  // namespace

Result<void> ManagementInterface::check_request(AgentId agent, const MadMessage& message) const {
  const Registration* const registration = agents_.registration(agent);
  const wire::MadHeader header = message.header();
  if (is_closing_) {
    return fail(ErrorCode::NoSuchDevice, "the management interface is being destroyed");
  }
  if (registration == nullptr) {
    return fail(ErrorCode::InvalidArgument, "there is no agent {}: register one", agent.value());
  }
  const bool may_send = registration->sends_any_class
                            ? belongs_to(header.mgmt_class, kind_)
                            : header.mgmt_class == registration->mgmt_class;
  if (!may_send) {
    return fail(ErrorCode::InvalidArgument, "a MAD of class {:#x} by an agent of class {:#x}",
                static_cast<unsigned>(header.mgmt_class),
                static_cast<unsigned>(registration->mgmt_class));
  }
  if (message.is_rmpp && !has_rmpp_header(header.mgmt_class)) {
    return fail(ErrorCode::NotSupported, "MADs of class {:#x} have no RMPP header",
                static_cast<unsigned>(header.mgmt_class));
  }
  if (message.data.size() > limits_.rmpp_message_bytes) {
    return fail(ErrorCode::InvalidArgument, "a message of {} bytes; at most {} are possible",
                message.data.size(), limits_.rmpp_message_bytes);
  }
  return {};
}

Result<TransactionId> ManagementInterface::send(AgentId agent, const MadAddress& to,
                                                MadMessage request,
                                                const TransactionOptions& options,
                                                CompletionHandler handler, Instant now) {
  if (const auto checked = check_request(agent, request); !checked) {
    return std::unexpected(checked.error());
  }
  wire::MadHeader header = request.header();
  if (is_answer(header)) {
    return fail(ErrorCode::InvalidArgument, "method {:#x} is an answer: post it",
                static_cast<unsigned>(header.method));
  }
  if (!options.expects_answer && !request.is_rmpp) {
    return fail(ErrorCode::InvalidArgument,
                "nothing would end a transaction without answer and without RMPP: post it");
  }
  if (options.timeout <= Duration{}) {
    return fail(ErrorCode::InvalidArgument, "the timeout must be greater than zero");
  }
  if (key_of_.size() >= limits_.transactions) {
    return fail(ErrorCode::OutOfMemory, "{} transactions are in progress, which is the limit",
                limits_.transactions);
  }
  ExchangeKey key;
  do {  // skips TIDs in use, if the interface chooses
    header.transaction_id =
        std::uint64_t{agent.value()} << kHalf | (options.tid_low ? *options.tid_low : ++last_tid_);
    request.set_header(header);
    key = key_of_request(request, to);
  } while (!options.tid_low && exchanges_.contains(key));
  if (const auto found = exchanges_.find(key); found != exchanges_.end()) {
    if (found->second.phase != Phase::Lingering) {
      return fail(ErrorCode::Busy, "transaction ID {:#x} is in use for this destination",
                  header.transaction_id);
    }
    erase(found);
  }
  const TransactionId id{++last_transaction_};
  const auto entry = exchanges_.emplace(key, Exchange{}).first;
  Exchange& exchange = entry->second;
  exchange.peer = to;
  exchange.transaction = id;
  exchange.agent = agent;
  exchange.request = std::move(request);
  exchange.options = options;
  exchange.handler = std::move(handler);
  key_of_.emplace(id, key);
  if (in_flight_ < limits_.in_flight) {
    start(entry, now);
  } else {
    exchange.phase = Phase::Waiting;
    waiting_.push_back(id);
  }
  return id;
}

void ManagementInterface::start(ExchangeEntry entry, Instant now) {
  ++in_flight_;
  if (entry->second.request.is_rmpp) {
    entry->second.sends = 1;
    start_sending(entry, entry->second.request, now);
  } else {
    ask(entry, now);
  }
}

void ManagementInterface::start_waiting(Instant now) {
  while (!waiting_.empty() && in_flight_ < limits_.in_flight) {
    const auto entry = exchanges_.find(key_of_.at(waiting_.front()));
    waiting_.pop_front();
    start(entry, now);
  }
}

/// Timeout for the response to the last transmission.
Duration ManagementInterface::response_timeout(const Exchange& exchange) const {
  Duration span = exchange.options.timeout;
  for (unsigned i = 1; exchange.options.doubles_timeout && i < exchange.sends; ++i) {
    if (span >= limits_.max_wait) {
      break;
    }
    span = std::min(span * 2, std::max(limits_.max_wait, exchange.options.timeout));
  }
  return span;
}

void ManagementInterface::ask(ExchangeEntry entry, Instant now) {
  Exchange& exchange = entry->second;
  counters_.resent += exchange.sends != 0 ? 1 : 0;
  ++exchange.sends;
  exchange.phase = Phase::Asked;
  transmit(exchange.peer, exchange.request.mad);
  arm(entry, now + response_timeout(exchange));
}

void ManagementInterface::retry_or_fail(ExchangeEntry entry, Instant now) {
  // A request sent by RMPP was acknowledged as a whole, so it is not retried.
  if (!entry->second.request.is_rmpp && entry->second.sends <= entry->second.options.retries) {
    return ask(entry, now);
  }
  ++counters_.timed_out;
  complete(entry, {.status = TransactionStatus::TimedOut}, now);
}

/// Completes a transaction. The exchange lingers if it may still have to acknowledge segments. The
/// handler is called last, because it may modify anything.
void ManagementInterface::complete(ExchangeEntry entry, Completion completion, Instant now) {
  Exchange& exchange = entry->second;
  const CompletionHandler handler = std::move(exchange.handler);
  completion.transaction = exchange.transaction;
  completion.sends = exchange.sends;
  completion.now = now;
  key_of_.erase(exchange.transaction);
  if (exchange.phase == Phase::Waiting) {
    std::erase(waiting_, exchange.transaction);
  } else {
    --in_flight_;
  }
  const bool lingers = completion.status == TransactionStatus::Answered && exchange.receiver &&
                       exchange.receiver->state() == RmppReceiver::State::Complete &&
                       lingering_ < limits_.transactions;
  if (lingers) {
    ++lingering_;
    exchange.phase = Phase::Lingering;
    exchange.request = {};
    exchange.sender.reset();
    arm(entry, now + limits_.linger);
  } else {
    erase(entry);
  }
  if (!is_closing_) {
    start_waiting(now);
  }
  if (handler) {
    handler(completion);
  }
}

Result<void> ManagementInterface::cancel(TransactionId transaction, Instant now) {
  const auto found = key_of_.find(transaction);
  if (found == key_of_.end()) {
    return fail(ErrorCode::NotFound, "transaction {} is not in progress", transaction.value());
  }
  const auto entry = exchanges_.find(found->second);
  const Exchange& exchange = entry->second;
  if (exchange.phase == Phase::Sending || exchange.phase == Phase::Receiving) {
    MadBytes mad = exchange.request.mad;
    set_rmpp(mad, rmpp_reply(wire::RmppType::Abort, wire::RmppStatus::Unspecified));
    ++counters_.rmpp_refused;
    transmit(exchange.peer, mad);  // spares the peer its timeout
  }
  ++counters_.cancelled;
  complete(entry, {.status = TransactionStatus::Cancelled}, now);
  return {};
}

Result<void> ManagementInterface::set_timeout(TransactionId transaction, Duration timeout,
                                              Instant now) {
  const auto found = key_of_.find(transaction);
  if (found == key_of_.end()) {
    return fail(ErrorCode::NotFound, "transaction {} is not in progress", transaction.value());
  }
  if (timeout <= Duration{}) {
    return fail(ErrorCode::InvalidArgument, "the timeout must be greater than zero");
  }
  const auto entry = exchanges_.find(found->second);
  entry->second.options.timeout = timeout;
  if (entry->second.phase == Phase::Asked) {
    arm(entry, now + timeout);
  }
  return {};
}

/// Follows a redirection (IBTA vol 1 §13.5.2), given by the ClassPortInfo in the response. Returns
/// false if it contains no LID; the user must then resolve the path to its GID first.
bool ManagementInterface::redirect(ExchangeEntry entry, const MadMessage& answer, Instant now) {
  Exchange& exchange = entry->second;
  const std::size_t at = data_offset(entry->first.mgmt_class);
  const auto info = wire::parse<wire::ClassPortInfo>(ByteSpan{answer.mad}.subspan(at));
  if (!exchange.options.follows_redirects || exchange.redirects >= limits_.redirects || !info ||
      !info->redirect_lid.is_unicast()) {
    return false;
  }
  MadAddress to{.lid = info->redirect_lid,
                .sl = info->redirect_sl,
                .qp = info->redirect_qp,
                .qkey = info->redirect_qkey,
                .pkey = info->redirect_pkey,
                .path_bits = exchange.peer.path_bits};
  const ExchangeKey key = key_of_request(exchange.request, to);
  if (key != entry->first && exchanges_.contains(key)) {
    return false;
  }
  ++counters_.redirected;
  ++exchange.redirects;
  exchange.peer = to;
  exchange.sends = 0;
  arm(entry, Instant::never());
  auto node = exchanges_.extract(entry);
  node.key() = key;
  const auto moved = exchanges_.insert(std::move(node)).position;
  key_of_[moved->second.transaction] = key;
  ask(moved, now);
  return true;
}

Result<void> ManagementInterface::post(AgentId agent, const MadAddress& to, MadMessage message,
                                       Instant now) {
  if (auto checked = check_request(agent, message); !checked) {
    return checked;
  }
  wire::MadHeader header = message.header();
  if (is_answer(header)) {
    ExchangeKey key = key_of_request(message, to);
    key.side = Side::Server;
    key.lid = to.global ? Lid{} : to.lid;
    answer(key, to, std::move(message), now);
    return {};
  }
  if (message.is_rmpp) {
    return fail(ErrorCode::InvalidArgument,
                "RMPP segments must be acknowledged: send the message as a transaction");
  }
  if (!agents_.registration(agent)->keeps_transaction_ids) {
    const std::uint32_t low = static_cast<std::uint32_t>(header.transaction_id);
    header.transaction_id = std::uint64_t{agent.value()} << kHalf | (low != 0 ? low : ++last_tid_);
    message.set_header(header);
  }
  transmit(to, message.mad);
  return {};
}

}  // namespace weft::mad
