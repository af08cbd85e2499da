#pragma once

// The inside of host::Process: what it consists of, and what joins these parts: process.cc
// (objects), process_attach.cc (what the daemon gives first), process_control.cc (what the daemon
// says), process_ports.cc (ports and their events), process_foreign.cc (objects that several
// processes share), process_carry.cc (packets out), process_links.cc (packets under way),
// process_receive.cc (packets in), process_poll.cc (what
// the application looks at), process_progress.cc (what the progress thread looks at),
// process_rest.cc (how it sleeps), process_maintenance.cc (wait queues and timers),
// process_multicast.cc (groups), multicast_sender.cc (copies out), process_moderation.cc
// (completion events that wait).

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/counters.h"
#include "host/daemon_connection.h"
#include "host/deferred_events.h"
#include "host/fabric_map.h"
#include "host/foreign/imports.h"
#include "host/foreign/local_objects.h"
#include "host/foreign/peer_targets.h"
#include "host/foreign/shared_targets.h"
#include "host/foreign/xrc_domains.h"
#include "host/foreign/xrc_proxies.h"
#include "host/key_violations.h"
#include "host/lane.h"
#include "host/lane_table.h"
#include "host/multicast_groups.h"
#include "host/multicast_route.h"
#include "host/process.h"
#include "host/progress_state.h"
#include "host/qp_table.h"
#include "host/quiesce_guard.h"
#include "host/tap_set.h"
#include "os/clock.h"
#include "ring/doorbell_bitmap.h"
#include "station/timer_heap.h"
#include "station/wait_queue.h"
#include "wire/opcode.h"

namespace weft::host {

/// Of the tables that a daemon publishes; policy.
inline constexpr std::size_t kMaxTablesBytes = std::size_t{1} << 32;

/// Hands one HCA's events on with its number.
class HcaEventRelay final : public hca::HcaEvents {
 public:
  HcaEventRelay(std::uint32_t hca, Process::Impl& process, ProcessEvents& events)
      : hca_(hca), process_(process), events_(events) {}
  void completion_event(hca::CompletionQueue& cq) override {
    DeferredEvents::tell(events_, hca_, cq);
  }
  void completion_event_held(hca::CompletionQueue& cq, Duration period) override;
  void async_event(const hca::AsyncEvent& event) override;
  void bad_key(const hca::BadKey& bad) override;
  void xrc_proxy_requested(const hca::XrcProxyRequest& request) override;
  void xrc_proxies_released(std::uint32_t domain, Qpn target) override;
  [[nodiscard]] bool explains_errors() const override { return events_.explains_errors(); }
  void explain(std::string_view reason) override { events_.explain(reason); }

 private:
  std::uint32_t hca_;
  Process::Impl& process_;
  ProcessEvents& events_;
};

class LaneSink;
class SpinBudget;

/// Trains that a QP may send when something came for it, before others have their turn; policy.
inline constexpr unsigned kAnswerBudget = 4;

/// Whether the oldest request in a ring is such; for its owner.
[[nodiscard]] bool has_one_sided_request(Lane::In& requests);

struct Process::Impl final : DaemonHandler, LocalObjects {
  /// A port as its newest tables have it, to tell what the next ones change.
  struct ReportedPort {
    hca::PortAttributes attributes;
    std::uint8_t reregistrations{};
  };
  struct HcaSlot {
    HcaSlot(std::uint32_t number, Impl& process) : events(number, process, process.events) {}
    HcaEventRelay events;
    std::unique_ptr<hca::Hca> engine;
    std::vector<ReportedPort> ports;  // by port number - 1
  };

  explicit Impl(ProcessEvents& process_events) : events(process_events) {}
  ~Impl() override;

  ProcessEvents& events;
  DaemonConnection connection{*this, events};
  KeyViolations bad_keys;
  uabi::ProcessAddress self;
  FabricMap map;
  TapSet taps;
  os::Mapping clock_memory;
  os::Mapping fault_memory;
  LiveLinks links;
  os::Mapping counter_memory;
  std::optional<fabric::CounterPage> counters;
  PolicyLock counters_lock{LockPolicy::Spin};
  os::Mapping attention_memory;
  std::vector<std::unique_ptr<HcaSlot>> slots;
  std::vector<HostHca> hcas;

  // --- QPs and lanes
  QpTable qps;
  station::TimerHeap<QpDriverState> timers;
  station::TimerHeap<CqDriverState> held_events;
  std::atomic<std::uint32_t> waiting_count{0};  // in the wait queues of all lanes
  LaneTable lanes{map, taps, links, waiting_count, connection};
  MulticastGroups groups{connection};
  Instant daemon_checked_at{};  // under multicast_lock

  // --- objects that several processes share
  XrcProxies xrc_proxies{*this};
  SharedTargets shared_targets{connection, *this};
  XrcDomains xrc_domains{connection, *this, xrc_proxies, shared_targets};
  ForeignTargets peer_targets{connection, events};
  Imports imports{connection, events};

  std::atomic<bool> stopping{false};
  std::mutex progress_thread_lock;
  std::thread progress_thread;

  os::RecentClock clock;
  ProgressState progress;  // who looks at rings

  // process.cc
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp) override;
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask) override;

  // process_attach.cc
  Result<void> attach(const ProcessOptions& options);
  Result<void> map_memory(const std::vector<os::UniqueFd>& descriptors);
  void make_hcas(const hca::DeviceLimits& limits);

  // process_control.cc
  void start_threads();
  void stop_threads();
  void handle_lane(const uabi::Lane& lane, std::vector<os::UniqueFd>& descriptors) override;
  void handle_peer_gone(uabi::ProcessAddress peer) override;
  void handle_tables(const os::UniqueFd& file) override;
  void handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) override;
  void handle_tap_closed(const uabi::CloseTap& tap) override;
  void handle_group(const uabi::GroupMembers& group) override;
  void handle_group_joined() override;
  void handle_daemon_gone() override;
  void fail_qps();
  void close_lane(Lane& lane);
  void part(uabi::ProcessAddress peer);
  [[gnu::cold, gnu::noinline]] void refuse(Lane& lane, uabi::RecordFault what);

  // process_ports.cc
  void refresh_ports(bool tell);
  void report_port_changes(std::uint32_t hca, PortNumber port, const ReportedPort& from,
                           const ReportedPort& to);

  // process_foreign.cc
  void handle_shared_object(const uabi::Message& message) override;
  void handle_relay(const uabi::XrcRelay& message);
  void notify_targets(const uabi::XrcRelay& message);
  void start_serving() override { start_threads(); }
  [[nodiscard]] hca::Hca& engine(std::uint32_t hca) override { return *slots.at(hca)->engine; }
  void carry_for_proxy(std::uint32_t hca, hca::Qp& qp) override;
  void for_each_qp_of(std::uint32_t domain, const std::function<bool(hca::Qp&)>& visit) override;

  // process_carry.cc
  std::mutex bind_lock;
  void bind(QpDriverState& qp_state);
  void bind_again();
  /// What came of letting a QP transmit.
  struct Attempt {
    bool has_more{};
    bool has_sent{};
    Lane* blocked{};  // where there was no room
  };
  using Allowed = station::Allowed;
  [[nodiscard]] static Allowed allowed_now(const QpDriverState& qp_state);
  [[nodiscard]] Attempt attempt(QpDriverState& qp_state, Instant at, unsigned budget,
                                Allowed allowed);
  [[nodiscard]] static Attempt finish_attempt(QpDriverState& qp_state, LaneSink& sink,
                                              bool has_more);
  [[gnu::noinline]] void wait_for_space(QpDriverState& qp_state, const Attempt& made);
  Result<void> post(QpDriverState& qp_state, const hca::SendWr& wr);
  void send_pending_responses(QpDriverState& qp_state);
  void flush_datagrams(hca::Qp& qp);
  void transmit_qp(QpDriverState& qp_state, Instant at, unsigned budget);
  void answer(QpDriverState& qp_state, unsigned budget);
  class QueueDriver;
  void join_queue(QpDriverState& qp_state, Lane& wanted, bool wants_space);
  void settle(QpDriverState& qp_state);
  /// After what may have given the QP a new deadline.
  void arm(QpDriverState& qp_state) {
    if (qp_state.qp->deadline().since_start().nanoseconds() <
        qp_state.armed_ns.load(std::memory_order_relaxed)) [[unlikely]] {
      arm_earlier(qp_state);
    }
  }
  [[gnu::noinline]] void arm_earlier(QpDriverState& qp_state);
  // True when something was sent.
  bool resume_waiting();
  bool resume_waiting_as_owner();  // of the maintenance
  [[nodiscard]] bool knows_lane(const QpDriverState& qp_state,
                                const hca::PacketHeader& header) const;
  Lane& lane_of_packet(QpDriverState& qp_state, const hca::PacketHeader& header);

  // key_violations.cc
  Instant report_due() override;

  // process_multicast.cc
  [[nodiscard]] std::optional<fabric::PortIndex> port_index_of(const QpDriverState& qp_state) const;
  void move_memberships(QpDriverState& qp_state);
  [[gnu::noinline]] void deliver_multicast(Lane& lane, hca::Packet& packet, Instant at);

  // multicast_sender.cc
  [[nodiscard]] bool has_daemon_messages(Instant at);
  [[nodiscard]] bool send_multicast(const hca::PacketHeader& header,
                                    std::span<const ByteSpan> gather);
  [[nodiscard]] MulticastRoute& multicast_route(const hca::PacketHeader& header);
  void find_copies(MulticastRoute& route, Lid mlid);
  [[nodiscard]] bool has_lanes(MulticastRoute& route);
  void apply_faults(MulticastRoute& route, const hca::PacketHeader& header, std::uint64_t words);
  void capture_multicast(const MulticastRoute& route, const hca::PacketHeader& header,
                         std::span<const ByteSpan> gather);
  void send_copy(const MulticastRoute& route, const MulticastRoute::Copy& copy,
                 const hca::PacketHeader& header, std::span<const ByteSpan> gather);
  std::mutex multicast_lock;
  std::map<std::uint64_t, MulticastRoute>
      multicast_routes;       // by hca::route_key_of; under multicast_lock
  Instant multicast_departs;  // the newest; under multicast_lock

  // process_links.cc
  /// Packets that have arrived by now go into their rings; true if any did.
  bool release_arrived();
  bool release_blocked(Instant at);
  /// After packets were kept: the thread must not sleep for longer.
  [[gnu::noinline]] void schedule_release();
  void finish_sending();

  // process_receive.cc
  std::size_t take_requests(Lane& lane, bool only_one_sided, bool leave_one_sided) {
    return lane.in(hca::Flow::Request).has_record()
               ? take_records(lane, hca::Flow::Request, only_one_sided, leave_one_sided)
               : 0;
  }
  /// Also when nothing came, if the peer wants room: it may have said so just after the last record
  /// went.
  std::size_t take_responses(Lane& lane) {
    return lane.in(hca::Flow::Response).has_record() || lane.space_is_wanted()
               ? take_records(lane, hca::Flow::Response, false, false)
               : 0;
  }
  /// What lies in a ring, unless somebody else is at it.
  [[gnu::always_inline]] std::size_t take_records(Lane& lane, hca::Flow flow, bool only_one_sided,
                                                  bool leave_one_sided) {
    Lane::In& in = lane.in(flow);
    if (!in.owner.try_lock()) {
      return 0;
    }
    const std::lock_guard owner{in.owner, std::adopt_lock};
    return drain(lane, flow, only_one_sided, leave_one_sided);
  }
  std::size_t drain(Lane& lane, hca::Flow flow, bool only_one_sided, bool leave_one_sided);
  /// The QPs that the packets of a batch were for.
  class TouchedQps;
  void deliver(Lane& lane, hca::Flow flow, ByteSpan record, Instant at, TouchedQps& touched_qps);
  void resume_qps(hca::Flow flow, const TouchedQps& touched_qps, Instant at);
  [[nodiscard]] static bool is_left_to_application(Lane& lane, ByteSpan record, bool only_one_sided,
                                                   bool leave_one_sided);
  [[gnu::noinline]] void take_earlier_responses(const Lane& lane);

  // process_moderation.cc
  void hold_event(CqDriverState& cq, Instant due);
  void deliver_held_events(Instant at);

  // process_poll.cc
  void poll(CqDriverState& cq);
  std::size_t poll_for_application(Lane& lane, std::uint32_t empty_polls);
  void yield_to_others(std::uint32_t empty_polls);
  void consume_doorbells() {
    progress.sleeper.consume_doorbells(
        [this](std::uint32_t number) { return number < lanes.count(); });
  }

  // process_maintenance.cc
  /// Packets under way or wait queues; timers are looked at more seldom.
  [[nodiscard]] bool has_maintenance() const {
    return links.due.earliest() != Instant::never() ||
           links.blocked.load(std::memory_order_relaxed) != 0 ||
           waiting_count.load(std::memory_order_relaxed) != 0;
  }
  void run_maintenance(bool timers_too);
  void handle_timers(Instant at);
  [[nodiscard]] bool answers_wait(const Lane& lane);

  // process_progress.cc
  void run_progress();
  std::size_t poll_for_thread(Lane& lane, bool spins);
  [[nodiscard]] Instant observe_polls(Instant at);
  template <class Visit>
  void for_each_polled_lane(Visit visit) {
    progress.sleeper.for_each_polled_lane([&](std::uint32_t number) { visit(*lanes[number]); });
  }

  // process_rest.cc
  class ProgressThread;
  void rest(Instant at, Instant polled_at, SpinBudget& budget);
  void sleep_until_woken();
  void poll_all_lanes();
  [[nodiscard]] Instant next_deadline() const {
    return std::min({timers.earliest(), links.due.earliest(), held_events.earliest()});
  }

  // For whoever gives the thread something to do (ring::Sleeper).
  void watch(const Lane& lane) { progress.sleeper.watch(lane.number); }
  void hand_over(const Lane& lane) { progress.sleeper.hand_over(lane.number); }
  void wake_thread() { progress.sleeper.notify(ring::ThreadEvent::WorkLeft); }
};

}  // namespace weft::host
