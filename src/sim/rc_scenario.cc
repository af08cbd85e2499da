#include "sim/rc_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "hca/packet_wire.h"
#include "hca/train.h"
#include "sim/rc_end.h"
#include "wire/encodings.h"

namespace weft::sim {
namespace {

constexpr Duration kVirtualBound = Duration::seconds(60);
constexpr Duration kActInterval = Duration::microseconds(20);

/// A simulated process with one HCA; it may die.
class Node final : public hca::HcaEvents {
 public:
  Node(Lid lid, std::uint64_t seed)
      : lid_(lid), hca_(std::make_unique<hca::Hca>(configuration(lid, seed), *this)) {
    hca::PortAttributes port;
    port.state = hca::PortState::Active;
    port.lid = lid;
    port.gids = {
        Gid{kDefaultGidPrefix, Guid{lid.value()}}
    };
    port.pkeys = {kDefaultPKey};
    hca_->set_port(PortNumber{1}, port);
    pd_ = *hca_->allocate_pd();
  }

  void completion_event(hca::CompletionQueue& /*cq*/) override {}
  void async_event(const hca::AsyncEvent& /*event*/) override {}
  [[nodiscard]] bool wants_explanations() const override { return false; }
  void explain(std::string_view /*reason*/) override {}

  [[nodiscard]] Lid lid() const { return lid_; }
  [[nodiscard]] hca::Hca& hca() { return *hca_; }
  [[nodiscard]] hca::ProtectionDomain& pd() { return *pd_; }
  [[nodiscard]] bool alive() const { return alive_; }
  void die() { alive_ = false; }

 private:
  static hca::HcaConfiguration configuration(Lid lid, std::uint64_t seed) {
    hca::HcaConfiguration configuration;
    configuration.seed = seed ^ lid.value();
    configuration.limits.max_qp = 16;
    configuration.limits.max_mr = 16;
    configuration.limits.max_qp_rd_atomic = 8;
    configuration.first_qpn = Qpn{lid.value() << 14};
    return configuration;
  }

  Lid lid_;
  std::unique_ptr<hca::Hca> hca_;
  hca::ProtectionDomain* pd_{};
  bool alive_{true};
};

class World {
 public:
  explicit World(const RcScenario& scenario)
      : scenario_(scenario),
        random_(scenario.seed * 3 + 1),
        network_(scenario.seed * 5 + 2, scenario.faults) {
    for (std::uint32_t i = 0; i < scenario.nodes; ++i) {
      nodes_.push_back(std::make_unique<Node>(Lid{i + 1}, scenario.seed));
    }
    for (std::uint32_t i = 0; i < scenario.pairs; ++i) {
      make_pair(i);
    }
    if (scenario.a_node_dies) {
      victim_ = random_.below(nodes_.size());
      death_at_ =
          Instant{} + Duration::microseconds(static_cast<std::int64_t>(50 + random_.below(1500)));
    }
  }

  RcOutcome run() {
    while (verdict_.ok() && now_.since_start() < kVirtualBound && !is_finished()) {
      step();
    }
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2 && verdict_.ok(); ++i) {
        if (ends.node[i]->alive()) {
          ends.end[i]->check_at_end(ends.node[1 - i]->alive());
        }
      }
    }
    RcOutcome outcome;
    outcome.ok = verdict_.ok();
    outcome.failure = verdict_.failure();
    outcome.packets = network_.sent();
    outcome.digest = digest_;
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
    std::array<Node*, 2> node{};
    std::array<std::unique_ptr<RcEnd>, 2> end;
  };

  /// Takes packets from one node's engines, checks RNR waits, and gives the bytes to the network.
  class Sink final : public hca::TransmitSink {
   public:
    Sink(World& world, Node& node) : world_(world), node_(node) {}
    [[nodiscard]] std::uint32_t max_train_bytes() const override { return 1024; }
    [[nodiscard]] bool send(hca::Flow flow, const hca::PacketHeader& header,
                            std::span<const ByteSpan> gather) override {
      std::vector<std::byte> payload;
      for (const ByteSpan piece : gather) {
        payload.insert(payload.end(), piece.begin(), piece.end());
      }
      const hca::Packet train{.header = header, .payload = payload};
      for (std::uint32_t i = 0; i < header.packet_count; ++i) {
        world_.put_on_wire(node_, flow, hca::single_of_train(train, i));
      }
      return true;
    }

   private:
    World& world_;
    Node& node_;
  };

  void make_pair(std::uint32_t number) {
    Ends ends;
    const std::size_t first = random_.below(nodes_.size());
    const std::size_t second = (first + 1 + random_.below(nodes_.size() - 1)) % nodes_.size();
    ends.node = {nodes_[first].get(), nodes_[second].get()};
    for (std::size_t i = 0; i < 2; ++i) {
      ends.end[i] = std::make_unique<RcEnd>(
          ends.node[i]->hca(), ends.node[i]->pd(), scenario_.seed * 1000 + number * 2 + i,
          scenario_.operations_per_side, scenario_.max_message_bytes, verdict_);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ends.end[i]->introduce(*ends.end[1 - i], ends.node[i]->lid(), ends.node[1 - i]->lid());
    }
    ends.end[0]->connect();
    ends.end[1]->connect();
    ends_.push_back(std::move(ends));
  }

  void step() {
    Instant next = std::min({next_act_, network_.next_arrival(), death_at_});
    for (auto& node : nodes_) {
      if (node->alive()) {
        node->hca().for_each_qp([&](hca::Qp& qp) { next = std::min(next, qp.deadline()); });
      }
    }
    now_ = std::max(now_, next);
    if (death_at_ <= now_) {
      kill();
    }
    if (network_.next_arrival() <= now_) {
      deliver(network_.take());
    }
    if (next_act_ <= now_) {
      let_applications_act();
    }
    for (auto& node : nodes_) {
      if (node->alive()) {
        drive(*node);
      }
    }
  }

  void let_applications_act() {
    next_act_ = now_ + kActInterval;
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (ends.node[i]->alive()) {
          ends.end[i]->act();
          ends.end[i]->poll();
        }
      }
    }
  }

  void drive(Node& node) {
    Sink sink{*this, node};
    node.hca().for_each_qp([&](hca::Qp& qp) {
      if (qp.deadline() <= now_) {
        qp.handle_timeout(now_);
      }
      while (qp.wants_transmit() && qp.transmit(sink, now_, 8)) {
      }
      qp.check_invariants();
    });
  }

  void put_on_wire(Node& node, hca::Flow flow, const hca::Packet& packet) {
    if (flow == hca::Flow::Request) {
      const auto waits = rnr_waits_.find({node.lid().value(), packet.header.dest_qp.value()});
      if (waits != rnr_waits_.end() && now_ < waits->second) {
        verdict_.fail("a request was sent before the RNR timer ran out");
      }
    }
    hca::to_wire(packet, bytes_);
    for (const std::byte octet : bytes_) {
      digest_ = (digest_ ^ std::to_integer<std::uint64_t>(octet)) * 0x100'0000'01B3;
    }
    digest_ ^= static_cast<std::uint64_t>(now_.since_start().nanoseconds());
    network_.send(node.lid(), packet.header.dlid, bytes_, now_);
  }

  void deliver(const Network::Arrival& arrival) {
    Node& node = *nodes_[arrival.to.value() - 1];
    const auto packet = hca::from_wire(arrival.bytes);
    if (!node.alive() || !packet) {
      return;  // nobody, or damaged: the CRCs caught it
    }
    const std::optional<Instant> before = deadline_if_rnr_nak(node, *packet);
    hca::Qp* qp = node.hca().handle_packet(PortNumber{1}, *packet, now_);
    if (before && qp != nullptr) {
      note_rnr_wait(node, *qp, *packet, *before);
    }
  }

  [[nodiscard]] std::optional<Instant> deadline_if_rnr_nak(Node& node, const hca::Packet& packet) {
    if (packet.header.opcode != wire::Opcode::RcAcknowledge ||
        packet.header.extension.response.aeth.syndrome.kind() != wire::SyndromeKind::RnrNak) {
      return std::nullopt;
    }
    Instant deadline;
    node.hca().for_each_qp([&](hca::Qp& qp) {
      deadline = qp.number() == packet.header.dest_qp ? qp.deadline() : deadline;
    });
    return deadline;
  }

  /// IBTA vol 1 §9.7.5.2.8: after an RNR NAK a requester is silent for the timer's time. One that
  /// changed no deadline was a ghost and binds nobody.
  void note_rnr_wait(Node& node, hca::Qp& qp, const hca::Packet& packet, Instant before) {
    const hca::QpAttributes attributes = qp.query();
    if (qp.deadline() != before && attributes.state == hca::QpState::Rts) {
      rnr_waits_[{node.lid().value(), attributes.dest_qpn.value()}] =
          now_ + wire::rnr_timer(packet.header.extension.response.aeth.syndrome.code());
    }
  }

  void kill() {
    death_at_ = Instant::never();
    nodes_[victim_]->die();
    for (Ends& ends : ends_) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (!ends.node[i]->alive()) {
          ends.end[1 - i]->peer_died();
        }
      }
    }
  }

  /// A living end is done when its own operations are and its peer, if alive, needs nothing more
  /// from it.
  [[nodiscard]] bool is_finished() const {
    return death_at_ == Instant::never() && std::ranges::all_of(ends_, [](const Ends& ends) {
             const bool a = !ends.node[0]->alive() || ends.end[0]->is_finished();
             const bool b = !ends.node[1]->alive() || ends.end[1]->is_finished();
             return a && b;
           });
  }

  RcScenario scenario_;
  Random random_;
  Network network_;
  Verdict verdict_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Ends> ends_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Instant> rnr_waits_;
  std::vector<std::byte> bytes_;
  std::size_t victim_{};
  Instant death_at_{Instant::never()};
  Instant next_act_;
  Instant now_;
  std::uint64_t digest_{0xCBF2'9CE4'8422'2325};
};

}  // namespace

RcScenario RcScenario::of_seed(std::uint64_t seed) {
  RcScenario scenario;
  scenario.seed = seed;
  scenario.faults = {.loss = 100, .duplication = 100, .corruption = 100};
  scenario.faults.delay_max = Duration::microseconds(static_cast<std::int64_t>(2 + seed % 40));
  scenario.a_node_dies = seed % 10 == 9;
  return scenario;
}

std::string RcScenario::describe() const {
  return fmt::format(
      "seed {}: {} nodes, {} pairs, {} operations a side of up to {} bytes, loss {} duplication {} "
      "corruption {} of "
      "10000, delay up to {} us, {}",
      seed, nodes, pairs, operations_per_side, max_message_bytes, faults.loss, faults.duplication,
      faults.corruption, faults.delay_max.microseconds(),
      a_node_dies ? "a node dies" : "nobody dies");
}

RcOutcome run(const RcScenario& scenario) { return World{scenario}.run(); }

}  // namespace weft::sim
