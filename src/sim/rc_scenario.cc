#include "sim/rc_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "hca/packet_wire.h"
#include "node/fabric.h"
#include "sim/process.h"
#include "sim/rc_end.h"
#include "sim/single_sink.h"
#include "wire/encodings.h"

namespace weft::sim {
namespace {

constexpr Duration kVirtualBound = Duration::seconds(60);
/// Longer than all retries of these QPs.
constexpr Duration kOutlastsRetries = Duration::seconds(2);
constexpr Duration kActInterval = Duration::microseconds(20);
/// For which a path is watched, or is not.
constexpr Duration kWatchTurn = Duration::microseconds(100);

/// Time of a random event, early enough to hit the middle of the operations.
Instant some_time(Random& random) {
  return Instant{} + Duration::microseconds(static_cast<std::int64_t>(50 + random.below(1500)));
}

class World {
 public:
  explicit World(const RcScenario& scenario)
      : scenario_(scenario),
        random_(scenario.seed * 3 + 1),
        network_(scenario.seed * 5 + 2, scenario.faults) {
    fabric_ = std::move(*node::Fabric::create(*fabric::generate_star(scenario.hosts), Instant{}));
    for (std::uint32_t i = 0; i < scenario.processes; ++i) {
      attach(i % scenario.hosts);
    }
    for (std::uint32_t i = 0; i < scenario.pairs; ++i) {
      const std::size_t first = random_.below(processes_.size());
      const std::size_t other = 1 + random_.below(processes_.size() - 1);
      make_pair(*processes_[first], *processes_[(first + other) % processes_.size()]);
    }
    if (scenario.a_process_dies) {
      victim_ = random_.below(processes_.size());
      death_at_ = some_time(random_);
    }
    if (scenario.partition != Duration{} || scenario.a_network_dies) {
      cut_at_ = some_time(random_);
    }
  }

  Outcome run() {
    while (verdict_.ok() && now_.since_start() < kVirtualBound && !is_finished()) {
      step();
    }
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2 && verdict_.ok(); ++i) {
        if (ends.process[i]->is_alive()) {
          ends.end[i]->check_at_end(ends.process[1 - i]->is_alive());
        }
      }
    }
    Outcome outcome;
    outcome.ok = verdict_.ok();
    outcome.failure = verdict_.failure();
    outcome.packets = network_.sent();
    outcome.placed = placed_;
    outcome.placed_atomics = placed_atomics_;
    outcome.digest = digest_.value();
    for (Ends& ends : ends_) {
      for (auto& end : ends.end) {
        outcome.completions += end->completions();
        outcome.digest = outcome.digest * 31 + end->digest();
      }
    }
    outcome.took = now_.since_start();
    return outcome;
  }

 private:
  struct Ends {
    std::array<Process*, 2> process{};
    std::array<std::unique_ptr<RcEnd>, 2> end;
  };

  /// Receives packets from the engines.
  class Sink final : public SingleSink {
   public:
    explicit Sink(World& world) : world_(world) {}

    /// The next packets are of this QP.
    void transmit_for(hca::Qp& qp) { qp_ = &qp; }

    [[nodiscard]] hca::PlacementMeans may_place(const hca::PlacementTarget& target) override {
      return world_.find_placeable(target).empty() ? hca::PlacementMeans::None : world_.means();
    }
    [[nodiscard]] hca::PlacementMeans place(const hca::Placement& part) override {
      const MutableByteSpan memory = world_.find_placeable(part.target);
      if (memory.empty() || (part.atomic && world_.means() != hca::PlacementMeans::SharedPages)) {
        return hca::PlacementMeans::None;
      }
      world_.end_of(*qp_).check_order(part.target);
      hca::GrantedMemory::move(part, memory);
      ++world_.placed_;
      world_.placed_atomics_ += part.atomic ? 1U : 0U;
      return world_.means();
    }

   private:
    void put_on_wire(hca::Flow flow, const hca::Packet& single) override {
      world_.put_on_wire(flow, single);
    }

    World& world_;
    hca::Qp* qp_{};
  };

  [[nodiscard]] hca::PlacementMeans means() const {
    return scenario_.shares_pages ? hca::PlacementMeans::SharedPages
                                  : hca::PlacementMeans::SystemCall;
  }

  [[nodiscard]] RcEnd& end_of(const hca::Qp& qp) {
    for (Ends& ends : ends_) {
      for (auto& end : ends.end) {
        if (&end->qp() == &qp) {
          return *end;
        }
      }
    }
    WEFT_ASSERT(false, "the QP is an end's");
    std::unreachable();
  }

  Process& attach(std::uint32_t host) {
    const std::string name = fmt::format("h{}", host + 1);
    const node::ProcessId id = *fabric_->attach(name, now_);
    const Lid lid = fabric_->builder().port(fabric_->find_ports(name)->front()).lid;
    return *processes_.emplace_back(std::make_unique<Process>(id, lid, scenario_.seed));
  }

  void make_pair(Process& first, Process& second) {
    const std::uint64_t number = ends_.size();
    Ends ends;
    ends.process = {&first, &second};
    static_cast<void>(fabric_->join_lane(first.id(), second.id()));
    for (std::size_t i = 0; i < 2; ++i) {
      ends.end[i] = std::make_unique<RcEnd>(
          *ends.process[i], scenario_.seed * 1000 + number * 2 + i, scenario_.operations_per_side,
          scenario_.max_message_bytes, scenario_.over_xrc, verdict_);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ends.end[i]->introduce(*ends.end[1 - i], ends.process[i]->lid(), ends.process[1 - i]->lid());
      if (scenario_.a_network_dies) {
        ends.end[i]->prepare_second_path(second_lid(ends.process[1 - i]->lid()));
      }
    }
    if (scenario_.places) {
      ends.end[0]->let_memory_move();
      ends.end[1]->let_memory_move();
    }
    if (scenario_.shares_pages) {
      ends.end[0]->try_bad_atomics();
      ends.end[1]->try_bad_atomics();
      if ((scenario_.seed + number) % 2 == 0) {
        ends.end[1]->refuse_atomics();
      }
    }
    ends.end[0]->connect();
    ends.end[1]->connect();
    ends_.push_back(std::move(ends));
  }

  void step() {
    Instant next = std::min({next_act_, network_.next_arrival(), death_at_, cut_at_, heal_at_});
    for (auto& process : processes_) {
      if (process->is_alive()) {
        process->hca().for_each_qp([&](hca::Qp& qp) { next = std::min(next, qp.deadline()); });
      }
    }
    now_ = std::max(now_, next);
    if (death_at_ <= now_) {
      kill();
    }
    if (cut_at_ <= now_ && scenario_.a_network_dies) {
      cut_first_network();
    } else if (cut_at_ <= now_ || heal_at_ <= now_) {
      partition();
    }
    if (network_.next_arrival() <= now_) {
      deliver(network_.take());
    }
    if (next_act_ <= now_) {
      run_applications();
    }
    for (auto& process : processes_) {
      if (process->is_alive()) {
        drive(*process);
      }
    }
  }

  void run_applications() {
    next_act_ = now_ + kActInterval;
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (ends.process[i]->is_alive()) {
          ends.end[i]->act();
          ends.end[i]->poll();
        }
      }
    }
  }

  void drive(Process& process) {
    Sink sink{*this};
    process.hca().for_each_qp([&](hca::Qp& qp) {
      if (qp.deadline() <= now_) {
        qp.handle_timeout(now_);
      }
      sink.transmit_for(qp);
      while (qp.needs_transmit() && qp.transmit(sink, now_, 8)) {
      }
      qp.check_invariants();
    });
  }

  /// Where the peer's memory lies that the initiator may reach by itself; empty if it may not.
  [[nodiscard]] MutableByteSpan find_placeable(const hca::PlacementTarget& target) {
    const std::int64_t turn = now_.since_start().nanoseconds() / kWatchTurn.nanoseconds();
    const bool is_watched =
        Random{scenario_.seed ^ static_cast<std::uint64_t>(turn) << 20}.chance(1, 4);
    if (!scenario_.places || is_watched) {
      return {};
    }
    for (const auto& process : processes_) {
      if (process->has(target.request.dlid, target.request.dest_qp)) {
        return process->granted().find(target.request.dest_qp, target);
      }
    }
    return {};
  }

  /// Checks RNR delays and sends the packet.
  void put_on_wire(hca::Flow flow, const hca::Packet& packet) {
    if (flow == hca::Flow::Request) {
      const auto waits = rnr_waits_.find({packet.header.dlid, packet.header.dest_qp});
      if (waits != rnr_waits_.end() && now_ < waits->second) {
        verdict_.fail("a request was sent before the RNR timer ran out");
      }
    }
    hca::to_wire(packet, bytes_);
    digest_.add(bytes_);
    digest_.add(static_cast<std::uint64_t>(now_.since_start().nanoseconds()));
    network_.send(packet.header.slid, packet.header.dlid, bytes_, now_);
  }

  void deliver(const Network::Arrival& arrival) {
    const auto packet = hca::from_wire(arrival.bytes);
    if (!packet) {
      return;  // corrupted: caught by the CRCs
    }
    const auto found = std::ranges::find_if(processes_, [&](const auto& process) {
      return process->has(arrival.to, packet->header.dest_qp);
    });
    if (found == processes_.end()) {
      return;  // the destination is dead
    }
    Process& process = **found;
    const std::optional<Instant> before = deadline_if_rnr_nak(process, *packet);
    hca::Qp* qp = process.hca().handle_packet(process.port_of(arrival.to), *packet, now_);
    if (before && qp != nullptr) {
      note_rnr_wait(*qp, *packet, *before);
    }
  }

  [[nodiscard]] std::optional<Instant> deadline_if_rnr_nak(Process& process,
                                                           const hca::Packet& packet) {
    const wire::OpcodeInfo& info = *wire::opcode_info(packet.header.opcode);
    if (info.operation != wire::Operation::Acknowledge ||
        packet.header.extension.response.aeth.syndrome.kind() != wire::SyndromeKind::RnrNak) {
      return std::nullopt;
    }
    Instant deadline;
    process.hca().for_each_qp([&](hca::Qp& qp) {
      deadline = qp.number() == packet.header.dest_qp ? qp.deadline() : deadline;
    });
    return deadline;
  }

  /// IBTA vol 1 §9.7.5.2.8: after an RNR NAK a requester waits for the timer. A NAK that did not
  /// change the deadline was a duplicate and has no effect.
  void note_rnr_wait(hca::Qp& qp, const hca::Packet& packet, Instant before) {
    const hca::QpAttributes attributes = qp.query();
    if (qp.deadline() != before && attributes.state == hca::QpState::Rts) {
      rnr_waits_[{attributes.address.dlid, attributes.dest_qpn}] =
          now_ + wire::rnr_timer(packet.header.extension.response.aeth.syndrome.code());
    }
  }

  /// Kills a process. Its peers are notified by the fabric; another process starts on its host and
  /// takes over its connections.
  void kill() {
    death_at_ = Instant::never();
    Process& victim = *processes_[victim_];
    victim.die();
    const node::DetachResult departure = fabric_->detach(victim.id(), now_);
    const std::set<node::ProcessId> told{departure.peers.begin(), departure.peers.end()};
    std::set<node::ProcessId> concerned;
    std::vector<Process*> survivors;
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (ends.process[i] == &victim) {
          concerned.insert(ends.process[1 - i]->id());
          survivors.push_back(ends.process[1 - i]);
          ends.end[1 - i]->allow_silent_peer();
        }
      }
    }
    if (told != concerned) {
      verdict_.fail("a death was reported to a process that is not a peer");
    }
    Process& successor = attach(victim.id().host.value());
    if (successor.id() == victim.id()) {
      verdict_.fail("QPNs of the dead came back before their quiet time");
    }
    for (Process* const survivor : survivors) {
      make_pair(successor, *survivor);
    }
  }

  /// Starts or ends a partition between h1 and h2.
  void partition() {
    const bool begins = cut_at_ <= now_;
    heal_at_ = begins ? now_ + scenario_.partition : Instant::never();
    cut_at_ = Instant::never();
    const Lid a = processes_[0]->lid();
    const Lid b = processes_[1]->lid();
    network_.partition(a, b, begins);
    for (Ends& ends : ends_) {
      const std::set<Lid> lids{ends.process[0]->lid(), ends.process[1]->lid()};
      if (begins && lids == std::set{a, b} && scenario_.partition >= kOutlastsRetries) {
        ends.end[0]->allow_silent_peer();
        ends.end[1]->allow_silent_peer();
      }
    }
  }

  /// Cuts the network of all first ports. QPs that are not armed by then are lost.
  void cut_first_network() {
    cut_at_ = Instant::never();
    for (const auto& a : processes_) {
      for (const auto& b : processes_) {
        network_.partition(a->lid(), b->lid(), true);
      }
    }
    for (Ends& ends : ends_) {
      if (!ends.end[0]->is_armed() || !ends.end[1]->is_armed()) {
        ends.end[0]->allow_silent_peer();
        ends.end[1]->allow_silent_peer();
      }
    }
  }

  /// A live end is finished when its operations are complete and its peer, if alive, needs nothing
  /// more from it.
  [[nodiscard]] bool is_finished() const {
    return death_at_ == Instant::never() && std::ranges::all_of(ends_, [](const Ends& ends) {
             const bool a = !ends.process[0]->is_alive() || ends.end[0]->is_finished();
             const bool b = !ends.process[1]->is_alive() || ends.end[1]->is_finished();
             return a && b;
           });
  }

  std::uint64_t placed_{};  // parts of messages
  std::uint64_t placed_atomics_{};
  RcScenario scenario_;
  Random random_;
  Network network_;
  Verdict verdict_;
  std::unique_ptr<node::Fabric> fabric_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Ends> ends_;
  // time before which nothing may be sent to a QP
  std::map<std::pair<Lid, Qpn>, Instant> rnr_waits_;
  std::vector<std::byte> bytes_;
  std::size_t victim_{};
  Instant death_at_{Instant::never()};
  Instant cut_at_{Instant::never()};
  Instant heal_at_{Instant::never()};
  Instant next_act_;
  Instant now_;
  Digest digest_;
};

}  // namespace

RcScenario RcScenario::of_seed(std::uint64_t seed) {
  RcScenario scenario;
  scenario.seed = seed;
  scenario.faults = {.loss = 100, .duplication = 100, .corruption = 100};
  scenario.faults.delay_max = Duration::microseconds(static_cast<std::int64_t>(2 + seed % 40));
  scenario.a_process_dies = seed % 10 == 9;
  if (seed % 10 == 4) {
    scenario.partition = Duration::milliseconds(static_cast<std::int64_t>(1 + seed % 40));
  } else if (seed % 20 == 7) {
    scenario.partition = kOutlastsRetries;
  }
  return scenario;
}

std::string RcScenario::describe() const {
  return fmt::format(
      "seed {}: {} hosts, {} processes, {} pairs, {} operations a side of up to {} bytes, loss {} "
      "duplication {} corruption {} of 10000, delay up to {} us, a partition of {} us, {}{}{}{}",
      seed, hosts, processes, pairs, operations_per_side, max_message_bytes, faults.loss,
      faults.duplication, faults.corruption, faults.delay_max.microseconds(),
      partition.microseconds(), a_process_dies ? "a process dies" : "nobody dies",
      over_xrc ? ", over XRC" : "",
      places ? (shares_pages ? ", direct placement in shared pages" : ", direct placement") : "",
      a_network_dies ? ", the first network dies" : "");
}

Outcome run(const RcScenario& scenario) { return World{scenario}.run(); }

}  // namespace weft::sim
