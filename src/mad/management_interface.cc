#include "mad/management_interface.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace weft::mad {

std::optional<Deferral> MadRequest::defer() {
  if (!interface_.can_serve(key_)) {
    ++interface_.counters_.discarded;
    return std::nullopt;
  }
  const auto entry = interface_.serve(key_, source);
  entry->second.phase = Exchange::Phase::Deferred;
  interface_.arm(entry, now + interface_.limits_.deferral);
  return Deferral{.key = key_, .to = source};
}

void MadHandler::handle_segment(const MadAddress& /*source*/, const MadBytes& /*segment*/) {}

ManagementInterface::ManagementInterface(InterfaceKind kind, const Limits& limits)
    : kind_(kind),
      limits_(limits),
      agents_(kind, limits.agents),
      pacer_(limits.mad_interval, limits.burst) {
  WEFT_ASSERT(limits.in_flight != 0 && limits.rmpp_window != 0,
              "an interface may have something under way");
}

ManagementInterface::~ManagementInterface() {
  is_closing_ = true;
  while (!key_of_.empty()) {
    const auto entry = exchanges_.find(key_of_.begin()->second);
    complete(entry, {.status = TransactionStatus::Cancelled}, Instant{});
  }
}

Result<AgentId> ManagementInterface::register_agent(Registration registration,
                                                    MadHandler* handler) {
  return agents_.add(std::move(registration), handler);
}

Result<void> ManagementInterface::unregister_agent(AgentId agent, Instant now) {
  if (auto removed = agents_.remove(agent); !removed) {
    return removed;
  }
  // Handlers may start and end other transactions, so each iteration searches again.
  TransactionId last;
  for (auto next = key_of_.upper_bound(last); next != key_of_.end();
       next = key_of_.upper_bound(last)) {
    last = next->first;
    const auto entry = exchanges_.find(next->second);
    if (entry->second.agent == agent) {
      ++counters_.cancelled;
      complete(entry, {.status = TransactionStatus::Cancelled}, now);
    }
  }
  return {};
}

void ManagementInterface::set_subnet_manager(Lid lid, ServiceLevel sl) {
  subnet_manager_.lid = lid;
  subnet_manager_.sl = sl;
}

void ManagementInterface::transmit(const MadAddress& to, const MadBytes& mad) {
  if (out_.size() >= limits_.queued_mads) {
    ++counters_.discarded;  // as in a network; requests are retried
    return;
  }
  out_.push_back({.address = to, .bytes = mad});
}

void ManagementInterface::arm(ExchangeEntry entry, Instant deadline) {
  deadlines_.erase({entry->second.deadline, entry->first});
  entry->second.deadline = deadline;
  if (deadline != Instant::never()) {
    deadlines_.emplace(deadline, entry->first);
  }
}

void ManagementInterface::erase(ExchangeEntry entry) {
  arm(entry, Instant::never());
  if (entry->second.receiver) {
    receiving_bytes_ -= entry->second.receiver->bytes_held();
  }
  if (entry->first.side == Side::Server) {
    --served_;
  } else if (entry->second.phase == Phase::Lingering) {
    --lingering_;
  }
  exchanges_.erase(entry);
}

/// Limits a peer's share of the memory: one that never acknowledges responses would otherwise use
/// up all of it.
bool ManagementInterface::is_within_share(const ExchangeKey& key, std::size_t answer_bytes) const {
  std::size_t exchanges = 0;
  std::size_t bytes = answer_bytes;
  for (auto entry = exchanges_.lower_bound({.side = Side::Server}); entry != exchanges_.end();
       ++entry) {
    const auto& [other, exchange] = *entry;
    if (other == key || other.lid != key.lid || other.gid != key.gid ||
        exchange.phase == Phase::Lingering) {
      continue;
    }
    ++exchanges;
    bytes += exchange.sender ? std::size_t{exchange.sender->segments()} * wire::kMadBytes : 0;
  }
  return exchanges < limits_.served_exchanges_of_peer &&
         (exchanges == 0 || bytes <= limits_.sent_bytes_of_peer);
}

/// True if the exchange exists or there is room for it; makes room by dropping lingering exchanges.
bool ManagementInterface::can_serve(const ExchangeKey& key, std::size_t answer_bytes) {
  if (!is_within_share(key, answer_bytes)) {
    return false;
  }
  if (served_ < limits_.served_exchanges || exchanges_.contains(key)) {
    return true;
  }
  for (auto entry = exchanges_.lower_bound({.side = Side::Server}); entry != exchanges_.end();
       ++entry) {
    if (entry->second.phase == Phase::Lingering) {
      erase(entry);
      return true;
    }
  }
  return false;
}

void ManagementInterface::expire(ExchangeEntry entry, Instant now) {
  Exchange& exchange = entry->second;
  switch (exchange.phase) {
    case Phase::Waiting:
      WEFT_ASSERT(false, "what waits has no deadline");
      break;
    case Phase::Sending:
      exchange.sender->handle_timeout(now);
      if (exchange.sender->state() == RmppSender::State::Failed) {
        return sender_failed(entry, now);
      }
      return send_segments(entry, now);
    case Phase::Asked:
      return retry_or_fail(entry, now);
    case Phase::Receiving: {
      const std::size_t held = exchange.receiver->bytes_held();
      const auto abort = exchange.receiver->handle_timeout(now);
      receiving_bytes_ -= held - exchange.receiver->bytes_held();
      WEFT_ASSERT(abort.has_value(), "an exchange that is under way can be aborted");
      reply(exchange.peer, exchange.receiver->first(), *abort);
      ++counters_.timed_out;
      if (entry->first.side == Side::Client) {
        return complete(
            entry,
            {.status = TransactionStatus::RmppFailed, .rmpp_status = exchange.receiver->failure()},
            now);
      }
      return erase(entry);
    }
    case Phase::Deferred:
      ++counters_.timed_out;
      return erase(entry);
    case Phase::Lingering:
      return erase(entry);
  }
}

void ManagementInterface::handle_timeout(Instant now) {
  // Terminates, because each expiry removes the deadline or sets it later than now.
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto entry = exchanges_.find(deadlines_.begin()->second);
    arm(entry, Instant::never());
    expire(entry, now);
  }
}

std::optional<MadPacket> ManagementInterface::poll_transmit(Instant now) {
  if (out_.empty() || !pacer_.may_pass(now)) {
    return std::nullopt;
  }
  const MadPacket packet = out_.front();
  out_.pop_front();
  pacer_.pass(now);
  ++counters_.sent;
  snoop(Direction::Sent, packet.address, packet.bytes);
  return packet;
}

Instant ManagementInterface::deadline() const {
  const Instant timer = deadlines_.empty() ? Instant::never() : deadlines_.begin()->first;
  return out_.empty() ? timer : std::min(timer, pacer_.next());
}

std::uint32_t ManagementInterface::add_snooper(Snooper snooper) {
  snoopers_.emplace(++last_snooper_, std::move(snooper));
  return last_snooper_;
}

void ManagementInterface::snoop(Direction way, const MadAddress& address, ByteSpan bytes) const {
  for (const auto& [id, snooper] : snoopers_) {
    snooper(way, address, bytes);
  }
}

void ManagementInterface::check_invariants() const {
  std::size_t in_flight = 0;
  std::size_t served = 0;
  std::size_t held = 0;
  std::size_t armed = 0;
  std::size_t open = 0;
  std::size_t lingering = 0;
  for (const auto& [key, exchange] : exchanges_) {
    const bool is_open = key.side == Side::Client && exchange.phase != Phase::Lingering;
    open += is_open ? 1 : 0;
    lingering += key.side == Side::Client && !is_open ? 1 : 0;
    in_flight += is_open && exchange.phase != Phase::Waiting ? 1 : 0;
    served += key.side == Side::Server ? 1 : 0;
    held += exchange.receiver ? exchange.receiver->bytes_held() : 0;
    armed += exchange.deadline != Instant::never() ? 1 : 0;
    WEFT_ASSERT((exchange.deadline == Instant::never()) == (exchange.phase == Phase::Waiting),
                "the interface keeps its invariants");
    WEFT_ASSERT(
        exchange.deadline == Instant::never() || deadlines_.contains({exchange.deadline, key}),
        "the interface keeps its invariants");
    WEFT_ASSERT(exchange.phase != Phase::Sending || exchange.sender.has_value(),
                "the interface keeps its invariants");
    WEFT_ASSERT(exchange.phase != Phase::Receiving || exchange.receiver.has_value(),
                "the interface keeps its invariants");
    WEFT_ASSERT(!is_open || key_of_.at(exchange.transaction) == key,
                "the interface keeps its invariants");
  }
  WEFT_ASSERT(in_flight == in_flight_ && in_flight <= limits_.in_flight,
              "the interface keeps its invariants");
  WEFT_ASSERT(served == served_ && served <= limits_.served_exchanges,
              "the interface keeps its invariants");
  WEFT_ASSERT(held == receiving_bytes_, "the interface keeps its invariants");
  WEFT_ASSERT(lingering == lingering_ && lingering <= limits_.transactions,
              "the interface keeps its invariants");
  WEFT_ASSERT(armed == deadlines_.size(), "the interface keeps its invariants");
  WEFT_ASSERT(open == key_of_.size() && open <= limits_.transactions,
              "the interface keeps its invariants");
  WEFT_ASSERT(out_.size() <= limits_.queued_mads, "the interface keeps its invariants");
}

}  // namespace weft::mad
