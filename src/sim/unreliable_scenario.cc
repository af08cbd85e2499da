#include "sim/unreliable_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "hca/packet_wire.h"
#include "node/fabric.h"
#include "sim/process.h"
#include "sim/single_sink.h"
#include "sim/uc_end.h"
#include "sim/ud_end.h"

namespace weft::sim {
namespace {

constexpr Duration kVirtualBound = Duration::seconds(1);
constexpr Duration kActInterval = Duration::microseconds(20);

class World {
 public:
  explicit World(const UnreliableScenario& scenario)
      : scenario_(scenario),
        random_(scenario.seed * 3 + 1),
        network_(scenario.seed * 5 + 2, scenario.faults) {
    fabric_ = std::move(*node::Fabric::create(*fabric::generate_star(scenario.hosts), Instant{}));
    for (std::uint32_t i = 0; i < scenario.processes; ++i) {
      attach(i % scenario.hosts);
    }
    scenario.type == hca::QpType::Uc ? make_pairs() : make_datagram_ends();
    for (const Place& place : places_) {
      place.end->connect();
    }
    if (scenario.partition != Duration{}) {
      cut_at_ = Instant{} + Duration::microseconds(static_cast<std::int64_t>(random_.below(1000)));
    }
  }

  Outcome run() {
    while (verdict_.ok() && now_.since_start() < kVirtualBound && !is_finished()) {
      step();
    }
    Outcome outcome;
    for (const Place& place : places_) {
      if (verdict_.ok()) {
        place.end->check_at_end();
      }
      outcome.completions += place.end->completions();
      outcome.delivered += place.end->delivered();
      digest_.add(place.end->digest());
    }
    outcome.ok = verdict_.ok();
    outcome.failure = verdict_.failure();
    outcome.packets = network_.sent();
    outcome.digest = digest_.value();
    outcome.took = now_.since_start();
    return outcome;
  }

 private:
  struct Place {
    Process* process{};
    std::unique_ptr<UnreliableEnd> end;
  };

  class Sink final : public SingleSink {
   public:
    Sink(World& world, Place& place) : world_(world), place_(place) {}

   private:
    void put_on_wire(hca::Flow /*flow*/, const hca::Packet& single) override {
      world_.put_on_wire(place_, single);
    }

    World& world_;
    Place& place_;
  };

  void attach(std::uint32_t host) {
    const std::string name = fmt::format("h{}", host + 1);
    const node::ProcessId id = *fabric_->attach(name, now_);
    const Lid lid = fabric_->builder().port(fabric_->find_ports(name)->front()).lid;
    processes_.push_back(std::make_unique<Process>(id, lid, scenario_.seed));
  }

  template <class End>
  End& make_end(Process& process) {
    auto end = std::make_unique<End>(process.hca(), process.pd(), process.lid(),
                                     scenario_.seed * 1000 + places_.size(),
                                     scenario_.operations_per_end, verdict_);
    End& made = *end;
    places_.push_back({.process = &process, .end = std::move(end)});
    return made;
  }

  void make_pairs() {
    for (std::uint32_t i = 0; i < scenario_.pairs; ++i) {
      const std::size_t first = random_.below(processes_.size());
      const std::size_t other = 1 + random_.below(processes_.size() - 1);
      UcEnd& a = make_end<UcEnd>(*processes_[first]);
      UcEnd& b = make_end<UcEnd>(*processes_[(first + other) % processes_.size()]);
      a.introduce(b);
      b.introduce(a);
      if (scenario_.keeps_order) {
        a.expect_order();
        b.expect_order();
      }
    }
  }

  void make_datagram_ends() {
    std::vector<UdEnd*> all;
    for (std::uint32_t i = 0; i < 2 * scenario_.pairs; ++i) {
      all.push_back(&make_end<UdEnd>(*processes_[random_.below(processes_.size())]));
    }
    for (UdEnd* const end : all) {
      end->introduce(all);
    }
  }

  void step() {
    now_ = std::max(now_, std::min({next_act_, network_.next_arrival(), cut_at_, heal_at_}));
    if (cut_at_ <= now_ || heal_at_ <= now_) {
      const bool begins = cut_at_ <= now_;
      heal_at_ = begins ? now_ + scenario_.partition : Instant::never();
      cut_at_ = Instant::never();
      network_.partition(processes_[0]->lid(), processes_[1]->lid(), begins);
    }
    if (network_.next_arrival() <= now_) {
      deliver(network_.take());
    }
    if (next_act_ <= now_) {
      next_act_ = now_ + kActInterval;
      for (const Place& place : places_) {
        place.end->act();
      }
    }
    for (Place& place : places_) {
      Sink sink{*this, place};
      hca::Qp& qp = place.end->qp();
      while (qp.needs_transmit() && qp.transmit(sink, now_, 8)) {
      }
      qp.check_invariants();
    }
  }

  void put_on_wire(Place& from, const hca::Packet& packet) {
    from.end->check_sent(packet);
    hca::to_wire(packet, bytes_);
    digest_.add(bytes_);
    digest_.add(static_cast<std::uint64_t>(now_.since_start().nanoseconds()));
    network_.send(from.process->lid(), packet.header.dlid, bytes_, now_);
  }

  void deliver(const Network::Arrival& arrival) {
    const auto packet = hca::from_wire(arrival.bytes);
    if (!packet) {
      return;  // corrupted: caught by the CRCs
    }
    const auto place = std::ranges::find_if(places_, [&](const Place& candidate) {
      return candidate.process->has(arrival.to, packet->header.dest_qp) &&
             candidate.end->qp().number() == packet->header.dest_qp;
    });
    if (place == places_.end()) {
      verdict_.fail("a packet arrived for a QP that does not exist");
      return;
    }
    place->end->expect(*packet);
    place->process->hca().handle_packet(PortNumber{1}, *packet, now_);
    place->end->check_arrival();
  }

  [[nodiscard]] bool is_finished() const {
    return network_.next_arrival() == Instant::never() &&
           std::ranges::all_of(places_,
                               [](const Place& place) { return place.end->is_finished(); });
  }

  UnreliableScenario scenario_;
  Random random_;
  Network network_;
  Verdict verdict_;
  std::unique_ptr<node::Fabric> fabric_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Place> places_;
  std::vector<std::byte> bytes_;
  Instant cut_at_{Instant::never()};
  Instant heal_at_{Instant::never()};
  Instant next_act_;
  Instant now_;
  Digest digest_;
};

}  // namespace

UnreliableScenario UnreliableScenario::of_seed(hca::QpType type, std::uint64_t seed) {
  UnreliableScenario scenario;
  scenario.type = type;
  scenario.seed = seed;
  scenario.keeps_order = seed % 3 == 0;
  scenario.faults.loss = 100;
  scenario.faults.corruption = 50;
  scenario.faults.delay_min = scenario.faults.delay_max = Duration::microseconds(2);
  if (!scenario.keeps_order) {
    scenario.faults.duplication = 100;
  }
  if (seed % 3 == 1) {
    scenario.faults.lateness = 100;
    scenario.faults.late_by = Duration::microseconds(10);
  } else if (seed % 3 == 2) {
    scenario.faults.delay_max = Duration::microseconds(static_cast<std::int64_t>(2 + seed % 40));
  }
  if (seed % 10 == 4) {
    scenario.partition = Duration::microseconds(static_cast<std::int64_t>(100 + seed % 40 * 10));
  }
  return scenario;
}

std::string UnreliableScenario::describe() const {
  return fmt::format(
      "{} seed {}: {} hosts, {} processes, {} pairs, {} operations an end, loss {} duplication {} "
      "corruption {} lateness {} of 10000, delay {} to {} us, a partition of {} us",
      type == hca::QpType::Uc ? "UC" : "UD", seed, hosts, processes, pairs, operations_per_end,
      faults.loss, faults.duplication, faults.corruption, faults.lateness,
      faults.delay_min.microseconds(), faults.delay_max.microseconds(), partition.microseconds());
}

Outcome run(const UnreliableScenario& scenario) { return World{scenario}.run(); }

}  // namespace weft::sim
