#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "base/bytes.h"
#include "base/time.h"
#include "hca/packet.h"
#include "host/daemon_connection.h"
#include "host/delayed_delivery.h"
#include "host/fabric_map.h"
#include "host/lane_table.h"
#include "host/live_links.h"
#include "host/multicast_groups.h"
#include "host/path_counters.h"
#include "host/progress_state.h"
#include "host/tap_set.h"
#include "station/multicast_route.h"

namespace weft::host {

/// Sends multicast packets: one copy to each process with members on a host that the tree reaches,
/// or on this one. Unreliable: a process whose ring is full misses the packet. Owns its lock, which
/// comes after that of the sending QP; any thread.
class MulticastSender {
 public:
  struct Parts {
    const FabricMap& map;
    const MulticastGroups& groups;
    LaneTable& lanes;
    TapSet& taps;
    LiveLinks& links;
    PathCounters& counters;
    const DaemonConnection& daemon;
    DelayedDelivery& delivery;
    ProcessSleeper& sleeper;
  };

  explicit MulticastSender(const Parts& parts) : parts_(parts) {}
  MulticastSender(const MulticastSender&) = delete;
  MulticastSender& operator=(const MulticastSender&) = delete;

  /// False: not now, because links are busy, lanes are being opened, or the daemon's messages, of
  /// new members perhaps, must be heard first.
  [[nodiscard]] bool send(const hca::PacketHeader& header, std::span<const ByteSpan> gather);

 private:
  using Route = station::MulticastRoute;

  [[nodiscard]] bool has_daemon_messages(Instant at);
  [[nodiscard]] Route& route_of(const hca::PacketHeader& header);
  void find_copies(Route& route, Lid mlid);
  [[nodiscard]] bool has_lanes(Route& route);
  void apply_faults(Route& route, const hca::PacketHeader& header, std::uint64_t words);
  void capture(const Route& route, const hca::PacketHeader& header,
               std::span<const ByteSpan> gather);
  [[nodiscard]] bool count_and_capture(Route& route, const hca::PacketHeader& header,
                                       std::span<const ByteSpan> gather, std::uint64_t words);
  void send_copy(const Route& route, const station::MulticastCopy& copy,
                 const hca::PacketHeader& header, std::span<const ByteSpan> gather);

  Parts parts_;
  std::mutex lock_;                        // of what follows
  std::map<std::uint64_t, Route> routes_;  // by hca::route_key_of
  Instant departs_;                        // when the links are done with the newest packet
  Instant daemon_checked_at_;
};

}  // namespace weft::host
