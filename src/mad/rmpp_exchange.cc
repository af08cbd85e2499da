// ManagementInterface: exchanges by RMPP (IBTA vol 1 §13.6).

#include <span>
#include <utility>

#include "mad/management_interface.h"

namespace weft::mad {
namespace {

[[nodiscard]] wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

}  // namespace

/// ACK, STOP and ABORT have the opposite R bit of the segment they refer to, so the R bit
/// identifies the exchange as for any other MAD.
void ManagementInterface::handle_rmpp(const MadAddress& source, const MadBytes& mad, Instant now) {
  const wire::Rmpp rmpp = rmpp_of(mad);
  const auto entry = find(source, header_of(mad));
  if (rmpp.version == wire::kRmppVersion && rmpp.type == wire::RmppType::Data) {
    return handle_data(source, mad, now);
  }
  if (entry == exchanges_.end() || entry->second.phase == Phase::Waiting) {
    ++counters_.unmatched_answers;
    return;
  }
  if (rmpp.version != wire::kRmppVersion) {
    return end_by_us(entry, mad, wire::RmppStatus::UnsupportedVersion, now);
  }
  switch (rmpp.type) {
    case wire::RmppType::Ack:
      return handle_ack(entry, mad, now);
    case wire::RmppType::Stop:
    case wire::RmppType::Abort:
      return end_by_peer(entry, rmpp.status, now);
    case wire::RmppType::None:
    case wire::RmppType::Data:
      break;
  }
  end_by_us(entry, mad, wire::RmppStatus::BadType, now);
}

RmppReceiver ManagementInterface::make_receiver(wire::ManagementClass mgmt_class,
                                                Instant now) const {
  return {
      mgmt_class,
      {.window = limits_.rmpp_window,
        .message_bytes = limits_.rmpp_message_bytes,
        .total_time = limits_.rmpp_total_time},
      now
  };
}

/// Finds or creates the exchange for a peer's request. The caller has checked that there is room.
ManagementInterface::ExchangeEntry ManagementInterface::serve(const ExchangeKey& key,
                                                              const MadAddress& peer) {
  const auto [entry, is_new] = exchanges_.try_emplace(key);
  if (is_new) {
    ++served_;
    entry->second.peer = peer;
  }
  return entry;
}

void ManagementInterface::handle_data(const MadAddress& source, const MadBytes& mad, Instant now) {
  const wire::MadHeader header = header_of(mad);
  auto entry = find(source, header);
  if (entry != exchanges_.end() && entry->second.phase != Phase::Waiting) {
    return take_data(entry, mad, now);
  }
  if (is_answer(header)) {
    ++counters_.unmatched_answers;
    return;
  }
  if (!rmpp_of(mad).is_first) {
    ++counters_.discarded;  // the first segment was lost, or dropped here
    return;
  }
  if (handler_for(source, mad) == nullptr) {
    return;
  }
  const ExchangeKey key = key_of_received(source, header);
  if (!can_serve(key)) {
    return reply(source, mad, make_receiver(header.mgmt_class, now).stop());
  }
  entry = serve(key, source);
  entry->second.phase = Phase::Receiving;
  entry->second.receiver = make_receiver(header.mgmt_class, now);
  arm(entry, entry->second.receiver->deadline());
  take_data(entry, mad, now);
}

void ManagementInterface::take_data(ExchangeEntry entry, const MadBytes& mad, Instant now) {
  Exchange& exchange = entry->second;
  const bool is_client = entry->first.side == Side::Client;
  if (!exchange.receiver) {
    if (!is_client || !rmpp_of(mad).is_first) {
      ++counters_.duplicates;
      return;
    }
    // The response also acknowledges the whole request.
    exchange.phase = Phase::Receiving;
    exchange.sender.reset();
    exchange.receiver = make_receiver(entry->first.mgmt_class, now);
    arm(entry, exchange.receiver->deadline());
  }
  const bool was_receiving = exchange.receiver->state() == RmppReceiver::State::Receiving;
  const std::size_t held = exchange.receiver->bytes_held();
  const bool has_room = receiving_bytes_ + wire::kMadBytes <= limits_.rmpp_total_bytes;
  const auto answer =
      has_room || !was_receiving ? exchange.receiver->handle_data(mad) : exchange.receiver->stop();
  receiving_bytes_ += exchange.receiver->bytes_held();
  receiving_bytes_ -= held;
  if (answer) {
    reply(exchange.peer, mad, *answer);
  }
  if (!was_receiving || exchange.receiver->state() == RmppReceiver::State::Receiving) {
    return;
  }
  if (exchange.receiver->state() == RmppReceiver::State::Failed) {
    if (is_client) {
      complete(
          entry,
          {.status = TransactionStatus::RmppFailed, .rmpp_status = exchange.receiver->failure()},
          now);
    } else {
      erase(entry);
    }
    return;
  }
  receiving_bytes_ -= exchange.receiver->bytes_held();
  MadMessage message = exchange.receiver->take();
  if (is_client) {
    const MadAddress source = exchange.peer;
    return complete(
        entry, {.status = TransactionStatus::Answered, .answer = &message, .source = source}, now);
  }
  exchange.phase = Phase::Lingering;
  arm(entry, now + limits_.linger);
  const ExchangeKey key = entry->first;
  const MadAddress source = exchange.peer;
  if (MadHandler* const handler = handler_for(source, message.mad)) {
    deliver(*handler, key, source, std::move(message), now);
  }
}

void ManagementInterface::start_sending(ExchangeEntry entry, MadMessage message, Instant now) {
  Exchange& exchange = entry->second;
  const Duration wait =
      entry->first.side == Side::Client ? exchange.options.timeout : limits_.rmpp_response_time;
  const unsigned retries =
      entry->first.side == Side::Client ? exchange.options.retries : limits_.rmpp_retries;
  exchange.phase = Phase::Sending;
  exchange.sender.emplace(std::move(message),
                          RmppSender::Options{.response_time = wait,
                                              .retries = retries,
                                              .total_time = limits_.rmpp_total_time,
                                              .window = limits_.rmpp_window},
                          now);
  send_segments(entry, now);
}

void ManagementInterface::send_segments(ExchangeEntry entry, Instant now) {
  RmppSender& sender = *entry->second.sender;
  const std::uint32_t resent = sender.resent();
  while (const auto segment = sender.next_segment(now)) {
    transmit(entry->second.peer, *segment);
  }
  counters_.resent += sender.resent() - resent;
  arm(entry, sender.deadline());
}

void ManagementInterface::handle_ack(ExchangeEntry entry, const MadBytes& mad, Instant now) {
  Exchange& exchange = entry->second;
  if (!exchange.sender) {
    return;  // direction change of a double-sided transfer: nothing to do, the window starts at 1
  }
  const bool is_client = entry->first.side == Side::Client;
  if (exchange.phase == Phase::Sending) {
    exchange.sender->handle_ack(rmpp_of(mad), now);
    if (exchange.sender->state() == RmppSender::State::Failed) {
      return sender_failed(entry, now);
    }
    if (exchange.sender->state() == RmppSender::State::Sending) {
      return send_segments(entry, now);
    }
    if (!is_client) {
      if (!exchange.receiver) {
        return erase(entry);
      }
      exchange.sender.reset();
      exchange.phase = Phase::Lingering;
      return arm(entry, now + limits_.linger);
    }
    if (!exchange.options.expects_answer) {
      return complete(entry, {.status = TransactionStatus::Sent}, now);
    }
    exchange.phase = Phase::Asked;
    arm(entry, now + exchange.options.timeout * (std::int64_t{exchange.options.retries} + 1));
  }
  if (is_client && exchange.phase == Phase::Asked) {
    // §13.6.3: an ACK of segment 0 gives the peer its turn; repeated for a duplicate of its ACK.
    wire::Rmpp turn = rmpp_reply(wire::RmppType::Ack, wire::RmppStatus::Normal);
    turn.data2 = 1;
    reply(exchange.peer, mad, turn);
  }
}

/// Answers a segment or ACK: same headers with the R bit inverted, without data.
void ManagementInterface::reply(const MadAddress& to, const MadBytes& mad, const wire::Rmpp& rmpp) {
  MadMessage message{.mad = mad};
  wire::MadHeader header = message.header();
  header.method = static_cast<wire::MadMethod>(static_cast<std::uint8_t>(header.method) ^
                                               wire::kMethodResponseBit);
  message.set_header(header);
  set_rmpp(message.mad, rmpp);
  const auto data = std::span{message.mad}.subspan(data_offset(header.mgmt_class));
  std::ranges::fill(data, std::byte{});
  counters_.rmpp_refused += rmpp.type == wire::RmppType::Ack ? 0 : 1;
  transmit(to, message.mad);
}

void ManagementInterface::sender_failed(ExchangeEntry entry, Instant now) {
  Exchange& exchange = entry->second;
  const wire::RmppStatus status = exchange.sender->failure();
  MadBytes mad = exchange.sender->header();
  set_rmpp(mad, rmpp_reply(wire::RmppType::Abort, status));
  ++counters_.rmpp_refused;
  transmit(exchange.peer, mad);
  if (entry->first.side == Side::Server) {
    return erase(entry);
  }
  const bool is_timeout =
      status == wire::RmppStatus::TooManyRetries || status == wire::RmppStatus::TotalTimeTooLong;
  counters_.timed_out += is_timeout ? 1 : 0;
  complete(entry,
           {.status = is_timeout ? TransactionStatus::TimedOut : TransactionStatus::RmppFailed,
            .rmpp_status = status},
           now);
}

void ManagementInterface::end_by_us(ExchangeEntry entry, const MadBytes& mad,
                                    wire::RmppStatus status, Instant now) {
  reply(entry->second.peer, mad, rmpp_reply(wire::RmppType::Abort, status));
  end(entry, status, now);
}

void ManagementInterface::end_by_peer(ExchangeEntry entry, wire::RmppStatus status, Instant now) {
  ++counters_.rmpp_ended_by_peer;
  end(entry, status, now);
}

void ManagementInterface::end(ExchangeEntry entry, wire::RmppStatus status, Instant now) {
  if (entry->first.side == Side::Client && entry->second.phase != Phase::Lingering) {
    complete(entry, {.status = TransactionStatus::RmppFailed, .rmpp_status = status}, now);
  } else {
    erase(entry);
  }
}

}  // namespace weft::mad
