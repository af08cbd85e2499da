#include "sim/rdma_cm_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "fabric/faults.h"
#include "fabric/topology.h"
#include "node/fabric.h"
#include "node/host_services.h"
#include "sim/rdma_cm_end.h"

namespace weft::sim {
namespace {

constexpr std::uint32_t kHosts = 3;
constexpr std::size_t kListeners = 2;  // per program
constexpr std::uint16_t kPort = 7471;
constexpr std::uint32_t kFirstHost = 0x7F4D'0000;  // 127.77.0.0
constexpr Duration kVirtualBound = Duration::seconds(600);
constexpr Duration kCloseTime = Duration::seconds(90);  // a DREQ with 15 retries, 4.3 s each
constexpr std::uint32_t kFirstQpn = 0x4000;             // each connection uses two QPNs

[[nodiscard]] Duration some_time(Random& random, std::int64_t milliseconds) {
  return Duration::microseconds(
      static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(milliseconds) * 1000)));
}

/// A program of a host with its event queue.
class Program final : public cm::RdmaCmSink {
 public:
  bool take(const cm::RdmaCmEvent& event) override {
    events.push_back(event);
    return true;
  }
  std::deque<cm::RdmaCmEvent> events;
  std::vector<std::unique_ptr<RdmaCmEnd>> ends;
  cm::RdmaCmId listener{};
  cm::RdmaCmId service{};  ///< datagram service
};

struct ScheduledConnect {
  CmLedger::Plan plan{};
  cm::PortSpace space{cm::PortSpace::Tcp};
  std::array<RdmaCmBehavior, 2> behaviors{};  // `gives_up_at` is relative to the start
  Instant begins{};
  CmLedger::Token token{};
};

class World {
 public:
  explicit World(const RdmaCmScenario& scenario)
      : scenario_(scenario), random_(scenario.seed * 3 + 1), ledger_(scenario.seed, {}, verdict_) {
    node::FabricOptions options;
    options.seed = scenario.seed;
    options.faults = fabric::FaultCounters::open(fault_memory_);
    fabric_ = std::move(*node::Fabric::create(*fabric::generate_star(kHosts), now_, options));
    for (std::uint32_t i = 0; i < kHosts; ++i) {
      nodes_.at(i) = *fabric_->builder().find_node(fmt::format("h{}", i + 1));
      start_program(i);
    }
    add_fault(fabric::FaultKind::Drop, scenario.loss);
    add_fault(fabric::FaultKind::Duplicate, scenario.duplication);
    add_fault(fabric::FaultKind::Reorder, scenario.reordering);
    for (std::uint32_t i = 0; i < scenario.connections; ++i) {
      scheduled_.push_back(arrange());
    }
    if (scenario.a_program_dies) {
      victim_ = static_cast<std::uint32_t>(random_.below(kHosts));
      death_at_ = now_ + some_time(random_, 2000);
    }
  }

  Outcome run() {
    while (verdict_.ok() && !is_idle_now()) {
      step();
    }
    if (verdict_.ok()) {
      ledger_.check_at_end();
      check_leftovers();
    }
    return {.ok = verdict_.ok(),
            .failure = verdict_.failure(),
            .completions = ledger_.connections_made(),
            .lookups = exchanges_.lookups_made(),
            .digest = digest_.value(),
            .took = now_.since_start()};
  }

 private:
  [[nodiscard]] cm::RdmaCm& manager(std::uint32_t host) {
    return fabric_->hosts().host(nodes_.at(host), now_).rdma_cm();
  }
  [[nodiscard]] static cm::SocketAddress address(std::uint32_t host) {
    return cm::IpEndpoint{.address = IpAddress::v4(kFirstHost + host + 1), .port = kPort};
  }

  void add_fault(fabric::FaultKind kind, std::uint32_t parts_per_million) {
    fabric::FaultDescription fault;
    fault.kind = kind;
    fault.parts_per_million = parts_per_million;
    fault.seed = scenario_.seed;
    fault.hold = Duration::milliseconds(5);
    if (parts_per_million != 0) {
      static_cast<void>(fabric_->add_fault(fault, now_).value());
    }
  }

  void start_program(std::uint32_t host) {
    Program& program = *(programs_.at(host) = std::make_unique<Program>());
    program.listener = manager(host).create(cm::PortSpace::Tcp, cm::QpType::Rc, program, 0).value();
    program.service = manager(host).create(cm::PortSpace::Udp, cm::QpType::Ud, program, 0).value();
    for (const cm::RdmaCmId id : {program.listener, program.service}) {
      if (!manager(host).bind(id, address(host), now_) || !manager(host).listen(id, 0, now_)) {
        verdict_.fail("listening failed");
      }
    }
  }

  /// Destroys what a program left behind, as the daemon does.
  void end_program(std::uint32_t host) {
    Program& program = *programs_.at(host);
    for (const cm::RdmaCmEvent& event : program.events) {
      if (event.type == cm::RdmaCmEventType::ConnectRequest) {
        static_cast<void>(manager(host).destroy(event.id, now_));
      }
    }
    for (const auto& end : program.ends) {
      end->die(now_);
    }
    static_cast<void>(manager(host).destroy(program.listener, now_));
    static_cast<void>(manager(host).destroy(program.service, now_));
    exchanges_.program_down(host + 1);
    programs_.at(host).reset();
    fabric_->hosts().wake(nodes_.at(host));
  }

  ScheduledConnect arrange() {
    ScheduledConnect scheduled;
    const auto first = static_cast<std::uint32_t>(random_.below(kHosts));
    const auto second = static_cast<std::uint32_t>(random_.below(kHosts));
    scheduled.plan = {
        .hosts = {first + 1, second + 1},
          .kind = "RDMA-CM", .close_time = kCloseTime
    };
    if (random_.chance(1, 4)) {
      scheduled.space = cm::PortSpace::Udp;
      scheduled.plan.kind = "RDMA-CM lookup";
    }
    const std::uint64_t closers = random_.below(3);
    for (std::size_t side = 0; side < 2; ++side) {
      RdmaCmBehavior& behavior = scheduled.behaviors.at(side);
      behavior.closes = closers == 2 || closers == side;
      behavior.refuses = random_.chance(1, 12);
      behavior.waits_for_time_wait = random_.chance(1, 2);
      behavior.answer_delay = random_.chance(1, 2) ? some_time(random_, 50) : Duration{};
      if (random_.chance(1, 8)) {
        behavior.gives_up_at = Instant{some_time(random_, 3000)};
      }
    }
    scheduled.begins = now_ + some_time(random_, 2000);
    return scheduled;
  }

  [[nodiscard]] std::unique_ptr<RdmaCmEnd> make_end(const ScheduledConnect& scheduled,
                                                    CmSide side) {
    const auto index = static_cast<std::size_t>(side);
    const std::uint32_t host = scheduled.plan.hosts.at(index) - 1;
    RdmaCmBehavior behavior = scheduled.behaviors.at(index);
    if (behavior.gives_up_at != Instant::never()) {
      behavior.gives_up_at = now_ + behavior.gives_up_at.since_start();
    }
    return std::make_unique<RdmaCmEnd>(
        RdmaCmEnd::Environment{.manager = manager(host),
                               .sink = *programs_.at(host),
                               .ledger = ledger_,
                               .exchanges = exchanges_,
                               .verdict = verdict_,
                               .life = {.host = host + 1},
                               .space = scheduled.space},
        scheduled.token, side, behavior,
        Qpn{kFirstQpn + 2 * scheduled.token + static_cast<std::uint32_t>(index)});
  }

  void begin(ScheduledConnect& scheduled) {
    scheduled.begins = Instant::never();
    scheduled.token = ledger_.begin(scheduled.plan);
    if (scheduled.space == cm::PortSpace::Udp) {
      exchanges_.lookup_requested(scheduled.token, scheduled.plan.hosts[1], true);
    }
    Program* const program = programs_.at(scheduled.plan.hosts[0] - 1).get();
    if (program != nullptr) {
      program->ends.push_back(make_end(scheduled, CmSide::Client));
      program->ends.back()->ask(address(scheduled.plan.hosts[1] - 1), now_);
      fabric_->hosts().wake(nodes_.at(scheduled.plan.hosts[0] - 1));
    }
  }

  void take_event(Program& program, const cm::RdmaCmEvent& event) {
    digest_.add(static_cast<std::uint64_t>(event.type));
    digest_.add(event.id.value());
    digest_.add(static_cast<std::uint64_t>(now_.since_start().nanoseconds()));
    if (event.type == cm::RdmaCmEventType::ConnectRequest) {
      const CmLedger::Token token = CmLedger::token_of(event.parameters.private_data);
      const auto found = std::ranges::find(scheduled_, token, &ScheduledConnect::token);
      if (token == 0 || found == scheduled_.end()) {
        return verdict_.fail("a request arrived that no end sent");
      }
      if (ledger_.was_up(token, CmSide::Server)) {
        // A late duplicate of the REQ is accepted, because hosts do not hold TimeWait, like Linux
        // (R-CM-11). The other side rejects its REP.
        static_cast<void>(manager(found->plan.hosts[1] - 1).destroy(event.id, now_));
        return;
      }
      program.ends.push_back(make_end(*found, CmSide::Server));
      return program.ends.back()->take(event, now_);
    }
    const auto end = std::ranges::find_if(program.ends,
                                          [&](const auto& each) { return each->id() == event.id; });
    if (end != program.ends.end() && !(*end)->is_over()) {
      (*end)->handle(event, now_);
    }
  }

  void step() {
    run_management();  // services become runnable when they are used
    Instant next = std::min({fabric_->management_deadline(), death_at_, return_at_});
    for (const ScheduledConnect& scheduled : scheduled_) {
      next = std::min(next, scheduled.begins);
    }
    for (const auto& program : programs_) {
      for (const auto& end : program ? program->ends : kNoToken) {
        next = std::min(next, end->deadline());
      }
    }
    if (next == Instant::never() || next.since_start() > kVirtualBound) {
      return verdict_.fail("an end waits forever");
    }
    now_ = std::max(now_, next);
    if (death_at_ <= now_) {
      death_at_ = Instant::never();
      return_at_ = now_ + some_time(random_, 100);
      end_program(victim_);
    }
    if (return_at_ <= now_) {
      return_at_ = Instant::never();
      start_program(victim_);
    }
    for (ScheduledConnect& scheduled : scheduled_) {
      if (scheduled.begins <= now_) {
        begin(scheduled);
      }
    }
    do {
      run_management();
    } while (run_programs());
    ledger_.check(now_);
  }

  void run_management() {
    while (fabric_->run_management(now_)) {
    }
  }

  /// Returns false if nothing was due.
  bool run_programs() {
    bool has_acted = false;
    for (std::uint32_t host = 0; host < kHosts; ++host) {
      Program* const program = programs_.at(host).get();
      const auto is_due = [&](const auto& end) { return end->deadline() <= now_; };
      if (program == nullptr ||
          (program->events.empty() && std::ranges::none_of(program->ends, is_due))) {
        continue;
      }
      has_acted = true;
      while (!program->events.empty()) {
        const cm::RdmaCmEvent event = std::move(program->events.front());
        program->events.pop_front();
        take_event(*program, event);
      }
      for (const auto& end : program->ends) {
        end->step(now_);
      }
      std::erase_if(program->ends, [](const auto& end) { return end->is_over(); });
      fabric_->hosts().wake(nodes_.at(host));
    }
    return has_acted;
  }

  [[nodiscard]] std::size_t connection_ids(std::uint32_t host) {
    return fabric_->hosts().host(nodes_.at(host), now_).connections().ids().size();
  }

  [[nodiscard]] bool is_idle_now() {
    const bool all_are_over = death_at_ == Instant::never() && return_at_ == Instant::never() &&
                              std::ranges::all_of(scheduled_,
                                                  [](const ScheduledConnect& each) {
                                                    return each.begins == Instant::never();
                                                  }) &&
                              std::ranges::all_of(programs_, [](const auto& program) {
                                return program->ends.empty() && program->events.empty();
                              });
    for (std::uint32_t host = 0; all_are_over && host < kHosts; ++host) {
      if (connection_ids(host) != kListeners) {  // in TimeWait, waiting for a DREP, or leaked
        return false;
      }
    }
    return all_are_over;
  }

  void check_leftovers() {
    for (std::uint32_t host = 0; host < kHosts; ++host) {
      if (manager(host).size() != kListeners) {
        verdict_.fail(fmt::format("h{} has {} ids beside its listeners", host + 1,
                                  manager(host).size() - kListeners));
      }
    }
  }

  static inline const std::vector<std::unique_ptr<RdmaCmEnd>> kNoToken{};

  RdmaCmScenario scenario_;
  Random random_;
  Verdict verdict_;
  CmLedger ledger_;
  CmExchanges exchanges_{verdict_};
  Instant now_{Duration::seconds(1)};
  alignas(64) std::array<std::byte, fabric::FaultCounters::bytes_needed()> fault_memory_{};
  std::unique_ptr<node::Fabric> fabric_;
  std::array<fabric::NodeIndex, kHosts> nodes_{};
  std::array<std::unique_ptr<Program>, kHosts> programs_{};
  std::vector<ScheduledConnect> scheduled_;
  std::uint32_t victim_{};
  Instant death_at_{Instant::never()};
  Instant return_at_{Instant::never()};
  Digest digest_;
};

}  // namespace

RdmaCmScenario RdmaCmScenario::of_seed(std::uint64_t seed) {
  RdmaCmScenario scenario;
  scenario.seed = seed;
  scenario.connections = 6 + static_cast<std::uint32_t>(seed % 10);
  scenario.loss = static_cast<std::uint32_t>(seed % 5) * 20'000;
  scenario.duplication = static_cast<std::uint32_t>(seed % 4) * 20'000;
  scenario.reordering = static_cast<std::uint32_t>(seed % 3) * 40'000;
  scenario.a_program_dies = seed % 2 == 1;
  return scenario;
}

std::string RdmaCmScenario::describe() const {
  return fmt::format(
      "seed {}: {} connections, loss {} duplication {} reordering {} of a million on each cable, "
      "{}",
      seed, connections, loss, duplication, reordering,
      a_program_dies ? "a program dies" : "nobody dies");
}

Outcome run(const RdmaCmScenario& scenario) { return World{scenario}.run(); }

}  // namespace weft::sim
