#include "sim/unreliable_end.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace weft::sim {

using hca::WcStatus;

UnreliableEnd::UnreliableEnd(hca::Hca& hca, hca::ProtectionDomain& pd, hca::QpType type, Lid lid,
                             std::uint64_t seed, std::uint32_t operations, Verdict& verdict)
    : hca_(hca),
      pd_(pd),
      random_(seed),
      seed_(seed),
      lid_(lid),
      verdict_(verdict),
      memory_(kSize),
      left_(operations) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    memory_[i] = guard(i);
  }
  region_ =
      *hca.register_memory(pd, 0x1000'0000, std::span{memory_}.first(kRegisteredEnd),
                           hca::AccessFlags{hca::Access::LocalWrite} | hca::Access::RemoteWrite);
  send_cq_ = *hca.create_cq(64);
  recv_cq_ = *hca.create_cq(64);
  qp_ = *hca.create_qp({
      .type = type,
      .pd = &pd,
      .send_cq = send_cq_,
      .recv_cq = recv_cq_,
      .srq = nullptr,
      .signal_all = false,
      .capabilities = {.max_send_wr = kQueueDepth,
                       .max_recv_wr = kQueueDepth,
                       .max_send_sge = 2,
                       .max_recv_sge = 2,
                       .max_inline_data = kInlineBytes}
  });
}

void UnreliableEnd::move_to(hca::QpAttributes& attributes, hca::QpState state,
                            hca::QpAttributeMask mask) {
  attributes.state = state;
  if (const auto modified = qp_->modify(attributes, mask | hca::QpAttribute::State); !modified) {
    report_failure(modified.error().reason);
  }
}

void UnreliableEnd::act() {
  check_sends();
  if (receives_.size() < kQueueDepth && random_.chance(3, 4)) {
    post_receive();
  }
  if (left_ != 0 && in_flight_.size() < kQueueDepth && random_.chance(1, 2)) {
    --left_;
    post_message(next_message_++);
  }
}

/// One receive in forty is short: longer messages move a UC QP to the error state, and are dropped
/// by a UD QP.
void UnreliableEnd::post_receive() {
  const std::uint64_t number = next_receive_number_++;
  const Receive receive{.number = number,
                        .at = kReceiveAt + number % kSlots * kStride,
                        .length = random_.chance(1, 40) ? 300U : std::uint32_t{kSlot}};
  const auto first = static_cast<std::uint32_t>(random_.below(receive.length));
  const std::uint64_t address = region_->iova + receive.at;
  const std::array sges{
      hca::Sge{.address = address,         .length = first,                  .lkey = region_->lkey},
      hca::Sge{
               .address = address + first, .length = receive.length - first, .lkey = region_->lkey}
  };
  if (const auto posted = qp_->post_recv({.wr_id = number, .sges = sges}); !posted) {
    report_failure("post_recv: " + posted.error().reason);
    return;
  }
  receives_.push_back(receive);
}

void UnreliableEnd::post(std::uint64_t number, std::uint32_t length, hca::SendWr& wr) {
  const std::size_t at = kSendAt + number % kSlots * kStride;
  for (std::size_t i = 0; i < length; ++i) {
    memory_[at + i] = byte_of(number, i);
  }
  wr.wr_id = number;
  // At least every third is signaled, because unsignaled WQEs only leave the queue when a later
  // completion is polled.
  const bool signaled = left_ == 0 || number % 3 == 0 || random_.chance(1, 2);
  wr.flags = signaled ? hca::SendFlags{hca::Send::Signaled} : hca::SendFlags{};
  const bool is_inline = length <= kInlineBytes && random_.chance(1, 2);
  std::uint64_t address = region_->iova + at;
  if (is_inline) {
    wr.flags |= hca::Send::Inline;
    address = std::bit_cast<std::uint64_t>(&memory_[at]);
  }
  const std::uint32_t first = length / 3;
  const std::array sges{
      hca::Sge{.address = address,         .length = first,          .lkey = region_->lkey},
      hca::Sge{.address = address + first, .length = length - first, .lkey = region_->lkey}
  };
  wr.sges = sges;
  if (const auto posted = qp_->post_send(wr); !posted) {
    report_failure("post_send: " + posted.error().reason);
  } else {
    in_flight_.push_back({.number = number, .signaled = signaled});
  }
  if (is_inline) {  // inline data was copied: the buffer can be reused
    std::memset(&memory_[at], 0, length);
  }
  wr.sges = {};
}

/// Sends complete in order and successfully, since the sender does not learn the fate of a message.
void UnreliableEnd::check_sends() {
  std::array<hca::Wc, 16> completions;
  for (std::size_t i = 0, count = send_cq_->poll(completions); i < count; ++i) {
    const hca::Wc& wc = completions[i];
    ++completions_;
    digest_.add(wc.wr_id ^ static_cast<std::uint64_t>(wc.status) << 32);
    while (!in_flight_.empty() && in_flight_.front().number != wc.wr_id &&
           !in_flight_.front().signaled) {
      in_flight_.pop_front();
    }
    if (in_flight_.empty() || in_flight_.front().number != wc.wr_id) {
      report_failure(
          fmt::format("completion of send {} out of order, twice, or of none", wc.wr_id));
      return;
    }
    if (wc.status == WcStatus::Success && !in_flight_.front().signaled) {
      report_failure("an unsignaled send completed with success");
    }
    if (wc.status != WcStatus::Success && !(failed_ && wc.status == WcStatus::WorkRequestFlushed)) {
      report_failure(fmt::format("send {} ended in status {} without cause", wc.wr_id,
                                 static_cast<unsigned>(wc.status)));
    }
    in_flight_.pop_front();
  }
}

void UnreliableEnd::check_arrival() {
  std::array<hca::Wc, 16> completions;
  for (std::size_t i = 0, count = recv_cq_->poll(completions); i < count; ++i) {
    ++completions_;
    digest_.add(completions[i].wr_id << 8 ^ static_cast<std::uint64_t>(completions[i].status)
                                                << 40);
    failed_ ? check_flush(completions[i]) : check_completion(completions[i]);
  }
  if (expected_) {
    report_failure(fmt::format("message {} of LID {} arrived whole, and nothing came of it",
                               expected_->message, expected_->sender->lid().value()));
    expected_.reset();
  }
  check_memory();
  if (failed_) {
    start_again();
  }
}

void UnreliableEnd::check_completion(const hca::Wc& wc) {
  if (!expected_) {
    report_failure(
        "a receive completed for a message that did not arrive whole, or arrived before");
    return;
  }
  const Expected expected = *std::exchange(expected_, std::nullopt);
  const Receive receive = receives_.front();
  receives_.pop_front();
  const hca::Wc& must = expected.wc;
  if (wc.wr_id != receive.number) {
    report_failure(fmt::format("receive {} completed, {} was next", wc.wr_id, receive.number));
  } else if (wc.status != must.status) {
    report_failure(fmt::format("a message completed with status {}, not {}",
                               static_cast<unsigned>(wc.status),
                               static_cast<unsigned>(must.status)));
  } else if (wc.status != WcStatus::Success) {
    failed_ = true;
  } else if (wc.opcode != must.opcode || wc.byte_length != must.byte_length ||
             wc.src_qpn != must.src_qpn || wc.slid != must.slid || wc.flags != must.flags ||
             wc.immediate != must.immediate) {
    report_failure(
        fmt::format("a message of {} bytes arrived with {}, or with another opcode, source, "
                    "flag or immediate",
                    must.byte_length, wc.byte_length));
  } else if (!holds(expected.payload_at, expected.payload_bytes, *expected.sender,
                    expected.message)) {
    report_failure("a message arrived with other bytes than were sent");
  } else {
    ++delivered_;
    check_delivery(expected, receive);
  }
}

/// After an error, the remaining receives are flushed in order.
void UnreliableEnd::check_flush(const hca::Wc& wc) {
  if (receives_.empty() || wc.wr_id != receives_.front().number ||
      wc.status != WcStatus::WorkRequestFlushed) {
    report_failure(fmt::format("after an error receive {} ended in status {}", wc.wr_id,
                               static_cast<unsigned>(wc.status)));
    return;
  }
  receives_.pop_front();
}

/// IBTA vol 1 §10.3.1: a QP in the error state has flushed everything; it is reused through RESET.
void UnreliableEnd::start_again() {
  check_sends();
  std::erase_if(in_flight_, [](const Send& send) { return !send.signaled; });
  if (!receives_.empty() || !in_flight_.empty()) {
    report_failure(
        fmt::format("a QP went to the error state and {} receives and {} sends never completed",
                    receives_.size(), in_flight_.size()));
  }
  failed_ = false;
  hca::QpAttributes attributes;
  move_to(attributes, hca::QpState::Reset, {});
  connect();
}

bool UnreliableEnd::holds(std::size_t at, std::uint32_t length, const UnreliableEnd& sender,
                          std::uint64_t message) const {
  for (std::size_t i = 0; i < length; ++i) {
    if (memory_[at + i] != sender.byte_of(message, i)) {
      return false;
    }
  }
  return true;
}

void UnreliableEnd::check_payload(const hca::Packet& packet, std::uint64_t message,
                                  std::size_t offset) {
  for (std::size_t i = 0; i < packet.payload.size(); ++i) {
    if (packet.payload[i] != byte_of(message, offset + i)) {
      report_failure(fmt::format("message {} goes out with other bytes than were posted", message));
      return;
    }
  }
}

void UnreliableEnd::check_at_end() {
  check_sends();
  if (!is_finished()) {
    report_failure(fmt::format("stuck: {} sends never completed, {} were never posted",
                               in_flight_.size(), left_));
  }
  const auto guard_is_whole = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if (memory_[i] != guard(i)) {
        report_failure(fmt::format("byte {} outside every message was written", i));
        return;
      }
    }
  };
  guard_is_whole(0, kSendAt);
  for (std::size_t slot = 0; slot < 3 * kSlots; ++slot) {
    guard_is_whole(kSendAt + slot * kStride + kSlot, kSendAt + (slot + 1) * kStride);
  }
  guard_is_whole(kRegisteredEnd, kSize);
}

void UnreliableEnd::report_failure(const std::string& what) {
  verdict_.fail(fmt::format("LID {} QP {:#x}: {}", lid_.value(), qp_->number().value(), what));
}

}  // namespace weft::sim
