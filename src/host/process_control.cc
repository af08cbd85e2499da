// How a process deals with its daemon once it is attached: lanes, tables, captures, groups.

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <utility>

#include "base/live_bug.h"
#include "host/clock.h"
#include "host/process_impl.h"

namespace weft::host {
namespace {

/// A daemon that takes no messages is stopped; policy.
constexpr std::chrono::seconds kRoomPatience{10};
constexpr int kRoomPause_ms = 100;

/// A thread that takes none of the program's signals.
template <class Body>
[[nodiscard]] std::thread quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread{body};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

[[nodiscard]] hca::PortAttributes attributes_of(const fabric::TablesView& view,
                                                const fabric::PortRecord& port) {
  const auto gids = view.gids(port);
  const auto pkeys = view.pkeys(port);
  return {
      .state = static_cast<hca::PortState>(port.state),
      .lid = port.lid,
      .lmc = port.lmc,
      .sm_lid = port.sm_lid,
      .sm_sl = port.sm_sl,
      .max_mtu = port.max_mtu,
      .active_mtu = port.active_mtu,
      .active_width = port.active_width,
      .active_speed = port.active_speed,
      .gids = {gids.begin(),  gids.end() },
      .pkeys = {pkeys.begin(), pkeys.end()}
  };
}

}  // namespace

void Process::Impl::start_hearing() {
  const std::lock_guard guard{threads_lock};
  if (!control_thread.joinable()) {
    control_thread = quiet_thread([this] { run_control(); });
  }
}

void Process::Impl::start_threads() {
  start_hearing();
  const std::lock_guard guard{threads_lock};
  if (!progress_thread.joinable()) {
    progress_thread = quiet_thread([this] { run_progress(); });
  }
}

void Process::hear_daemon() { impl_->start_hearing(); }

void Process::Impl::stop_threads() {
  stopping.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(control_wake.get(), &one, sizeof one));
  const std::lock_guard guard{threads_lock};
  progress.sleeper.wake_now();
  for (std::thread* const thread : {&control_thread, &progress_thread}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

/// The daemon's connection manager takes the first packet for the RTU that it overtook (R-RVT-16);
/// other processes may have handles of a target.
void HcaEventsOf::async_event(const hca::AsyncEvent& event) {
  if (event.type == hca::AsyncEventType::CommunicationEstablished) {
    process_.post(uabi::CommunicationEstablished{.qpn = event.qp->number()});
  }
  if (event.qp != nullptr && event.qp->type() == hca::QpType::XrcTarget) {
    process_.tell_openers(event);
  }
  events_.async_event(hca_, event);
}

void Process::Impl::post(uabi::Message message, UniqueFd descriptor) {
  {
    const std::lock_guard guard{control_lock};
    control_out.push_back({.message = std::move(message), .descriptor = std::move(descriptor)});
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(control_wake.get(), &one, sizeof one));
}

/// In the order in which they were posted, on whichever thread; true: some must wait for room.
bool Process::Impl::send_posted() {
  const std::lock_guard guard{control_lock};
  while (!control_out.empty()) {
    const Outgoing& next = control_out.front();
    const int descriptor = next.descriptor.get();
    const auto sent = control.send(
        next.message, next.descriptor ? std::span{&descriptor, 1} : std::span<const int>{});
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      return true;
    }
    control_out.pop_front();
  }
  return false;
}

void Process::Impl::post_and_send(uabi::Message message, UniqueFd descriptor) {
  {
    const std::lock_guard guard{control_lock};
    control_out.push_back({.message = std::move(message), .descriptor = std::move(descriptor)});
  }
  const auto start = std::chrono::steady_clock::now();
  while (send_posted() && std::chrono::steady_clock::now() - start < kRoomPatience) {
    pollfd room{.fd = control.fd(), .events = POLLOUT, .revents = 0};
    ::poll(&room, 1, kRoomPause_ms);
  }
}

void Process::Impl::run_control() {
  while (!stopping.load()) {
    const bool has_more = send_posted();
    control_works.store(true);
    auto received = control.receive();
    if (received) {
      handle(std::move(*received));
      continue;
    }
    control_works.store(false);
    if (received.error().code == ErrorCode::Refused) {
      handle_daemon_gone();
      return;
    }
    std::array<pollfd, 2> waits{
        pollfd{.fd = control.fd(),
               .events = static_cast<short>(POLLIN | (has_more ? POLLOUT : 0)),
               .revents = 0                                                                 },
        pollfd{.fd = control_wake.get(), .events = POLLIN,                      .revents = 0}
    };
    ::poll(waits.data(), waits.size(), -1);
    std::uint64_t count{};
    static_cast<void>(!::read(control_wake.get(), &count, sizeof count));
  }
}

/// Where nobody hears the daemon yet, whoever asks for a port reads the news itself.
void Process::Impl::pump_control() {
  const std::lock_guard guard{threads_lock};
  if (control_thread.joinable()) {
    return;
  }
  while (true) {
    auto received = control.receive();
    if (!received) {
      return;
    }
    handle(std::move(*received));
  }
}

void Process::Impl::handle(Received received) {
  if (const auto* lane = std::get_if<uabi::Lane>(&received.message)) {
    handle_lane(*lane, received.descriptors);
  } else if (const auto* nobody = std::get_if<uabi::NoSuchProcess>(&received.message)) {
    handle_gone(nobody->peer);
  } else if (const auto* closed = std::get_if<uabi::LaneClosed>(&received.message)) {
    handle_gone(closed->peer);
  } else if (std::holds_alternative<uabi::TablesChanged>(received.message)) {
    handle_tables(received.descriptors[0]);
  } else if (const auto* domain = std::get_if<uabi::XrcDomainOpened>(&received.message)) {
    handle_xrc_domain(*domain);
  } else if (const auto* word = std::get_if<uabi::XrcRelay>(&received.message)) {
    handle_xrc_word(*word);
  } else if (handle_import(received.message) || handle_group(received.message)) {
    return;
  } else if (const auto* question = std::get_if<uabi::AskXrcTarget>(&received.message)) {
    handle_target_question(*question);
  } else if (const auto* answer = std::get_if<uabi::XrcTargetAnswer>(&received.message)) {
    handle_target_answer(*answer);
  } else if (const auto* event = std::get_if<uabi::XrcTargetEvent>(&received.message)) {
    handle_target_event(*event);
  } else if (const auto* refused = std::get_if<uabi::Refused>(&received.message)) {
    const std::lock_guard guard{gone_lock};
    dismissal = refused->reason;
  } else if (const auto* tap = std::get_if<uabi::OpenTap>(&received.message)) {
    handle_tap(*tap, received.descriptors[0]);
  } else if (const auto* untap = std::get_if<uabi::CloseTap>(&received.message)) {
    taps.close(untap->capture);
    resume_waiting();
  }
}

/// With lanes_lock held; null when there are too many.
Process::Impl::Pair* Process::Impl::add_pair(uabi::ProcessAddress peer) {
  const std::size_t count = lane_count.load(std::memory_order_relaxed);
  if (count + kLanesPerPair > kMaxLanes) {
    return nullptr;
  }
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    lanes[count + index] = std::make_unique<Lane>(static_cast<std::uint32_t>(count) + index, index,
                                                  self, peer, map, taps, links);
  }
  lane_count.store(count + kLanesPerPair, std::memory_order_release);
  Pair& pair = pairs[peer];
  pair.first = lanes[count].get();
  return &pair;
}

/// The lane for that pair of QPs; the daemon is asked for it if need be.
Lane& Process::Impl::lane_to(uabi::ProcessAddress peer, Qpn own, Qpn other) {
  const std::lock_guard guard{lanes_lock};
  const auto found = pairs.find(peer);
  Pair* pair = found != pairs.end() ? &found->second : nullptr;
  const bool is_new = pair == nullptr && !daemon_is_gone;
  if (is_new) {
    pair = add_pair(peer);
  }
  if (pair == nullptr) {
    return *nowhere;
  }
  Lane& lane = *lanes[pair->first->number + Lane::index_for(self, own, peer, other)];
  // They live and die together.
  const auto reopens = [&] {
    bool any = false;
    for_each_lane(*pair, [&](Lane& each) { any = each.try_reopen() || any; });
    return any;
  };
  if (is_new ||
      (pair->first != nowhere && !daemon_is_gone && lane.state() == LaneState::Dead && reopens())) {
    post(uabi::OpenLane{.peer = peer});
  }
  return lane;
}

void Process::Impl::handle_lane(const uabi::Lane& message, std::vector<UniqueFd>& descriptors) {
  if (message.side > 1 || message.peer == self) {
    return;
  }
  const std::lock_guard joining{joining_lock};
  {
    const std::lock_guard guard{lanes_lock};
    const auto found = pairs.find(message.peer);
    Pair* const pair = found == pairs.end() ? add_pair(message.peer) : &found->second;
    if (pair == nullptr || pair->first->state() == LaneState::Open) {
      return;
    }
    if (pair->memory == nullptr) {
      auto memory = PairMemory::reserve();
      pair->memory = memory ? std::move(*memory) : nullptr;
    }
    if (pair->memory == nullptr || !pair->memory->join(descriptors[0], descriptors[1])) {
      return;
    }
    // Nobody looks at its rings before a lane is open.
    for_each_lane(*pair, [&](Lane& lane) {
      lane.open(*pair->memory, message.side == 0 ? ring::LaneSide::A : ring::LaneSide::B);
      lane.announce_sleep(ring::Sleep::Sound);
      if (lane.has_news() &&
          !planted(LiveBug::NewLaneNotWatched)) {  // what the peer sent before this was mapped rang
                                                   // no doorbell here
        watch(lane);
      }
    });
  }
  resume_waiting();
  wake_thread();
}

void Process::Impl::close_lane(Lane& lane) {
  const std::scoped_lock owners{lane.in(hca::Flow::Request).owner,
                                lane.in(hca::Flow::Response).owner};
  if (lane.state() == LaneState::Open && !planted(LiveBug::DeadLaneNotDrained)) {
    // What it sent before it went away counts.
    while (drain(lane, hca::Flow::Response, false, false) +
               drain(lane, hca::Flow::Request, false, false) !=
           0) {
    }
  }
  progress.sleeper.forget(lane.number);
  lane.close(*nowhere);
}

/// The peer is gone, or the daemon that joined us.
void Process::Impl::part(uabi::ProcessAddress peer) {
  Pair* pair = nullptr;
  {
    const std::lock_guard guard{lanes_lock};
    if (const auto found = pairs.find(peer);
        found != pairs.end() && peer != self && found->second.first != nowhere) {
      pair = &found->second;  // a node of a map stays where it is
    }
  }
  if (pair != nullptr) {
    for_each_lane(*pair, [this](Lane& lane) { close_lane(lane); });
    if (pair->memory != nullptr) {
      pair->memory->part();
    }
  }
}

void Process::Impl::handle_gone(uabi::ProcessAddress peer) {
  part(peer);
  resume_waiting();
  wake_thread();
}

Error Process::Impl::gone() const {
  return {
      ErrorCode::Io,
      fmt::format("fabric {} is gone: its daemon, weftd, has ended, and every connection with it; "
                  "`weft up --name {}` or `weft run` makes a new one for programs started then",
                  fabric, fabric)};
}

namespace {

void flush(hca::SharedReceiveQueue& queue, hca::CompletionQueue& cq, Qpn qpn) {
  hca::ReceiveWqe wqe;
  while (queue.take(wqe)) {
    hca::Wc wc;
    wc.wr_id = wqe.wr_id;
    wc.status = hca::WcStatus::WorkRequestFlushed;
    wc.opcode = hca::WcOpcode::Receive;
    wc.qpn = qpn;
    cq.push(wc, false);
  }
}

}  // namespace

/// Every QP to the error state, as on an HCA that fails as a whole (IBTA vol 1 §10.10.2.3, local
/// catastrophic error): what is posted completes as flushed. While it is quiesced no QP is being
/// destroyed; one that is made or changed later asks for `daemon_is_gone` itself.
void Process::Impl::fail_qps() {
  hca::QpAttributes error;
  error.state = hca::QpState::Err;
  const QuiesceGuard quiesced{*this};
  const std::lock_guard guard{qps_lock};
  for (const auto& [qp, carrier] : carriers) {
    const bool failed = qp->modify(error, hca::QpAttribute::State).has_value();  // not from RESET
    if (!failed) {
      continue;
    }
    // Policy: a QP that fails alone leaves its SRQ's receives to others; here there are none.
    if (const auto shared = shared_receives.find(qp); shared != shared_receives.end()) {
      flush(*shared->second.queue, *shared->second.cq, qp->number());
    }
    for (hca::SharedReceiveQueue* const srq : xrc_srqs) {
      if (srq->xrc().domain == qp->xrc_domain()) {
        flush(*srq, *srq->xrc().cq, qp->number());
      }
    }
  }
}

void Process::Impl::tell_gone() {
  // Under the lock to its last letter: a program that ends meanwhile waits for it.
  const std::lock_guard guard{gone_lock};
  if (!std::exchange(gone_is_told, true)) {
    events.fabric_gone(dismissal.empty() ? gone().reason
                                         : fmt::format("fabric {} has sent this program away: {}",
                                                       fabric, dismissal));
  }
}

void Process::tell_if_fabric_is_gone() {
  pollfd ended{.fd = impl_->control.fd(), .events = 0, .revents = 0};
  if (::poll(&ended, 1, 0) == 1 && (ended.revents & POLLHUP) != 0) {
    impl_->tell_gone();
  }
}

/// A record of that peer was refused: counts it, and tells the daemon now and then.
void Process::Impl::refuse(Lane& lane, uabi::Misbehaviour what) {
  if (const auto count = lane.refusals.count(what, now()); count && lane.peer != self) {
    post(uabi::PeerMisbehaves{.peer = lane.peer, .what = what, .count = *count});
  }
}

/// The person is told first: a program may end at its first flushed completion.
void Process::Impl::handle_daemon_gone() {
  tell_gone();
  std::vector<uabi::ProcessAddress> peers;
  {
    const std::lock_guard guard{lanes_lock};
    daemon_is_gone.store(true);
    group_joined.notify_all();
    for (const auto& [peer, pair] : pairs) {
      peers.push_back(peer);
    }
  }
  for (const uabi::ProcessAddress& peer : peers) {
    part(peer);
  }
  {
    const std::lock_guard guard{xrc_lock};  // who waits for an answer has it
    xrc_answered.notify_all();
  }
  fail_qps();
  resume_waiting();
  wake_thread();
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    hca::AsyncEvent fatal;
    fatal.type = hca::AsyncEventType::DeviceFatal;
    events.async_event(i, fatal);
  }
}

void Process::Impl::handle_tables(const UniqueFd& file) {
  auto image = map_published(file, kMaxTablesBytes);
  if (image && map.replace(std::move(*image))) {
    refresh_ports(true);
    bind_again();
    resume_waiting();
  }
}

void Process::Impl::handle_tap(const uabi::OpenTap& tap, const UniqueFd& file) {
  constexpr std::size_t kBytes = ring::ring_bytes(kTapRingCapacity);
  auto memory = map_shared(file, Protection::ReadWrite, kBytes, kBytes);
  if (memory) {
    taps.open(tap.capture, tap.port, std::move(*memory));
    post(uabi::TapReady{.capture = tap.capture});
  }
}

void Process::Impl::refresh_ports(bool tell) {
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    HcaSlot& slot = *slots[i];
    for (std::uint8_t number = 1; number <= slot.ports.size(); ++number) {
      const PortAsTold fresh = map.ask([&](const fabric::TablesView& view) {
        const auto index = view.find_port(fabric::NodeIndex{self.node}, PortNumber{number}, i);
        const fabric::PortRecord& record = view.port(*index);
        return PortAsTold{.attributes = attributes_of(view, record),
                          .reregistrations = record.reregistrations};
      });
      const PortAsTold known = std::exchange(slot.ports[number - 1U], fresh);
      slot.engine->set_port(PortNumber{number}, fresh.attributes);
      if (tell) {
        tell_changes(i, PortNumber{number}, known, fresh);
      }
    }
  }
}

/// The unaffiliated asynchronous events of a port (IBTA vol 1 §11.6.3.3, ibv_get_async_event(3)).
void Process::Impl::tell_changes(std::uint32_t hca, PortNumber port, const PortAsTold& from,
                                 const PortAsTold& to) {
  const hca::PortAttributes& before = from.attributes;
  const hca::PortAttributes& now = to.attributes;
  const bool was_active = before.state == hca::PortState::Active;
  const bool is_active = now.state == hca::PortState::Active;
  const auto tell_if = [&](bool changed, hca::AsyncEventType type) {
    if (changed) {
      events.async_event(
          hca, {.type = type, .qp = nullptr, .cq = nullptr, .srq = nullptr, .port = port});
    }
  };
  tell_if(was_active && !is_active, hca::AsyncEventType::PortError);
  tell_if(before.lid != now.lid || before.lmc != now.lmc, hca::AsyncEventType::LidChange);
  tell_if(before.pkeys != now.pkeys, hca::AsyncEventType::PKeyChange);
  tell_if(before.gids != now.gids, hca::AsyncEventType::GidChange);
  tell_if(before.sm_lid != now.sm_lid || before.sm_sl != now.sm_sl, hca::AsyncEventType::SmChange);
  tell_if(!was_active && is_active, hca::AsyncEventType::PortActive);
  tell_if(from.reregistrations != to.reregistrations, hca::AsyncEventType::ClientReregister);
}

}  // namespace weft::host
