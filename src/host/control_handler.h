#pragma once

#include <vector>

#include "host/daemon_connection.h"
#include "host/fabric_map.h"
#include "host/foreign/imports.h"
#include "host/foreign/peer_targets.h"
#include "host/foreign/shared_targets.h"
#include "host/foreign/xrc_domains.h"
#include "host/hca_set.h"
#include "host/key_violations.h"
#include "host/lane_table.h"
#include "host/multicast_groups.h"
#include "host/packet_receiver.h"
#include "host/packet_sender.h"
#include "host/placement/placements.h"
#include "host/port_events.h"
#include "host/progress_state.h"
#include "host/tap_set.h"
#include "host/verbs_objects.h"

namespace weft::host {

/// Tables that a daemon publishes have at most this size; policy.
inline constexpr std::size_t kMaxTablesBytes = std::size_t{1} << 32;

/// What a process does about each message of its daemon: passes it to the class that it concerns,
/// and wakes who waits for it. On the control thread.
class ControlHandler final : public DaemonHandler {
 public:
  struct Parts {
    FabricMap& map;
    TapSet& taps;
    LaneTable& lanes;
    MulticastGroups& groups;
    PacketSender& sender;
    PacketReceiver& receiver;
    PortEvents& ports;
    VerbsObjects& objects;
    const HcaSet& hcas;
    Placements& placements;
    KeyViolations& key_violations;
    XrcDomains& xrc_domains;
    SharedTargets& shared_targets;
    ForeignTargets& peer_targets;
    Imports& imports;
    DaemonConnection& daemon;
    ProgressState& progress;
    ProcessEvents& program;
  };

  explicit ControlHandler(const Parts& parts) : parts_(parts) {}

  void handle_lane(const uabi::Lane& message, std::vector<os::UniqueFd>& descriptors) override;
  void handle_peer_gone(uabi::ProcessAddress peer) override;
  void handle_tables(const os::UniqueFd& file) override;
  void handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) override;
  void handle_tap_closed(const uabi::CloseTap& tap) override;
  void handle_group(const uabi::GroupMembers& group) override { parts_.groups.handle(group); }
  void handle_group_joined() override { parts_.groups.handle_joined(); }
  void handle_shared_object(const uabi::Message& message) override;
  void handle_daemon_gone() override;
  Instant report_due() override;

 private:
  void close_lanes_to(uabi::ProcessAddress peer);
  void close_lane(Lane& lane);
  void handle_target_request(const uabi::XrcTargetRequest& request);
  void handle_relay(const uabi::XrcRelay& message);
  void notify_targets(const uabi::XrcRelay& message);
  [[nodiscard]] Instant release_mapped();
  void wake_thread() { parts_.progress.sleeper.notify(ring::ThreadEvent::WorkLeft); }

  const Parts parts_;
  Instant release_at_{Instant::never()};  // what is mapped of peers (Placements)
};

}  // namespace weft::host
