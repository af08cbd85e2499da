#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "hca/qp.h"
#include "host/delayed_delivery.h"
#include "host/lane.h"
#include "host/lane_binder.h"
#include "host/multicast_sender.h"
#include "host/path_counters.h"
#include "host/progress_state.h"
#include "station/one_sided.h"
#include "station/wait_queue.h"

namespace weft::host {

/// What a LaneSink needs of its process.
struct SendContext {
  LaneBinder& binder;
  MulticastSender& multicast;
  DelayedDelivery& delivery;
  PathCounters& counters;
  ProgressState& progress;
};

/// Where the packets of one Qp::transmit call go: into the rings of lanes. Keeps the out_lock of
/// the lane that it sends on, so that a series of packets costs one lock and one doorbell.
/// Remembers whether packets were lost, and which lane had no space. On the stack of one thread.
class LaneSink final : public hca::TransmitSink {
 public:
  /// `allowed`: what the QP may send while others wait for the lane.
  LaneSink(const SendContext& context, QpDriverState& qp_state, station::Allowed allowed)
      : context_(&context), qp_state_(qp_state), allowed_(allowed) {}
  ~LaneSink() override { release_lane(); }
  LaneSink(const LaneSink&) = delete;
  LaneSink& operator=(const LaneSink&) = delete;

  [[nodiscard]] std::uint32_t max_train_bytes() const override {
    const Lane* const lane = qp_state_.lane.load(std::memory_order_relaxed);
    return lane != nullptr ? lane->max_train_bytes() : kMaxTrainBytes;
  }

  [[nodiscard]] bool send(hca::Flow flow, const hca::PacketHeader& header,
                          std::span<const ByteSpan> gather) override;
  [[nodiscard]] bool send_fast(hca::Flow flow, const hca::SinglePacket& packet) override;
  [[nodiscard]] hca::PlacementMeans may_place(const hca::PlacementTarget& target) override;
  [[nodiscard]] hca::PlacementMeans place(const hca::Placement& part) override;
  [[nodiscard]] Instant time_after(Instant start) const override;
  [[nodiscard]] bool send_to_proxy(const hca::PacketHeader& header,
                                   std::span<const ByteSpan> gather) override;

  /// Rings the doorbell for what was sent since the last call, if anything was, and unlocks the
  /// lane.
  void release_lane() {
    if (held_ != nullptr) {
      release(*std::exchange(held_, nullptr));
    }
  }

  [[nodiscard]] bool has_loss() const { return has_loss_; }
  [[nodiscard]] bool has_sent() const { return has_sent_; }
  /// The lane that had no space; null if there was none.
  [[nodiscard]] Lane* blocked() const { return blocked_; }

 private:
  [[nodiscard, gnu::always_inline]] bool send_by(Lane& lane, hca::Flow flow,
                                                 const hca::PacketHeader& header,
                                                 std::span<const ByteSpan> gather);
  void hold(Lane& lane, hca::Flow flow) {
    if (held_ != &lane || held_flow_ != flow) {
      release_lane();
      lane.out_lock(flow).lock();
      held_ = &lane;
      held_flow_ = flow;
    }
  }
  void release(Lane& lane) {
    const bool is_due = !std::exchange(is_rung_, true);
    if (is_due) {
      lane.ring_doorbell(urgency_.take());
    }
    lane.out_lock(held_flow_).unlock();
    if (is_due && lane.is_to_self()) {
      context_->progress.sleeper.hand_over(lane.number);
    }
    if (std::exchange(has_delayed_, false)) {
      context_->delivery.schedule_release();
    }
  }
  [[nodiscard]] Lane::PlacementPath placement_path(Lane* lane, const hca::PacketHeader& request);
  [[nodiscard]] hca::PlacementMeans note(PlacementWay way);
  [[gnu::noinline]] Lane& lane_of_datagram(const hca::PacketHeader& header);
  [[gnu::noinline]] bool send_multicast(const hca::PacketHeader& header,
                                        std::span<const ByteSpan> gather);
  [[nodiscard]] bool is_allowed(hca::Flow flow, bool has_payload) const {
    using station::Allowed;
    return allowed_ == Allowed::Everything ||
           (flow == hca::Flow::Response && (allowed_ == Allowed::OnlyResponses || !has_payload));
  }

  const SendContext* context_;
  QpDriverState& qp_state_;
  station::Allowed allowed_;
  Lane* held_{};  // we hold its out_lock of this flow
  hca::Flow held_flow_{};
  Lane* blocked_{};
  bool is_rung_{true};              // nothing was sent on the held lane since its doorbell
  station::SeriesUrgency urgency_;  // of what was sent since then
  bool has_loss_{};
  bool has_sent_{};
  bool has_delayed_{};  // and its release is not scheduled yet
};

}  // namespace weft::host
