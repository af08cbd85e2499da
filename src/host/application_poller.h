#pragma once

#include <cstddef>
#include <cstdint>

#include "host/lane_table.h"
#include "host/maintenance.h"
#include "host/packet_receiver.h"
#include "host/progress_state.h"

namespace weft::host {

/// The application's side of who looks at rings (docs/ARCHITECTURE.md, decision 4): what a thread
/// does that polls an empty CQ. No state of its own; any thread.
class ApplicationPoller {
 public:
  ApplicationPoller(LaneTable& lanes, PacketReceiver& receiver, Maintenance& maintenance,
                    ProgressState& progress)
      : lanes_(lanes), receiver_(receiver), maintenance_(maintenance), progress_(progress) {}
  ApplicationPoller(const ApplicationPoller&) = delete;
  ApplicationPoller& operator=(const ApplicationPoller&) = delete;

  /// Looks at the lanes that can complete something at the CQ, and delivers what came.
  void poll(CqDriverState& cq);

 private:
  [[nodiscard]] std::size_t poll_lane(Lane& lane, std::uint32_t empty_polls);
  void yield_to_others(std::uint32_t empty_polls);

  LaneTable& lanes_;
  PacketReceiver& receiver_;
  Maintenance& maintenance_;
  ProgressState& progress_;
};

}  // namespace weft::host
