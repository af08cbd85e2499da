#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "hca/planted_bug.h"
#include "hca/rc/requester.h"
#include "hca/wr_kind.h"
#include "verbs/mtu.h"
#include "wire/encodings.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

[[nodiscard]] std::string_view nak_name(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::PsnSequenceError:
      return "PSN sequence error";
    case wire::NakCode::InvalidRequest:
      return "invalid request";
    case wire::NakCode::RemoteAccessError:
      return "remote access error";
    case wire::NakCode::RemoteOperationalError:
      return "remote operational error";
    case wire::NakCode::InvalidRdRequest:
      return "invalid RD request";
  }
  return "reserved NAK code";
}

}  // namespace

void RcRequester::handle_response(const Packet& packet, Instant now) {
  const QpState state = core_.state();
  if ((state != QpState::Rts && state != QpState::Sqd) || is_failing()) {
    return;
  }
  // Only PSNs between the oldest unacknowledged and the newest sent are valid; others are ghost
  // packets and dropped (IBTA vol 1 §9.7.5.1.1).
  const std::int32_t from_oldest = distance(unacknowledged_, packet.header.psn);
  if (from_oldest < 0 || static_cast<std::uint32_t>(from_oldest) >= outstanding_packets()) {
    return;
  }
  const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
  switch (info->operation) {
    case wire::Operation::Acknowledge:
      handle_acknowledge(packet, now);
      break;
    case wire::Operation::AtomicAcknowledge:
      handle_atomic_response(packet, now);
      break;
    case wire::Operation::RdmaReadResponse:
      handle_read_response(packet, now);
      break;
    default:
      break;  // a request: the transport passes those to the responder
  }
  notify_if_drained();
}

SendWqe* RcRequester::wqe_of(Psn psn, std::uint64_t& index) {
  for (index = core_.send_queue.head(); index < next_new_; ++index) {
    SendWqe& wqe = core_.send_queue.at(index);
    const std::int32_t offset = distance(wqe.first_psn, psn);
    if (offset >= 0 && static_cast<std::uint32_t>(offset) < wqe.packet_count) {
      return &wqe;
    }
  }
  return nullptr;
}

/// Acknowledges everything before `psn`. False if a READ or atomic before it has no response: the
/// response was lost, since an acknowledgement beyond an outstanding READ implies it, and the
/// requester requests it again from there (IBTA vol 1 §9.7.5.1.1).
bool RcRequester::acknowledge_before(Psn psn) {
  for (std::uint64_t index = core_.send_queue.head(); index < next_new_; ++index) {
    SendWqe& wqe = core_.send_queue.at(index);
    if (wqe.packet_count == 0) {
      continue;  // a local operation
    }
    const std::int32_t covered = distance(wqe.first_psn, psn);
    if (covered <= 0) {
      break;
    }
    if (has(wqe.opcode, WrTrait::TakesResponse)) {
      if (!wqe.done && planted(PlantedBug::LostReadResponseAccepted)) {
        wqe.done = true;
        --reads_outstanding_;
        unacknowledged_ = wqe.first_psn + wqe.packet_count;
        continue;
      }
      if (!wqe.done) {
        // Still complete up to there if its responses end exactly there: a NAK of the next request.
        return static_cast<std::uint32_t>(covered) < wqe.packet_count && unacknowledged_ == psn;
      }
      continue;
    }
    if (static_cast<std::uint32_t>(covered) < wqe.packet_count) {
      unacknowledged_ = psn;  // the first part of a longer message
      break;
    }
    wqe.done = true;
    unacknowledged_ = wqe.first_psn + wqe.packet_count;
  }
  return true;
}

namespace {

/// The reason for a failure found locally. Details of the key or memory were explained when it was
/// found.
[[nodiscard]] std::string_view local_failure_reason(WcStatus status) {
  switch (status) {
    case WcStatus::LocalProtectionError:
      return "local protection error: an L_Key does not open the memory of its SGE to this PD, or "
             "the key to be invalidated is not this PD's";
    case WcStatus::MemoryWindowBindError:
      return "memory window bind error";
    case WcStatus::LocalLengthError:
      return "local length error: the SGEs are shorter than what they take, or longer than a "
             "message";
    default:
      return "local QP operation error: the WQE cannot be carried out";
  }
}

}  // namespace

void RcRequester::finish_in_order() {
  SendQueue& queue = core_.send_queue;
  while (queue.head() < next_new_ && queue.at(queue.head()).done) {
    SendWqe& wqe = queue.at(queue.head());
    if (wqe.status != WcStatus::Success) {
      fail_head(wqe.status, local_failure_reason(wqe.status));
      return;
    }
    if (wqe.packet_count != 0 && distance(unacknowledged_, wqe.first_psn + wqe.packet_count) > 0) {
      unacknowledged_ = wqe.first_psn + wqe.packet_count;
    }
    if (cursor_ ==
        queue.head()) {  // a retry had moved the cursor back to it, and then its answer arrived
      ++cursor_;
      cursor_packet_ = 0;
    }
    core_.complete_head(WcStatus::Success, wqe.length);
  }
}

/// Something new was acknowledged: resets the retry counters, and restarts the timer if more is
/// outstanding.
void RcRequester::progressed(Instant now) {
  finish_in_order();
  if (core_.send_queue.head() == next_new_) {
    end_timing(now);
  }
  if (is_failing()) {
    return;
  }
  // What is acknowledged need not be sent again, even if a retry had moved the cursor back.
  if (cursor_ < next_new_) {
    const SendWqe& wqe = core_.send_queue.at(cursor_);
    const std::int32_t known = distance(wqe.first_psn + cursor_packet_, unacknowledged_);
    if (known > 0 && !has(wqe.opcode, WrTrait::TakesResponse)) {
      cursor_packet_ += static_cast<std::uint32_t>(known);
      WEFT_DEBUG_ASSERT(cursor_packet_ < wqe.packet_count,
                        "the cursor lies in the request that it is in");
    }
  }
  retries_left_ = core_.attributes.retry_count;
  rnr_retries_left_ = core_.attributes.rnr_retry;
  rewound_ = false;
  retry_at_ = Instant::never();
  if (outstanding_packets() != 0) {
    arm_retry_timer(now);
  }
}

/// Fast path for the acknowledgement of the only outstanding message, in full.
inline bool RcRequester::finish_only_message(Psn psn, Instant now) {
  SendQueue& queue = core_.send_queue;
  if (!core_.has_fast_path || queue.head() + 1 != next_new_ || cursor_ != next_new_) {
    return false;
  }
  const SendWqe& wqe = queue.at(queue.head());
  if (wqe.done || wqe.packet_count == 0 || has(wqe.opcode, WrTrait::TakesResponse) ||
      wqe.first_psn + (wqe.packet_count - 1) != psn) {
    return false;
  }
  unacknowledged_ = psn + 1;
  end_timing(now);
  core_.complete_head(WcStatus::Success, wqe.length);
  retries_left_ = core_.attributes.retry_count;
  rnr_retries_left_ = core_.attributes.rnr_retry;
  rewound_ = false;
  retry_at_ = Instant::never();
  return true;
}

void RcRequester::handle_acknowledge(const Packet& packet, Instant now) {
  const wire::Aeth aeth = packet.header.extension.response.aeth;
  const Psn psn = packet.header.psn;
  switch (aeth.syndrome.kind()) {
    case wire::SyndromeKind::Ack: {
      if (finish_only_message(psn, now)) [[likely]] {
        credits_.take(aeth);
        return;
      }
      const Psn before = unacknowledged_;
      const bool complete = acknowledge_before(psn + 1);
      credits_.take(aeth);
      if (unacknowledged_ != before) {
        progressed(now);
      }
      if (!complete && !is_failing()) {
        retry_from(unacknowledged_, now,
                   "an acknowledgement came, but not the READ or atomic response before it");
      }
      return;
    }
    case wire::SyndromeKind::RnrNak:
      handle_rnr(psn, aeth.syndrome.code(), now);
      return;
    case wire::SyndromeKind::Nak:
      handle_nak(psn, aeth.syndrome, now);
      return;
    case wire::SyndromeKind::Reserved:
      return;
  }
}

void RcRequester::handle_rnr(Psn psn, std::uint8_t timer_code, Instant now) {
  const Psn before = unacknowledged_;
  const bool complete = acknowledge_before(psn);
  if (unacknowledged_ != before) {
    progressed(now);
    if (is_failing()) {
      return;
    }
  }
  if (core_.attributes.rnr_retry != 7) {  // 7: no limit (§9.7.5.2.8)
    if (rnr_retries_left_ == 0) {
      fail_head(WcStatus::RnrRetryExceeded,
                "the peer had no receive WQE, and RNR retries are used up; post receives there "
                "or raise rnr_retry (7 is without end)");
      return;
    }
    --rnr_retries_left_;
  }
  // A READ or atomic response before it may have been lost as well; it is requested again after the
  // wait.
  rewind_to(complete ? psn : unacknowledged_);
  rnr_until_ = planted(PlantedBug::RnrTimerIgnored)
                   ? now
                   : now + core_.time_scale.apply(wire::rnr_timer(timer_code));
  retry_at_ = Instant::never();
}

void RcRequester::handle_nak(Psn psn, wire::Syndrome syndrome, Instant now) {
  const auto code = static_cast<wire::NakCode>(syndrome.code());
  const Psn before = unacknowledged_;
  const bool complete = acknowledge_before(psn);
  if (unacknowledged_ != before) {
    progressed(now);
    if (is_failing()) {
      return;
    }
  }
  if (code == wire::NakCode::PsnSequenceError || !complete) {
    if (rnr_until_ != Instant::never()) {
      return;  // a sequence NAK behind an RNR NAK must not shorten the wait
    }
    retry_from(unacknowledged_, now, "a packet was lost (NAK: PSN sequence error)");
    return;
  }
  const WcStatus status = code == wire::NakCode::InvalidRequest ? WcStatus::RemoteInvalidRequest
                          : code == wire::NakCode::RemoteAccessError ? WcStatus::RemoteAccessError
                          : code == wire::NakCode::InvalidRdRequest
                              ? WcStatus::RemoteInvalidReadRequest
                              : WcStatus::RemoteOperationError;
  fail_head(status, nak_name(code));
}

void RcRequester::handle_read_response(const Packet& packet, Instant now) {
  std::uint64_t index = 0;
  SendWqe* wqe = wqe_of(packet.header.psn, index);
  if (wqe == nullptr || wqe->done) {
    return;
  }
  if (wqe->opcode != WrOpcode::RdmaRead && wqe->opcode != WrOpcode::AtomicWrite &&
      wqe->opcode != WrOpcode::Flush) {
    fail_head(WcStatus::BadResponse, "a READ response came for a request that takes none");
    return;
  }
  if (!acknowledge_before(wqe->first_psn)) {
    retry_from(unacknowledged_, now, "a READ response overtook an earlier response that was lost");
    return;
  }
  const std::uint32_t mtu = core_.mtu_bytes();
  const Psn expected =
      wqe->first_psn + (wqe->bytes_done >> verbs::log2_bytes(core_.attributes.path_mtu));
  const std::int32_t gap = distance(expected, packet.header.psn);
  if (gap < 0) {
    return;  // a duplicate
  }
  if (gap > 0) {
    retry_from(expected, now, "a READ response packet was lost");
    return;
  }
  const std::uint32_t left = wqe->length - wqe->bytes_done;
  const bool is_end =
      packet.header.packet_count > 1
          ? wire::opcode_info(packet.header.last_opcode)->position == wire::Position::Last
          : wire::opcode_info(packet.header.opcode)->position == wire::Position::Last ||
                wire::opcode_info(packet.header.opcode)->position == wire::Position::Only;
  const bool size_fits =
      is_end ? packet.payload.size() == left
             : packet.payload.size() == std::size_t{mtu} * packet.header.packet_count &&
                   packet.payload.size() < left;
  if (!size_fits || packet.payload.size() > std::size_t{mtu} * packet.header.packet_count) {
    fail_head(WcStatus::BadResponse, "a READ response has another length than was asked for");
    return;
  }
  const WcStatus status = core_.scatter(
      core_.send_queue.sges(index),
      planted(PlantedBug::ReadResponseMisplaced) ? 0 : wqe->bytes_done, packet.payload);
  if (status != WcStatus::Success) {
    wqe->done = true;
    wqe->status = status;
    stalled_ = true;
    finish_in_order();
    return;
  }
  wqe->bytes_done += static_cast<std::uint32_t>(packet.payload.size());
  unacknowledged_ = packet.header.psn + packet.header.packet_count;
  if (is_end) {
    wqe->done = true;
    --reads_outstanding_;
    credits_.take(packet.header.extension.response.aeth);
  }
  progressed(now);
}

void RcRequester::handle_atomic_response(const Packet& packet, Instant now) {
  std::uint64_t index = 0;
  SendWqe* wqe = wqe_of(packet.header.psn, index);
  if (wqe == nullptr || wqe->done) {
    return;
  }
  if (wqe->opcode != WrOpcode::CompareSwap && wqe->opcode != WrOpcode::FetchAdd) {
    fail_head(WcStatus::BadResponse, "an atomic response came for a request that is not an atomic");
    return;
  }
  if (packet.header.extension.response.aeth.syndrome.kind() != wire::SyndromeKind::Ack) {
    return;
  }
  if (!acknowledge_before(wqe->first_psn)) {
    retry_from(unacknowledged_, now,
               "an atomic response overtook an earlier response that was lost");
    return;
  }
  const std::uint64_t original = packet.header.extension.response.atomic_ack.original;
  const WcStatus status = core_.scatter(core_.send_queue.sges(index), 0, bytes_of(original));
  wqe->done = true;
  --reads_outstanding_;
  wqe->status = status;
  stalled_ = stalled_ || status != WcStatus::Success;
  unacknowledged_ = wqe->first_psn + 1;
  credits_.take(packet.header.extension.response.aeth);
  progressed(now);
}

}  // namespace weft::hca
