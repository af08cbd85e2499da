#pragma once

// The inside of host::Process: one object of each class that a process consists of, and how they
// are joined (docs/ARCHITECTURE.md, "What a process consists of"). Included by process*.cc only.

#include <atomic>
#include <cstdint>
#include <vector>

#include "host/application_poller.h"
#include "host/control_handler.h"
#include "host/daemon_connection.h"
#include "host/delayed_delivery.h"
#include "host/fabric_map.h"
#include "host/foreign/imports.h"
#include "host/foreign/peer_targets.h"
#include "host/foreign/shared_targets.h"
#include "host/foreign/xrc_domains.h"
#include "host/foreign/xrc_proxies.h"
#include "host/hca_event_relay.h"
#include "host/hca_set.h"
#include "host/held_events.h"
#include "host/key_violations.h"
#include "host/lane_binder.h"
#include "host/lane_table.h"
#include "host/live_links.h"
#include "host/maintenance.h"
#include "host/multicast_groups.h"
#include "host/multicast_sender.h"
#include "host/packet_receiver.h"
#include "host/packet_sender.h"
#include "host/path_counters.h"
#include "host/placement/page_sharing.h"
#include "host/placement/placements.h"
#include "host/port_events.h"
#include "host/process.h"
#include "host/progress_state.h"
#include "host/progress_thread.h"
#include "host/qp_table.h"
#include "host/qp_timers.h"
#include "host/tap_set.h"
#include "host/verbs_objects.h"
#include "os/clock.h"
#include "os/shared_memory.h"

namespace weft::host {

/// A plain struct: whoever is given a part may use it by that part's own rules. The order is that
/// of construction: what is passed on as its base class stands before whoever takes it.
struct Process::Impl {
  explicit Impl(ProcessEvents& events) : program(events) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // process_attach.cc
  [[nodiscard]] Result<void> attach(const ProcessOptions& with);
  [[nodiscard]] Result<void> map_memory(const std::vector<os::UniqueFd>& descriptors);

  ProcessEvents& program;
  ProcessOptions options;  // as which it attached
  KeyViolations key_violations;

  // Who acts on the daemon's messages and on what the program asks for; then who talks to the
  // daemon.
  ControlHandler control{
      {.map = map,
       .taps = taps,
       .lanes = lanes,
       .groups = groups,
       .sender = sender,
       .receiver = receiver,
       .ports = ports,
       .objects = objects,
       .hcas = hcas,
       .placements = placements,
       .key_violations = key_violations,
       .xrc_domains = xrc_domains,
       .shared_targets = shared_targets,
       .peer_targets = peer_targets,
       .imports = imports,
       .daemon = daemon,
       .progress = progress,
       .program = program}
  };
  VerbsObjects objects{
      {.hcas = hcas,
       .map = map,
       .qps = qps,
       .lanes = lanes,
       .binder = binder,
       .sender = sender,
       .receiver = receiver,
       .timers = timers,
       .held_events = held_events,
       .groups = groups,
       .shared_targets = shared_targets,
       .daemon = daemon,
       .thread = thread,
       .progress = progress}
  };
  DaemonConnection daemon{control, program};

  // What the daemon gives: its memory stays mapped.
  FabricMap map;
  TapSet taps;
  os::Mapping clock_memory;
  os::Mapping fault_memory;
  LiveLinks links;
  PathCounters counters;
  os::Mapping attention_memory;
  HcaSet hcas;
  PortEvents ports{map, hcas, program};

  // QPs and lanes.
  os::RecentClock clock;
  ProgressState progress;
  QpTable qps;
  QpTimers timers{progress.sleeper};
  HeldEvents held_events{progress};
  std::atomic<std::uint32_t> waiting_count{0};  // QPs in the wait queues of all lanes
  Placements placements;
  LaneTable lanes{map, taps, links, waiting_count, daemon, placements};
  LaneBinder binder{map, lanes};
  MulticastGroups groups{daemon};

  // Packets out, packets in, and who looks for them.
  DelayedDelivery delivery{lanes, links, progress.sleeper};
  MulticastSender multicast{
      {.map = map,
       .groups = groups,
       .lanes = lanes,
       .taps = taps,
       .links = links,
       .counters = counters,
       .daemon = daemon,
       .delivery = delivery,
       .sleeper = progress.sleeper}
  };
  PacketSender sender{
      {.context = {.binder = binder,
                   .multicast = multicast,
                   .delivery = delivery,
                   .counters = counters,
                   .progress = progress},
       .lanes = lanes,
       .timers = timers,
       .waiting_count = waiting_count,
       .clock = clock}
  };
  PacketReceiver receiver{
      {.lanes = lanes,
       .hcas = hcas,
       .sender = sender,
       .timers = timers,
       .daemon = daemon,
       .clock = clock}
  };
  Maintenance maintenance{
      {.lanes = lanes,
       .links = links,
       .waiting_count = waiting_count,
       .delivery = delivery,
       .sender = sender,
       .timers = timers,
       .progress = progress,
       .clock = clock}
  };
  ApplicationPoller poller{lanes, receiver, maintenance, progress};

  // Objects that several processes share.
  XrcProxies xrc_proxies{objects};
  SharedTargets shared_targets{daemon, objects};
  XrcDomains xrc_domains{daemon, objects, xrc_proxies, shared_targets};
  ForeignTargets peer_targets{daemon, program};
  Imports imports{daemon, program};

  ProgressThread thread{
      {.lanes = lanes,
       .sender = sender,
       .receiver = receiver,
       .maintenance = maintenance,
       .delivery = delivery,
       .held_events = held_events,
       .timers = timers,
       .progress = progress,
       .clock = clock}
  };
  PageSharing page_sharing{
      {.daemon = daemon, .thread = thread, .placements = placements}
  };
};

}  // namespace weft::host
