#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/bytes.h"
#include "base/time.h"
#include "hca/packet.h"
#include "host/foreign/daemon_channel.h"
#include "host/hca_set.h"
#include "host/lane_table.h"
#include "host/packet_sender.h"
#include "host/qp_timers.h"
#include "os/clock.h"
#include "station/distinct_list.h"

namespace weft::host {

/// What is taken from a ring; the rest of it stays for another thread (station/polling_turns.h).
enum class RecordFilter : std::uint8_t {
  All,
  OneSided,     // up to the first request that the application must see
  NotOneSided,  // up to the first that it need not see
};

/// Packets in: from the rings of lanes to the QPs that they are for. The records are another
/// process's: each is validated, its source against the owner of the lane, before an engine sees it
/// (docs/ARCHITECTURE.md, decision 11). The owner of a ring is its lock; any thread.
class PacketReceiver {
 public:
  struct Parts {
    LaneTable& lanes;
    const HcaSet& hcas;
    PacketSender& sender;
    QpTimers& timers;
    DaemonChannel& daemon;
    os::RecentClock& clock;
  };

  explicit PacketReceiver(const Parts& parts)
      : lanes_(parts.lanes),
        hcas_(parts.hcas),
        sender_(parts.sender),
        timers_(parts.timers),
        daemon_(parts.daemon),
        clock_(parts.clock) {}
  PacketReceiver(const PacketReceiver&) = delete;
  PacketReceiver& operator=(const PacketReceiver&) = delete;

  // A batch of what lies in a ring, unless another thread owns the ring; returns how many records
  // were taken.

  std::size_t take_requests(Lane& lane, RecordFilter filter) {
    return lane.in(hca::Flow::Request).has_record() ? take_records(lane, hca::Flow::Request, filter)
                                                    : 0;
  }
  /// Also looks if there is no record but the peer waits for space: it may have said so just after
  /// the last record was taken.
  std::size_t take_responses(Lane& lane) {
    return lane.in(hca::Flow::Response).has_record() || lane.space_is_wanted()
               ? take_records(lane, hca::Flow::Response, RecordFilter::All)
               : 0;
  }

  /// What has come from the lane's peer, by whichever lane of the pair: an adapter handles a packet
  /// when it arrives, not when its program looks. At most what the rings hold at a time, while the
  /// peer sends on. The caller owns no ring, and does not hold the lock of a QP.
  void take_arrived(const Lane& lane);

  /// Takes everything. The caller owns both rings of the lane, which is about to close: what its
  /// peer sent before it ended still counts.
  void drain_all(Lane& lane);

 private:
  /// Records of one ring before other rings have their turn; policy.
  static constexpr std::size_t kBatch = 32;
  /// Of one ring in take_arrived(); policy.
  static constexpr unsigned kMostBatches = 256;
  using TouchedQps = station::DistinctList<QpDriverState, kBatch>;

  [[gnu::always_inline]] std::size_t take_records(Lane& lane, hca::Flow flow, RecordFilter filter) {
    Lane::In& in = lane.in(flow);
    if (!in.owner.try_lock()) {
      return 0;
    }
    const std::lock_guard owner{in.owner, std::adopt_lock};
    return drain(lane, flow, filter);
  }
  std::size_t drain(Lane& lane, hca::Flow flow, RecordFilter filter);
  void deliver(Lane& lane, hca::Flow flow, ByteSpan record, Instant at, TouchedQps& touched_qps);
  [[gnu::noinline]] void deliver_multicast(Lane& lane, hca::Packet& packet, Instant at);
  void resume_qps(hca::Flow flow, const TouchedQps& touched_qps, Instant at);
  [[nodiscard]] static bool is_left(Lane& lane, ByteSpan record, RecordFilter filter);
  [[gnu::noinline]] void take_earlier_responses(const Lane& lane);
  [[gnu::cold, gnu::noinline]] void refuse(Lane& lane, uabi::RecordFault what);

  LaneTable& lanes_;
  const HcaSet& hcas_;
  PacketSender& sender_;
  QpTimers& timers_;
  DaemonChannel& daemon_;
  os::RecentClock& clock_;
};

}  // namespace weft::host
