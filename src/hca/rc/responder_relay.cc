// The responder of an XRC target and SRQs of other processes (hca/xrc_relay.h).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/process_slot.h"
#include "hca/rc/responder.h"
#include "verbs/mtu.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::Operation;
using wire::Position;

[[nodiscard]] bool starts(const wire::OpcodeInfo& info) {
  return info.position == Position::First || info.position == Position::Only;
}

[[nodiscard]] bool ends(const PacketHeader& header) {
  const Position position = wire::opcode_info(header.last_opcode)->position;
  return position == Position::Last || position == Position::Only;
}

[[nodiscard]] bool is_message(Operation operation) {
  return operation == Operation::Send || operation == Operation::RdmaWrite;
}

/// The fault that a proxy reports by this NAK code: the one with the same answer.
[[nodiscard]] RcFault fault_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::InvalidRequest:
      return RcFault::Length;
    case wire::NakCode::RemoteAccessError:
      return RcFault::RKeyViolation;
    case wire::NakCode::RemoteOperationalError:
      return RcFault::LocalQpOperation;
    case wire::NakCode::InvalidRdRequest:
      return RcFault::Invalidation;
    case wire::NakCode::PsnSequenceError:
      break;
  }
  return RcFault::InvalidXrceth;  // a proxy never sends this
}

}  // namespace

/// A request for an SRQ of another process, or one that arrives while a proxy is busy.
void RcResponder::relay_request(const Packet& packet) {
  if (relay_ == nullptr) {
    relay_ = std::make_unique<XrcRelay>();
  }
  if (relay_->call.is_active) {
    hold(packet);
    return;
  }
  const std::int32_t offset = distance(expected_, packet.header.psn);
  if (offset != 0) {
    handle_unexpected(packet, offset);
    return;
  }
  report_established();
  const Refusal refusal = check_before_relaying(packet);
  if (refusal.fault == RcFault::None) {
    gap_reported_ = false;
    relay_expected(packet);
  } else if (packet.header.packet_count > 1) {
    handle_singles_of(packet);
  } else {
    refuse(packet, refusal);
  }
}

/// The checks that do not depend on the SRQ; the proxy does the rest.
RcResponder::Refusal RcResponder::check_before_relaying(const Packet& packet) const {
  const wire::OpcodeInfo* const info = wire::opcode_info(packet.header.opcode);
  if (info == nullptr || info->operation == Operation::AtomicWrite) {
    return {RcFault::OpcodeUnsupported, "the operation is no XRC request"};
  }
  if (const Refusal refusal = check_sequence(*info); refusal.fault != RcFault::None) {
    return refusal;
  }
  if (message_.active && message_.xrc_srqn != packet.header.xrc_srqn) {
    return {RcFault::InvalidXrceth, "the packets of one message name different XRC SRQs"};
  }
  if (const Refusal refusal = check_permission(packet.header, *info);
      refusal.fault != RcFault::None) {
    return refusal;
  }
  if (!is_message(info->operation) &&
      pending_count_ - repeats_ >= core_.attributes.max_dest_rd_atomic) {
    return {RcFault::TooManyReads, "more READs and atomics outstanding than max_dest_rd_atomic"};
  }
  return info->operation == Operation::RdmaReadRequest &&
                 packet.header.extension.reth.dma_length > (1U << 31)
             ? Refusal{RcFault::Length, "a READ of more than 2^31 bytes"}
             : Refusal{};
}

void RcResponder::relay_expected(const Packet& packet) {
  if (wire::opcode_info(packet.header.opcode)->operation == Operation::RdmaReadRequest) {
    execute_read(packet);
    pending_at(pending_count_ - 1).answer = Answer::ProxyRead;
    expected_ = expected_ +
                verbs::packets(packet.header.extension.reth.dma_length, core_.attributes.path_mtu);
    return;
  }
  if (packet.payload.size() > XrcRelay::kMaxCallBytes && packet.header.packet_count > 1) {
    handle_singles_of(packet);
    return;
  }
  begin_relay(packet.header, target_.owner_slot, packet.header.packet_count, false);
  relay_->call.payload.assign(packet.payload.begin(), packet.payload.end());
}

/// Copies the packet, which lies in a ring. A repetition of the request that the proxy has may mean
/// that the request or its response was lost.
void RcResponder::hold(const Packet& packet) {
  XrcRelay& relay = *relay_;
  if (!relay.call.is_chunk && packet.header.psn == expected_) {
    relay.call.is_sent = false;
    return;
  }
  if (relay.held.size() >= XrcRelay::kMaxHeld ||
      relay.held_bytes + packet.payload.size() > XrcRelay::kMaxHeldBytes) {
    relay.has_dropped = true;
    return;
  }
  relay.held.push_back({
      .header = packet.header, .payload = {packet.payload.begin(), packet.payload.end()}
  });
  relay.held_bytes += packet.payload.size();
}

/// Handles held requests until a proxy is busy again.
void RcResponder::process_held() {
  XrcRelay& relay = *relay_;
  while (!relay.call.is_active && !relay.held.empty()) {
    const XrcRelay::Held next = std::move(relay.held.front());
    relay.held.pop_front();
    relay.held_bytes -= next.payload.size();
    handle_request({.header = next.header, .payload = next.payload});
  }
  if (!relay.call.is_active && std::exchange(relay.has_dropped, false) && !gap_reported_ &&
      !core_.is_failing(Half::Responder)) {
    gap_reported_ = true;
    schedule_nak(wire::Syndrome::nak(wire::NakCode::PsnSequenceError), expected_);
  }
}

// --- a relay: one request to a proxy and its response

void RcResponder::begin_relay(const PacketHeader& request, std::uint32_t slot,
                              std::uint32_t packets, bool is_chunk) {
  XrcRelay& relay = *relay_;
  relay.call.is_active = true;
  relay.call.is_sent = false;
  relay.call.is_chunk = is_chunk;
  relay.call.slot = slot;
  relay.call.packets = packets;
  relay.call.request = request;
  relay.call.payload.clear();
  if (relay.callee() != nullptr) {
    return;
  }
  relay.owners.push_back({.slot = slot,
                          .is_for_reads = is_chunk,
                          .serial = ++relay.serial,
                          .proxy = std::nullopt,
                          .next = Psn{0}});
  core_.events.xrc_proxy_requested({
      .slot = slot,
      .serial = relay.serial,
      .domain = core_.xrcd->name,
      .is_for_reads = is_chunk,
      .of = {.target = core_.number,
             .source = core_.attributes.dest_qpn,
             .slid = core_.route.dlid,
             .sl = core_.route.sl},
      .port = core_.attributes.port,
      .pkey_index = core_.attributes.pkey_index,
      .path_mtu = core_.attributes.path_mtu,
      .min_rnr_timer = core_.attributes.min_rnr_timer,
  });
}

bool RcResponder::wants_relay() const {
  if (relay_ == nullptr || !relay_->call.is_active || relay_->call.is_sent) {
    return false;
  }
  const XrcRelay::Owner* const owner = relay_->callee();
  return owner != nullptr && owner->proxy.has_value();
}

/// Both processes are on one host, so the packet goes from the port's LID to itself.
bool RcResponder::transmit_call(TransmitSink& sink) {
  if (closing_ && pending_count_ == 0) {
    release_proxies();
  }
  if (!wants_relay()) {
    return false;
  }
  XrcRelay::Call& call = relay_->call;
  const XrcRelay::Owner& owner = *relay_->callee();
  PacketHeader header = call.request;
  header.slid = header.dlid = core_.own_lid();
  header.sl = core_.route.sl;
  header.has_grh = false;
  header.pkey = core_.pkey;
  header.migrated = true;
  header.dest_qp = *owner.proxy;
  header.psn = owner.next;
  header.ack_request = true;
  const std::array<ByteSpan, 1> gather{ByteSpan{call.payload}};
  call.is_sent =
      sink.send_to_proxy(header, call.payload.empty() ? std::span<const ByteSpan>{}
                                                      : std::span<const ByteSpan>{gather});
  return !call.is_sent;
}

void RcResponder::handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy) {
  if (relay_ == nullptr) {
    return;
  }
  const auto owner = std::ranges::find(relay_->owners, serial, &XrcRelay::Owner::serial);
  if (owner == relay_->owners.end() || owner->slot != slot || owner->proxy) {
    return;  // the outcome of an outdated request
  }
  if (proxy && slot_of(*proxy) == slot) {
    owner->proxy = proxy;
  } else {
    handle_owner_gone(slot);
  }
}

void RcResponder::handle_owner_gone(std::uint32_t slot) {
  if (!has_proxy_in(slot)) {
    return;
  }
  std::erase_if(relay_->owners, [slot](const auto& owner) { return owner.slot == slot; });
  if (relay_->call.is_active && relay_->call.slot == slot) {
    fail_relay(0, {RcFault::InvalidXrceth,
                   "no process of this host that has the XRC domain open has an SRQ of the number "
                   "in the XRCETH"});
    process_held();
  }
}

bool RcResponder::has_proxy_in(std::uint32_t slot) {
  return relay_ != nullptr &&
         std::ranges::find(relay_->owners, slot, &XrcRelay::Owner::slot) != relay_->owners.end();
}

/// Untrusted: only a response to the request in progress, from the process that has it, is
/// accepted.
void RcResponder::handle_proxy_response(const Packet& packet) {
  if (relay_ == nullptr || !relay_->call.is_active || !relay_->call.is_sent ||
      packet.source_slot != relay_->call.slot || packet.header.slid != core_.own_lid()) {
    return;
  }
  const XrcRelay::Call& call = relay_->call;
  const auto offset = distance(relay_->callee()->next, packet.header.psn);
  if (offset < 0 || static_cast<std::uint32_t>(offset) >= call.packets) {
    return;
  }
  const auto executed = static_cast<std::uint32_t>(offset);
  const Operation asked = wire::opcode_info(call.request.opcode)->operation;
  const wire::Syndrome syndrome = packet.header.extension.response.aeth.syndrome;
  switch (wire::opcode_info(packet.header.opcode)->operation) {
    case Operation::Acknowledge:
      if (syndrome.kind() == wire::SyndromeKind::RnrNak) {
        fail_relay(executed, {RcFault::ReceiverNotReady, "no receive WQE is posted"});
      } else if (syndrome.kind() == wire::SyndromeKind::Nak) {
        fail_relay(executed, {fault_of(static_cast<wire::NakCode>(syndrome.code())),
                              "the process that has the XRC SRQ refuses it"});
      } else if (is_message(asked) && executed + 1 == call.packets) {
        end_message_call(call.packets);
      } else {
        return;
      }
      break;
    case Operation::RdmaReadResponse:
      if (call.is_chunk) {
        take_chunk(packet);
      } else if (asked == Operation::Flush) {
        end_flush_call();
      }
      break;
    case Operation::AtomicAcknowledge:
      if (asked == Operation::CompareSwap || asked == Operation::FetchAdd) {
        end_atomic_relay(packet.header.extension.response.atomic_ack.original);
      }
      break;
    default:
      return;
  }
  process_held();
}

/// The proxy has executed `executed` packets of the request, and the call ends.
void RcResponder::end_call(std::uint32_t executed) {
  XrcRelay& relay = *relay_;
  relay.call.is_active = false;
  if (XrcRelay::Owner* const owner = relay.callee()) {
    owner->next = owner->next + executed;
  }
}

/// Completes all of a SEND or WRITE packet or train, or its first packets.
void RcResponder::end_message_call(std::uint32_t executed) {
  const PacketHeader& request = relay_->call.request;
  const wire::OpcodeInfo& first = *wire::opcode_info(request.opcode);
  const bool is_whole = executed == request.packet_count;
  end_call(executed);
  if (starts(first) && executed != 0) {
    message_ = {.active = true,
                .is_write = first.operation == Operation::RdmaWrite,
                .is_for_proxy = true,
                .xrc_srqn = request.xrc_srqn};
  }
  expected_ = expected_ + executed;
  if (!is_whole) {
    return;
  }
  if (ends(request)) {
    msn_ = msn_ + 1;
    message_ = {};
  }
  if (request.ack_request) {
    schedule_ack(expected_ - 1);
  }
}

void RcResponder::end_atomic_relay(std::uint64_t original) {
  end_call(1);
  record_atomic(relay_->call.request, original);
  expected_ = expected_ + 1;
}

void RcResponder::end_flush_call() {
  end_call(1);
  push_empty_read(relay_->call.request.psn);
  expected_ = expected_ + 1;
}

void RcResponder::fail_relay(std::uint32_t executed, const Refusal& refusal) {
  const PacketHeader& request = relay_->call.request;
  if (relay_->call.is_chunk) {
    end_call(0);
    relay_->chunk.state = XrcRelay::Chunk::State::Failed;
    return;
  }
  if (is_message(wire::opcode_info(request.opcode)->operation)) {
    end_message_call(executed);
  } else {
    end_call(0);
  }
  Packet refused{.header = request, .payload = {}};
  refused.header.psn = expected_;
  refuse(refused, refusal);
}

// --- READs

void RcResponder::take_chunk(const Packet& packet) {
  XrcRelay& relay = *relay_;
  XrcRelay::Chunk& chunk = relay.chunk;
  const std::uint32_t wanted = relay.call.request.extension.reth.dma_length;
  const std::size_t before =
      std::size_t{core_.mtu_bytes()} *
      static_cast<std::uint32_t>(distance(relay.callee()->next, packet.header.psn));
  if (chunk.bytes.size() != before || before + packet.payload.size() > wanted) {
    return;
  }
  chunk.bytes.insert(chunk.bytes.end(), packet.payload.begin(), packet.payload.end());
  if (chunk.bytes.size() == wanted && ends(packet.header)) {
    end_call(relay.call.packets);
    chunk.state = XrcRelay::Chunk::State::Whole;
  }
}

/// The next piece of a READ: fetched from the proxy, then forwarded.
RcResponder::Step RcResponder::transmit_proxy_read(TransmitSink& sink, Pending& pending) {
  using State = XrcRelay::Chunk::State;
  XrcRelay& relay = *relay_;
  XrcRelay::Chunk& chunk = relay.chunk;
  const std::uint32_t most =
      core_.train_packets(std::min(sink.max_train_bytes(), XrcRelay::kMaxCallBytes)) *
      core_.mtu_bytes();
  if (chunk.state == State::None || chunk.psn != pending.psn) {
    if (relay.call.is_active) {
      return Step::Waits;
    }
    const std::uint32_t bytes = std::min(pending.bytes_left, most);
    PacketHeader request;
    request.opcode = request.last_opcode = core_.opcode(wire::Opcode::RcRdmaReadRequest);
    request.path_mtu_bytes = static_cast<std::uint16_t>(core_.mtu_bytes());
    request.xrc_srqn = pending.xrc_srqn;
    request.extension.reth = {
        .virtual_address = pending.address, .rkey = pending.rkey, .dma_length = bytes};
    chunk.state = State::Fetching;
    chunk.psn = pending.psn;
    chunk.bytes.clear();
    begin_relay(request, slot_of(Qpn{pending.xrc_srqn}), core_.packets(bytes), true);
    return Step::Waits;
  }
  if (chunk.state == State::Fetching) {
    return Step::Waits;
  }
  if (chunk.state == State::Failed) {
    chunk.state = State::None;
    schedule_nak(wire::Syndrome::nak(wire::NakCode::RemoteAccessError), pending.psn);
    closing_ = true;
    pending_count_ = 1;  // nothing is sent after the NAK
    repeats_ = pending.is_repeat ? 1 : 0;
    core_.raise(AsyncEventType::QpAccessError);
    core_.fail(Half::Responder, "the process that has the XRC SRQ refuses a READ, or is gone");
    return Step::Failed;
  }
  const auto bytes = static_cast<std::uint32_t>(chunk.bytes.size());
  if (bytes > pending.bytes_left) {  // left over from another READ that started at this PSN
    chunk.state = State::None;
    return transmit_proxy_read(sink, pending);
  }
  const std::uint32_t count = core_.packets(bytes);
  PacketHeader& header = read_response(pending, count, bytes == pending.bytes_left);
  const std::array<ByteSpan, 1> gather{ByteSpan{chunk.bytes}};
  if (!sink.send(Flow::Response, header,
                 bytes == 0 ? std::span<const ByteSpan>{} : std::span<const ByteSpan>{gather})) {
    return Step::NoSpace;
  }
  chunk.state = State::None;
  advance_read(pending, bytes, count);
  return Step::Sent;
}

// --- the end

/// The connection ends with a NAK: READs before it are still answered, nothing else is started.
void RcResponder::fail_requests() {
  relay_->held.clear();
  relay_->held_bytes = 0;
  relay_->has_dropped = false;
  if (!relay_->call.is_chunk) {
    relay_->call.is_active = false;
  }
  if (pending_count_ == 0) {
    release_proxies();
  }
}

void RcResponder::release_proxies() {
  if (relay_ == nullptr) {
    return;
  }
  const bool had_any = !relay_->owners.empty();
  const std::uint32_t serial = relay_->serial;
  *relay_ = XrcRelay{};
  relay_->serial = serial;
  if (had_any) {
    core_.events.xrc_proxies_released(core_.xrcd->name, core_.number);
  }
}

}  // namespace weft::hca
