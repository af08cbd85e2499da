#include "sim/uc_end.h"
#include "verbs/mtu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace weft::sim {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using hca::WrOpcode;

constexpr std::uint32_t kMtuBytes = 256;
constexpr std::uint32_t kMaxMessageBytes = 3000;
/// Distance between the PSNs before and after a reset, so that late packets can be recognized.
constexpr std::uint32_t kPsnsBetweenLives = 5000;

[[nodiscard]] wire::Opcode opcode_of(bool is_write, bool is_first, bool is_last, bool immediate) {
  using wire::Position;
  const Position position = is_first ? (is_last ? Position::Only : Position::First)
                                     : (is_last ? Position::Last : Position::Middle);
  return wire::make_opcode(wire::Transport::Uc,
                           is_write ? wire::Operation::RdmaWrite : wire::Operation::Send, position,
                           is_last && immediate, false);
}

}  // namespace

UcEnd::UcEnd(hca::Hca& hca, hca::ProtectionDomain& pd, Lid lid, std::uint64_t seed,
             std::uint32_t operations, Verdict& verdict)
    : UnreliableEnd(hca, pd, hca::QpType::Uc, lid, seed, operations, verdict),
      next_psn_(Psn{0xFF'FF00 + static_cast<std::uint32_t>(seed % 256)}) {}  // wraps soon

std::uint32_t UcEnd::Message::packets() const {
  return std::max(1U, (length + kMtuBytes - 1) / kMtuBytes);
}

void UcEnd::connect() {
  next_psn_ = next_psn_ + kPsnsBetweenLives;
  to_send_.clear();
  parts_sent_ = 0;
  run_.reset();
  hca::QpAttributes to;
  to.port = PortNumber{1};
  to.access = hca::Access::RemoteWrite;
  move_to(to, hca::QpState::Init,
          QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::RemoteAccess);
  to.path_mtu = verbs::Mtu::Mtu256;
  to.dest_qpn = peer_->qp().number();
  to.address.dlid = peer_->lid();
  move_to(to, hca::QpState::Rtr,
          QpAttributeMask{QpAttribute::AddressVector} | QpAttribute::PathMtu |
              QpAttribute::DestQpn | QpAttribute::RqPsn);
  to.sq_psn = next_psn_;
  move_to(to, hca::QpState::Rts, QpAttribute::SqPsn);
}

void UcEnd::post_message(std::uint64_t number) {
  static constexpr std::array kKinds = {WrOpcode::Send, WrOpcode::SendWithImmediate,
                                        WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImmediate};
  Message message;
  message.opcode = kKinds[random_.below(kKinds.size())];
  message.length = static_cast<std::uint32_t>(
      random_.below(random_.chance(1, 4) ? kInlineBytes : kMaxMessageBytes + 1));
  if (message.is_write() && random_.chance(1, 10)) {
    message.is_refused = true;
    message.length = 600;
  }
  messages_[number] = message;
  to_send_.push_back(number);
  hca::SendWr wr;
  wr.opcode = message.opcode;
  wr.immediate = static_cast<std::uint32_t>(number);
  wr.remote_address = remote_address(number);
  wr.rkey = peer_->region_->rkey;
  post(number, message.length, wr);
}

std::uint64_t UcEnd::remote_address(std::uint64_t number) const {
  const std::size_t at =
      messages_.at(number).is_refused ? kRegisteredEnd - 300 : kWriteAt + number % kSlots * kStride;
  return peer_->region_->iova + at;
}

void UcEnd::check_sent(const hca::Packet& packet) {
  if (to_send_.empty()) {
    report_failure("a packet goes out that belongs to no message");
    return;
  }
  const Part part{.message = to_send_.front(), .index = parts_sent_++};
  check_part(packet, part);
  sent_[next_psn_.value()] = part;
  next_psn_ = next_psn_ + 1;
  if (parts_sent_ == messages_.at(part.message).packets()) {
    to_send_.pop_front();
    parts_sent_ = 0;
  }
}

void UcEnd::check_part(const hca::Packet& packet, const Part& part) {
  const Message& message = messages_.at(part.message);
  const bool is_first = part.index == 0;
  const bool is_last = part.index + 1 == message.packets();
  const std::uint32_t offset = part.index * kMtuBytes;
  const hca::PacketHeader& header = packet.header;
  if (header.psn != next_psn_ || header.slid != lid_ || header.dlid != peer_->lid() ||
      header.dest_qp != peer_->qp().number()) {
    report_failure(fmt::format("message {} goes out with a PSN or an address that is not its own",
                               part.message));
  }
  if (header.opcode != opcode_of(message.is_write(), is_first, is_last, message.has_immediate())) {
    report_failure(fmt::format("packet {} of message {} goes out as {:#x}", part.index,
                               part.message, static_cast<unsigned>(header.opcode)));
  }
  if (packet.payload.size() != (is_last ? message.length - offset : kMtuBytes)) {
    report_failure(fmt::format("packet {} of message {} has {} bytes", part.index, part.message,
                               packet.payload.size()));
  }
  const wire::Reth& reth = header.extension.reth;
  if (message.is_write() && is_first &&
      (reth.virtual_address != remote_address(part.message) || reth.rkey != peer_->region_->rkey ||
       reth.dma_length != message.length)) {
    report_failure(fmt::format("WRITE {} goes out to another place than was asked", part.message));
  }
  if (message.has_immediate() && is_last &&
      header.immediate_or_rkey != static_cast<std::uint32_t>(part.message)) {
    report_failure(fmt::format("message {} goes out with another's immediate", part.message));
  }
  check_payload(packet, part.message, offset);
}

/// True if the responder accepts the message on arrival of its first packet.
bool UcEnd::begins(const Message& message) const {
  return message.is_write() ? !message.is_refused : next_receive() != nullptr;
}

void UcEnd::expect(const hca::Packet& packet) {
  const auto found = peer_->sent_.find(packet.header.psn.value());
  if (found == peer_->sent_.end()) {
    report_failure("a packet arrives that nobody sent");
    return;
  }
  const Part part = found->second;
  const Message& message = peer_->messages_.at(part.message);
  const bool goes_on = run_ && run_->message == part.message && run_->index == part.index;
  run_.reset();
  if (part.index == 0 ? !begins(message) : !goes_on) {
    return;
  }
  const std::uint32_t bytes = std::min(message.length, (part.index + 1) * kMtuBytes);
  if (!message.is_write() && bytes > next_receive()->length) {
    expected_ = Expected{.wc = too_long(),
                         .payload_at = 0,
                         .payload_bytes = 0,
                         .sender = peer_,
                         .message = part.message};
  } else if (part.index + 1 == message.packets()) {
    expect_whole(part);
  } else {
    run_ = Part{.message = part.message, .index = part.index + 1};
  }
}

void UcEnd::expect_whole(const Part& last) {
  const Message& message = peer_->messages_.at(last.message);
  if (message.opcode == WrOpcode::RdmaWrite) {
    written_ = last.message;
    return;
  }
  if (next_receive() == nullptr) {
    return;  // a WRITE with immediate is dropped if no receive is posted
  }
  hca::Wc wc;
  wc.opcode = message.is_write() ? hca::WcOpcode::ReceiveRdmaWithImmediate : hca::WcOpcode::Receive;
  wc.byte_length = message.length;
  wc.src_qpn = peer_->qp().number();
  wc.slid = peer_->lid();
  if (message.has_immediate()) {
    wc.flags = hca::Completion::WithImmediate;
    wc.immediate = static_cast<std::uint32_t>(last.message);
  }
  expected_ = Expected{.wc = wc,
                       .payload_at = message.is_write() ? kWriteAt + last.message % kSlots * kStride
                                                        : next_receive()->at,
                       .payload_bytes = message.length,
                       .sender = peer_,
                       .message = last.message};
}

void UcEnd::check_delivery(const Expected& expected, const Receive& /*receive*/) {
  if (in_order_ && newest_delivery_ && expected.message <= *newest_delivery_) {
    report_failure(
        fmt::format("message {} arrives after message {}", expected.message, *newest_delivery_));
  }
  newest_delivery_ = expected.message;
}

void UcEnd::check_memory() {
  if (const auto number = std::exchange(written_, std::nullopt)) {
    if (!holds(kWriteAt + *number % kSlots * kStride, peer_->messages_.at(*number).length, *peer_,
               *number)) {
      report_failure(fmt::format("WRITE {} arrived whole, and its data is not in place", *number));
    }
  }
}

}  // namespace weft::sim
