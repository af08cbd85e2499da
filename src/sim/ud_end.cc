#include "sim/ud_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hca/ud_transport.h"
#include "wire/grh.h"

namespace weft::sim {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using hca::WrOpcode;

constexpr std::uint32_t kMaxDatagramBytes = 3000;
constexpr QKey kWrongQKey{0xBAD};
constexpr QKey kOwnQKey{0x8000'0000};  // IBTA vol 1 §10.2.5: selects the QP's own Q_Key
/// Distance between the PSNs before and after a reset.
constexpr std::uint32_t kPsnsBetweenLives = 5000;

}  // namespace

UdEnd::UdEnd(hca::Hca& hca, hca::ProtectionDomain& pd, Lid lid, std::uint64_t seed,
             std::uint32_t operations, Verdict& verdict)
    : UnreliableEnd(hca, pd, hca::QpType::Ud, lid, seed, operations, verdict),
      qkey_(seed % 4 == 0 ? QKey{0x2222} : QKey{0x1111}),
      next_psn_(Psn{0xFF'FFF0 + static_cast<std::uint32_t>(seed % 16)}) {}  // wraps soon

void UdEnd::connect() {
  next_psn_ = next_psn_ + kPsnsBetweenLives;
  to_send_.clear();
  hca::QpAttributes to;
  to.port = PortNumber{1};
  to.qkey = qkey_;
  move_to(to, hca::QpState::Init,
          QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::QKey);
  move_to(to, hca::QpState::Rtr, {});
  to.sq_psn = next_psn_;
  move_to(to, hca::QpState::Rts, QpAttribute::SqPsn);
}

void UdEnd::choose_qkey(Datagram& datagram, hca::SendWr& wr) {
  if (random_.chance(1, 4)) {
    wr.remote_qkey = kOwnQKey;
    datagram.qkey = qkey_;
  } else {
    wr.remote_qkey = datagram.qkey = random_.chance(1, 8) ? kWrongQKey : datagram.to->qkey_;
  }
}

void UdEnd::post_message(std::uint64_t number) {
  Datagram datagram;
  datagram.number = number;
  datagram.to = all_[random_.below(all_.size())];
  datagram.length = static_cast<std::uint32_t>(
      random_.below(random_.chance(1, 4) ? kInlineBytes : kMaxDatagramBytes + 1));
  datagram.has_immediate = random_.chance(1, 2);
  datagram.has_grh = random_.chance(1, 2);
  hca::SendWr wr;
  wr.opcode = datagram.has_immediate ? WrOpcode::SendWithImmediate : WrOpcode::Send;
  wr.immediate = static_cast<std::uint32_t>(number);
  wr.remote_qpn = datagram.to->qp().number();
  choose_qkey(datagram, wr);
  hca::AddressVector address;
  address.dlid = datagram.to->lid();
  address.port = PortNumber{1};
  address.is_global = datagram.has_grh;
  if (datagram.has_grh) {
    datagram.grh.dgid = datagram.to->gid();
    datagram.grh.flow_label = static_cast<std::uint32_t>(random_.below(1U << 20));
    datagram.grh.hop_limit = 3;
    datagram.grh.traffic_class = static_cast<std::uint8_t>(random_.below(256));
    address.grh = datagram.grh;
  }
  datagrams_[number] = datagram;
  to_send_.push_back(number);
  auto handle = hca_.create_ah(pd_, address);
  if (!handle) {
    report_failure("create_ah: " + handle.error().reason);
    return;
  }
  wr.ah = *handle;
  post(number, datagram.length, wr);
  static_cast<void>(hca_.destroy_ah(**handle));  // posted requests contain a copy of the address
}

void UdEnd::check_sent(const hca::Packet& packet) {
  if (to_send_.empty()) {
    report_failure("a datagram goes out that nobody posted");
    return;
  }
  const Datagram& datagram = datagrams_.at(to_send_.front());
  to_send_.pop_front();
  const hca::PacketHeader& header = packet.header;
  const wire::Opcode opcode =
      datagram.has_immediate ? wire::Opcode::UdSendOnlyWithImmediate : wire::Opcode::UdSendOnly;
  if (header.psn != next_psn_ || header.slid != lid_ || header.dlid != datagram.to->lid() ||
      header.dest_qp != datagram.to->qp().number() ||
      header.extension.deth.src_qp != qp_->number() || header.has_grh != datagram.has_grh) {
    report_failure(fmt::format("datagram {} goes out with a PSN or an address that is not its own",
                               datagram.number));
  }
  if (header.extension.deth.qkey != datagram.qkey) {
    report_failure(fmt::format("datagram {} goes out with Q_Key {:#x}, not {:#x}", datagram.number,
                               header.extension.deth.qkey.value(), datagram.qkey.value()));
  }
  if (header.opcode != opcode || packet.payload.size() != datagram.length ||
      (datagram.has_immediate &&
       header.immediate_or_rkey != static_cast<std::uint32_t>(datagram.number))) {
    report_failure(fmt::format("datagram {} goes out with another opcode, length or immediate",
                               datagram.number));
  }
  check_payload(packet, datagram.number, 0);
  sent_[next_psn_.value()] = datagram.number;
  next_psn_ = next_psn_ + 1;
}

const UdEnd* UdEnd::sender_of(const hca::Packet& packet) const {
  const auto found = std::ranges::find_if(all_, [&](const UdEnd* end) {
    return end->lid_ == packet.header.slid &&
           end->qp().number() == packet.header.extension.deth.src_qp &&
           end->sent_.contains(packet.header.psn.value());
  });
  return found == all_.end() ? nullptr : *found;
}

void UdEnd::expect(const hca::Packet& packet) {
  const UdEnd* const sender = sender_of(packet);
  if (sender == nullptr) {
    report_failure("a datagram arrives that nobody sent");
    return;
  }
  const Datagram& datagram = sender->datagrams_.at(sender->sent_.at(packet.header.psn.value()));
  const Receive* const receive = next_receive();
  if (receive == nullptr || datagram.qkey != qkey_ ||
      hca::kGrhBytes + datagram.length > receive->length) {
    return;  // too long: dropped, and the receive stays (IBTA vol 1 §9.9.3, responder class D)
  }
  hca::Wc wc;
  wc.opcode = hca::WcOpcode::Receive;
  wc.byte_length = hca::kGrhBytes + datagram.length;
  wc.src_qpn = sender->qp().number();
  wc.slid = sender->lid();
  if (datagram.has_grh) {
    wc.flags |= hca::Completion::Grh;
  }
  if (datagram.has_immediate) {
    wc.flags |= hca::Completion::WithImmediate;
    wc.immediate = static_cast<std::uint32_t>(datagram.number);
  }
  expected_ = Expected{.wc = wc,
                       .payload_at = receive->at + hca::kGrhBytes,
                       .payload_bytes = datagram.length,
                       .sender = sender,
                       .message = datagram.number};
}

/// §11.4.1.2: the GRH precedes the payload as received. Its length covers everything from the BTH
/// through the ICRC, including the pad (§8.3.1).
void UdEnd::check_delivery(const Expected& expected, const Receive& receive) {
  const auto* const sender = static_cast<const UdEnd*>(expected.sender);
  const Datagram& datagram = sender->datagrams_.at(expected.message);
  if (!datagram.has_grh) {
    return;
  }
  constexpr std::uint32_t kBthDethIcrc = 12 + 8 + 4;
  wire::Grh grh;
  grh.traffic_class = datagram.grh.traffic_class;
  grh.flow_label = datagram.grh.flow_label;
  grh.hop_limit = datagram.grh.hop_limit;
  grh.sgid = sender->gid();
  grh.dgid = datagram.grh.dgid;
  grh.payload_length = static_cast<std::uint16_t>(kBthDethIcrc + (datagram.has_immediate ? 4 : 0) +
                                                  (datagram.length + 3) / 4 * 4);
  const std::array<std::byte, hca::kGrhBytes> bytes = wire::pack(grh);
  if (!std::ranges::equal(bytes, std::span{memory_}.subspan(receive.at, bytes.size()))) {
    report_failure(fmt::format("datagram {} arrived without its GRH before it", datagram.number));
  }
}

}  // namespace weft::sim
