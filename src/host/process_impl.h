#pragma once

// The inside of host::Process, in its parts: process.cc (objects), process_attach.cc (what the
// daemon gives first), process_control.cc (the daemon and lanes), process_carry.cc (packets out),
// process_links.cc (packets under way), process_receive.cc (packets in), process_poll.cc (what the
// application looks at), process_progress.cc (what the progress thread looks at), process_rest.cc
// (how it sleeps), process_upkeep.cc (wait queues and timers), process_multicast.cc (groups),
// multicast_sender.cc (copies out), process_moderation.cc (completion events that wait),
// process_xrc.cc (XRC domains of several processes), process_targets.cc (their target QPs),
// process_imports.cc (devices of several processes).

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fabric/counters.h"
#include "host/clock.h"
#include "host/control_socket.h"
#include "host/deferred_events.h"
#include "host/fabric_map.h"
#include "host/lane.h"
#include "host/multicast_route.h"
#include "host/process.h"
#include "host/progress_state.h"
#include "host/quiesce_guard.h"
#include "host/tap_set.h"
#include "host/timer_heap.h"
#include "ring/bell_board.h"
#include "wire/opcode.h"

namespace weft::host {

/// Of all pairs that a process belongs to, 1,023; what is sent to more is lost. As many as a board
/// has bells.
inline constexpr std::size_t kMaxLanes = ring::BellBoard::kBells;

/// Of the tables that a daemon publishes; policy.
inline constexpr std::size_t kMaxTablesBytes = std::size_t{1} << 32;

/// Hands one HCA's events on with its number.
class HcaEventsOf final : public hca::HcaEvents {
 public:
  HcaEventsOf(std::uint32_t hca, Process::Impl& process, ProcessEvents& events)
      : hca_(hca), process_(process), events_(events) {}
  void completion_event(hca::CompletionQueue& cq) override {
    DeferredEvents::tell(events_, hca_, cq);
  }
  void completion_event_held(hca::CompletionQueue& cq, Duration period) override;
  void async_event(const hca::AsyncEvent& event) override;
  void xrc_deputy_wanted(const hca::XrcDeputyRequest& request) override;
  void xrc_deputies_dismissed(std::uint32_t domain, Qpn target) override;
  [[nodiscard]] bool wants_explanations() const override { return events_.wants_explanations(); }
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

struct Process::Impl {
  /// A port as its newest tables have it, to tell what the next ones change.
  struct PortAsTold {
    hca::PortAttributes attributes;
    std::uint8_t reregistrations{};
  };
  struct HcaSlot {
    HcaSlot(std::uint32_t number, Impl& process) : events(number, process, process.events) {}
    HcaEventsOf events;
    std::unique_ptr<hca::Hca> engine;
    std::vector<PortAsTold> ports;  // by port number - 1
  };

  explicit Impl(ProcessEvents& process_events) : events(process_events) {}
  ~Impl();

  ProcessEvents& events;
  uabi::ProcessAddress self;
  std::string fabric;  // its name
  FabricMap map;
  TapSet taps;
  Mapping clock_memory;
  Mapping fault_memory;
  LiveLinks links;
  Mapping counter_memory;
  std::optional<fabric::CounterPage> counters;
  PolicyLock counters_lock{LockPolicy::Spin};
  Mapping attention_memory;
  std::vector<std::unique_ptr<HcaSlot>> slots;
  std::vector<HostHca> hcas;

  // --- QPs
  std::mutex qps_lock;
  std::unordered_map<hca::Qp*, std::unique_ptr<QpCarrier>> carriers;
  struct SharedReceives {
    hca::SharedReceiveQueue* queue{};
    hca::CompletionQueue* cq{};
  };
  std::unordered_map<hca::Qp*, SharedReceives> shared_receives;  // of QPs with an SRQ
  std::unordered_set<hca::SharedReceiveQueue*> xrc_srqs;
  std::unordered_map<hca::CompletionQueue*, std::unique_ptr<CqCarrier>> cq_carriers;
  TimerHeap<QpCarrier> timers;
  TimerHeap<CqCarrier> held_events;

  // --- lanes: an array that only grows, so that looking needs no lock; those of a pair lie
  // together
  struct Pair {
    Lane* first{};
    std::unique_ptr<PairMemory> memory;  // once joined, for good
  };
  std::mutex lanes_lock;
  std::map<uabi::ProcessAddress, Pair> pairs;
  std::vector<std::unique_ptr<Lane>> lanes = std::vector<std::unique_ptr<Lane>>(kMaxLanes);
  std::atomic<std::size_t> lane_count{0};
  std::mutex joining_lock;                  // lanes open only under it; before the owners of rings
  std::atomic<bool> daemon_is_gone{false};  // changed under lanes_lock: nobody makes lanes any more
  Lane* nowhere{};  // always dead: where packets without a destination are counted
  std::map<Lid, std::vector<uabi::ProcessAddress>> groups;  // under lanes_lock
  std::atomic<std::uint64_t> groups_generation{0};          // changes with them, after them
  std::condition_variable group_joined;                     // with lanes_lock
  std::uint64_t joins_asked{};                              // under qps_lock
  std::uint64_t joins_answered{};                           // under lanes_lock
  Instant news_looked_for{};                                // under multicast_lock
  std::atomic<std::uint32_t> waiting_count{0};              // carriers in waiting lists

  // --- control
  ControlSocket control;
  struct Outgoing {
    uabi::Message message;
    UniqueFd descriptor;  // if the message has one
  };
  std::mutex control_lock;  // what is to be sent
  std::deque<Outgoing> control_out;
  UniqueFd control_wake;  // eventfd
  std::atomic<bool> stopping{false};
  std::mutex gone_lock;
  bool gone_is_told{};
  std::string dismissal;  // under gone_lock: why the daemon sends this program away, if it does
  std::mutex threads_lock;
  std::thread control_thread;
  std::atomic<bool> control_works{false};  // it has taken a message, and is at it
  std::thread progress_thread;

  RecentClock clock;
  ProgressState progress;  // who looks at rings

  // process.cc
  [[nodiscard]] QpCarrier& carry_for(hca::Qp& qp, std::uint32_t hca, const hca::QpInit& init);
  [[nodiscard]] Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp);
  [[nodiscard]] Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                       hca::QpAttributeMask mask);

  // process_attach.cc
  Result<void> attach(const ProcessOptions& options);
  Result<void> map_memory(const std::vector<UniqueFd>& descriptors);
  void make_hcas(const hca::DeviceLimits& limits);
  Result<void> hear_briefing();

  // process_control.cc
  void start_hearing();
  void start_threads();
  void stop_threads();
  void run_control();
  void handle(Received received);
  void handle_lane(const uabi::Lane& message, std::vector<UniqueFd>& descriptors);
  void handle_gone(uabi::ProcessAddress peer);
  void handle_tables(const UniqueFd& file);
  void handle_tap(const uabi::OpenTap& tap, const UniqueFd& file);
  void handle_daemon_gone();
  void fail_qps();
  [[nodiscard]] Error gone() const;  // why nothing works without a daemon
  void tell_gone();
  void close_lane(Lane& lane);
  void part(uabi::ProcessAddress peer);
  void post(uabi::Message message, UniqueFd descriptor = UniqueFd{});
  /// On the caller's own thread, so that the descriptor is this process's no more when it returns.
  void post_and_send(uabi::Message message, UniqueFd descriptor);
  bool send_posted();
  void refresh_ports(bool tell);
  void tell_changes(std::uint32_t hca, PortNumber port, const PortAsTold& from,
                    const PortAsTold& to);
  [[gnu::cold, gnu::noinline]] void refuse(Lane& lane, uabi::Misbehaviour what);
  void pump_control();  // without a control thread: what the daemon sent so far
  Lane& lane_to(uabi::ProcessAddress peer, Qpn own, Qpn other);
  Pair* add_pair(uabi::ProcessAddress peer);
  template <class Act>
  void for_each_lane(const Pair& pair, Act act) {
    for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
      act(*lanes[pair.first->number + index]);
    }
  }

  // process_carry.cc
  std::mutex bind_lock;
  void bind(QpCarrier& carrier);
  void bind_again();
  /// What came of letting a QP transmit.
  struct Attempt {
    bool has_more{};
    bool has_sent{};
    Lane* blocked{};  // where there was no room
  };
  /// What a QP may send now. No response waits for requests to find room (decision 3);
  /// acknowledgements, which are short, need not even wait for their turn.
  enum class Allowed : std::uint8_t { Everything, OnlyResponses, OnlyAcknowledgements };
  [[nodiscard]] static Allowed allowed_now(const QpCarrier& carrier);
  [[nodiscard]] Attempt attempt(QpCarrier& carrier, Instant at, unsigned budget, Allowed allowed);
  [[nodiscard]] static Attempt conclude(QpCarrier& carrier, LaneSink& sink, bool has_more);
  [[gnu::noinline]] void wait_for_turn(QpCarrier& carrier, const Attempt& made);
  Result<void> post(QpCarrier& carrier, const hca::SendWr& wr);
  void send_what_is_owed(QpCarrier& carrier);
  void let_datagrams_leave(hca::Qp& qp);
  void carry(QpCarrier& carrier, Instant at, unsigned budget);
  void answer(QpCarrier& carrier, unsigned budget);
  void join_line(QpCarrier& carrier, Lane& wanted, bool wants_room);
  void leave_line(QpCarrier& carrier, Lane& lane);
  bool serve_line(Lane& lane, Instant at);
  void settle(QpCarrier& carrier);
  /// After what may have given the QP a new deadline.
  void arm(QpCarrier& carrier) {
    if (carrier.qp->deadline().since_start().nanoseconds() <
        carrier.armed_ns.load(std::memory_order_relaxed)) [[unlikely]] {
      arm_earlier(carrier);
    }
  }
  [[gnu::noinline]] void arm_earlier(QpCarrier& carrier);
  // True when something was sent.
  bool resume_waiting();
  bool resume_waiting_as_owner();  // of the upkeep
  void forget_waiting(QpCarrier& carrier);
  [[nodiscard]] bool knows_lane(const QpCarrier& carrier, const hca::PacketHeader& header) const;
  Lane& lane_of_packet(QpCarrier& carrier, const hca::PacketHeader& header);

  // process_multicast.cc
  [[nodiscard]] std::optional<fabric::PortIndex> port_index_of(const QpCarrier& carrier) const;
  void move_memberships(QpCarrier& carrier);
  [[gnu::noinline]] void deliver_multicast(Lane& lane, hca::Packet& packet, Instant at);

  [[nodiscard]] std::uint64_t ask_to_join(const Membership& membership);
  void wait_until_joined(std::uint64_t join);
  [[nodiscard]] bool handle_group(const uabi::Message& message);

  // multicast_sender.cc
  [[nodiscard]] bool daemon_has_news(Instant at);
  [[nodiscard]] bool send_multicast(const hca::PacketHeader& header,
                                    std::span<const ByteSpan> gather);
  [[nodiscard]] MulticastRoute& multicast_route(const hca::PacketHeader& header);
  void find_copies(MulticastRoute& route, Lid mlid);
  [[nodiscard]] bool has_lanes(MulticastRoute& route);
  void meet_faults(MulticastRoute& route, const hca::PacketHeader& header, std::uint64_t words);
  void show_multicast(const MulticastRoute& route, const hca::PacketHeader& header,
                      std::span<const ByteSpan> gather);
  void send_copy(const MulticastRoute& route, const MulticastRoute::Copy& copy,
                 const hca::PacketHeader& header, std::span<const ByteSpan> gather);
  std::mutex multicast_lock;
  std::map<std::uint64_t, MulticastRoute> multicast_routes;  // by hca::way_of; under multicast_lock
  Instant multicast_departs;                                 // the newest; under multicast_lock

  // process_links.cc
  /// Packets that have arrived by now go into their rings; true if any did.
  bool release_arrived();
  bool release_blocked(Instant at);
  /// After packets were kept: the thread must not sleep for longer.
  [[gnu::noinline]] void schedule_release();
  void finish_sending();

  // process_receive.cc
  std::size_t take_requests(Lane& lane, bool only_one_sided, bool leave_one_sided) {
    return lane.in(hca::Flow::Request).has_news()
               ? take_news(lane, hca::Flow::Request, only_one_sided, leave_one_sided)
               : 0;
  }
  /// Also when nothing came, if the peer wants room: it may have said so just after the last record
  /// went.
  std::size_t take_responses(Lane& lane) {
    return lane.in(hca::Flow::Response).has_news() || lane.room_is_wanted()
               ? take_news(lane, hca::Flow::Response, false, false)
               : 0;
  }
  /// What lies in a ring, unless somebody else is at it.
  [[gnu::always_inline]] std::size_t take_news(Lane& lane, hca::Flow flow, bool only_one_sided,
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
  class Touched;
  void deliver(Lane& lane, hca::Flow flow, ByteSpan record, Instant at, Touched& touched);
  void go_on(hca::Flow flow, const Touched& touched, Instant at);
  [[nodiscard]] static bool is_left(Lane& lane, ByteSpan record, bool only_one_sided,
                                    bool leave_one_sided);
  [[gnu::noinline]] void take_earlier_responses(const Lane& lane);

  // process_xrc.cc
  struct XrcDomainHere {
    std::uint32_t hca{};
    hca::XrcDomain* engine{};
    bool is_left{};  // by the program; target QPs of it stay for other processes
  };
  struct Deputy {
    std::uint32_t domain{};
    std::uint32_t hca{};
    uabi::ProcessAddress home;
    Qpn target;
    bool is_for_reads{};
    hca::Qp* qp{};
  };
  std::mutex xrc_lock;
  std::condition_variable xrc_answered;
  std::map<std::uint32_t, XrcDomainHere>
      xrc_domains;  // by name; under xrc_lock, as is what follows
  std::map<std::uint32_t, std::optional<uabi::XrcDomainOpened>> xrc_requests;
  std::uint32_t newest_xrc_request{};
  std::vector<Deputy> deputies;
  [[nodiscard]] Result<std::uint32_t> ask_for_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                         bool is_exclusive);
  void handle_xrc_domain(const uabi::XrcDomainOpened& answer);
  void handle_xrc_word(const uabi::XrcRelay& message);
  [[nodiscard]] uabi::XrcRelay make_deputy(const uabi::XrcRelay& message);
  void tell_targets(const uabi::XrcRelay& message);
  template <class Which>
  void end_deputies(Which which);
  void close_if_left(std::uint32_t domain);

  // process_targets.cc
  struct SharedTarget {
    hca::Qp* qp{};
    std::uint32_t hca{};
    std::uint32_t domain{};
    std::set<uabi::ProcessAddress> others;  // that have it open
    bool is_orphan{};                       // this program has it open no more
  };
  struct TargetQuestion {
    uabi::ProcessAddress peer;
    std::uint32_t domain{};
    std::optional<uabi::XrcTargetAnswer> answer;
  };
  std::map<std::uint32_t, TargetQuestion> target_questions;  // by serial; under xrc_lock
  std::mutex targets_lock;  // may be taken with a QP's locks held, so that nothing is done under it
  std::vector<SharedTarget> shared_targets;  // target QPs here of domains with names
  /// Of other processes, by domain and number: the handles of each.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> foreign_targets;
  void note_target(std::uint32_t hca, hca::Qp& qp);
  void tell_openers(const hca::AsyncEvent& event);
  [[nodiscard]] Result<hca::Qp*> target_for(const uabi::AskXrcTarget& question);
  void handle_target_question(const uabi::AskXrcTarget& question);
  void forget_opener(uabi::ProcessAddress peer, std::uint32_t domain, std::optional<Qpn> target);
  [[nodiscard]] std::size_t orphans_of(std::uint32_t domain);
  [[nodiscard]] Result<uabi::XrcTargetAnswer> ask_for_target(uabi::AskXrcTarget question);
  void handle_target_answer(const uabi::XrcTargetAnswer& answer);
  void handle_target_event(const uabi::XrcTargetEvent& message);
  void lose_targets(uabi::ProcessAddress peer, std::uint32_t domain);

  // process_imports.cc; by serial, under xrc_lock
  struct ObjectQuestion {
    uabi::ProcessAddress peer;
    std::uint32_t device{};
    std::optional<uabi::ObjectAnswer> answer;
  };
  std::map<std::uint32_t, std::optional<uabi::DeviceImported>> device_questions;
  std::map<std::uint32_t, ObjectQuestion> object_questions;
  [[nodiscard]] Result<uabi::DeviceImported> ask_for_device(int command);
  [[nodiscard]] bool handle_import(const uabi::Message& message);
  void give_up_questions(const uabi::DeviceGone& left);

  // process_moderation.cc
  void hold_event(CqCarrier& cq, Instant due);
  void tell_held_events(Instant at);

  // process_poll.cc
  void poll(CqCarrier& cq);
  std::size_t look_for_application(Lane& lane, std::uint32_t in_vain);
  void let_others_run(std::uint32_t in_vain);
  void consume_doorbells() {
    progress.sleeper.consume_doorbells([this](std::uint32_t number) {
      return number < lane_count.load(std::memory_order_acquire);
    });
  }

  // process_upkeep.cc
  /// Packets under way or wait queues; timers are looked at more seldom.
  [[nodiscard]] bool has_upkeep() const {
    return links.due.earliest() != Instant::never() ||
           links.blocked.load(std::memory_order_relaxed) != 0 ||
           waiting_count.load(std::memory_order_relaxed) != 0;
  }
  void keep_up(bool timers_too);
  void handle_timers(Instant at);
  [[nodiscard]] bool answers_wait(const Lane& lane);

  // process_progress.cc
  void run_progress();
  std::size_t look_for_thread(Lane& lane, bool spins);
  [[nodiscard]] Instant look_at_polls(Instant at);
  template <class Visit>
  void for_each_watched(Visit visit) {
    progress.sleeper.for_each_watched([&](std::uint32_t number) { visit(*lanes[number]); });
  }

  // process_rest.cc
  class ProgressThread;
  void rest(Instant at, Instant polled_at, SpinBudget& budget);
  void sleep_until_woken();
  void look_at_all();
  [[nodiscard]] Instant next_deadline() const {
    return std::min({timers.earliest(), links.due.earliest(), held_events.earliest()});
  }

  // For whoever gives the thread something to do (ring::Sleeper).
  void watch(const Lane& lane) { progress.sleeper.watch(lane.number); }
  void hand_over(const Lane& lane) { progress.sleeper.hand_over(lane.number); }
  void wake_thread() { progress.sleeper.notify(ring::ThreadEvent::WorkLeft); }
};

}  // namespace weft::host
