#include "sim/cm_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/process_slot.h"
#include "hca/packet_wire.h"
#include "sim/cm_exchanges.h"
#include "sim/cm_host.h"
#include "sim/cm_lookup_end.h"
#include "sim/cmrc_end.h"
#include "sim/single_sink.h"
#include "verbs/mtu.h"

namespace weft::sim {
namespace {

constexpr std::uint32_t kHosts = 3;
constexpr std::uint8_t kPacketLifeTime = 13;  // exponent: 33 ms, longer than any delay here
/// Twice the packet lifetime, as for an ACK timeout (IBTA vol 1 §12.7.34, R-CM-11).
constexpr Duration kTimeWait = TimeoutExponent{kPacketLifeTime + 1}.duration();
constexpr Duration kVirtualBound = Duration::seconds(300);
constexpr Duration kDirectCloseTime = Duration::seconds(3);  // 16 times 84 ms
constexpr Duration kCmrcCloseTime = Duration::seconds(25);   // 16 times 1.2 s

enum class Kind : std::uint8_t { Plain, Peers, Cmrc, Lookup, UnansweredLookup };
constexpr std::array<std::string_view, 5> kNames = {"plain", "peers", "cmrc", "lookup",
                                                    "unanswered lookup"};

struct Attempt {
  Kind kind{};
  CmLedger::Plan plan{};
  std::array<CmBehavior, 2> behaviors{};  // `gives_up_at` is relative to the start
  std::array<Instant, 2> begins{};        // the server's is used for peer-to-peer only
  std::array<bool, 2> has_begun{};
  CmLedger::Token token{};
};

[[nodiscard]] Duration some_time(Random& random, unsigned milliseconds) {
  return Duration::microseconds(static_cast<std::int64_t>(random.below(milliseconds * 1000ULL)));
}

/// Receives packets from the engines.
class Wire final : public SingleSink {
 public:
  Wire(Network& network, Instant now) : network_(network), now_(now) {}

 private:
  void put_on_wire(hca::Flow /*flow*/, const hca::Packet& single) override {
    std::vector<std::byte> bytes;
    hca::to_wire(single, bytes);
    network_.send(single.header.slid, single.header.dlid, bytes, now_);
  }

  Network& network_;
  Instant now_;
};

class World {
 public:
  explicit World(const CmScenario& scenario)
      : scenario_(scenario),
        random_(scenario.seed * 3 + 1),
        mads_(scenario.seed * 5 + 2, scenario.mad_faults),
        data_(scenario.seed * 5 + 3, scenario.data_faults),
        ledger_(scenario.seed, kTimeWait, verdict_) {
    for (std::uint32_t number = 1; number <= kHosts; ++number) {
      hosts_.push_back(
          std::make_unique<CmHost>(number, scenario.seed,
                                   [this](CmHost& host, cm::CmId id, const cm::CmEvent& event,
                                          Instant now) { return serve(host, id, event, now); }));
      hosts_.back()->boot();
    }
    for (std::uint32_t i = 0; i < scenario.connections; ++i) {
      attempts_.push_back(arrange());
    }
    if (scenario.a_program_dies || scenario.a_host_dies) {
      victim_ = static_cast<std::uint32_t>(random_.below(kHosts));
      death_at_ = now_ + Duration::milliseconds(20) + some_time(random_, 800);
    }
  }

  Outcome run() {
    while (verdict_.ok() && !is_idle_now()) {
      step();
    }
    if (verdict_.ok()) {
      ledger_.check_at_end();
    }
    for (const auto& host : hosts_) {
      if (const std::string left = verdict_.ok() ? host->leftover() : ""; !left.empty()) {
        verdict_.fail(fmt::format("h{}: {}", host->number(), left));
      }
    }
    return {.ok = verdict_.ok(),
            .failure = verdict_.failure(),
            .packets = mads_.sent() + data_.sent(),
            .completions = ledger_.connections_made(),
            .delivered = ledger_.messages_received(),
            .paths = exchanges_.paths_loaded(),
            .migrations = exchanges_.migrations(),
            .lookups = exchanges_.lookups_made(),
            .digest = digest_.value(),
            .took = now_.since_start()};
  }

 private:
  Attempt arrange() {
    Attempt attempt;
    const std::uint64_t kind = random_.below(13);
    attempt.kind = kind < 6    ? Kind::Plain
                   : kind < 8  ? Kind::Peers
                   : kind < 10 ? Kind::Cmrc
                   : kind < 12 ? Kind::Lookup
                               : Kind::UnansweredLookup;
    const auto first = static_cast<std::uint32_t>(random_.below(kHosts));
    // Peers on one host could not be distinguished by their ports.
    const std::uint64_t further =
        attempt.kind == Kind::Peers ? 1 + random_.below(kHosts - 1) : random_.below(kHosts);
    const auto second = static_cast<std::uint32_t>((first + further) % kHosts);
    attempt.plan = {
        .hosts = {first + 1, second + 1},
        .kind = kNames[static_cast<std::size_t>(attempt.kind)],
        .close_time = attempt.kind == Kind::Cmrc ? kCmrcCloseTime : kDirectCloseTime
    };
    const std::uint64_t closers = random_.below(3);
    const bool somebody_gives_up = random_.chance(1, 5);
    attempt.behaviors[0].paths =
        random_.chance(1, 2) ? 1 + static_cast<unsigned>(random_.below(3)) : 0;
    attempt.behaviors[0].migrates = random_.chance(1, 2);
    for (std::size_t side = 0; side < 2; ++side) {
      CmBehavior& behavior = attempt.behaviors[side];
      behavior.messages = attempt.plan.messages[side] = static_cast<unsigned>(random_.below(12));
      behavior.closes = closers == 2 || closers == side;
      behavior.closes_abruptly = random_.chance(1, 3);
      behavior.answer_delay = random_.chance(1, 2) ? some_time(random_, 90) : Duration{};
      behavior.sends_mra = random_.chance(1, 4);
      behavior.refuses = random_.chance(1, 12);
      behavior.keeps_qp = random_.chance(2, 3);
      if (somebody_gives_up && random_.chance(1, 2)) {
        behavior.gives_up_at = Instant{some_time(random_, 150)};
      }
    }
    const Instant begin = now_ + some_time(random_, 1200);
    attempt.begins = {begin, begin + some_time(random_, 5)};
    attempt.has_begun = {false, attempt.kind != Kind::Peers};
    return attempt;
  }

  [[nodiscard]] CmEnvironment environment(CmHost& host) {
    return {.manager = host.manager(),
            .hca = host.program()->hca(),
            .pd = host.program()->pd(),
            .ledger = ledger_,
            .exchanges = exchanges_,
            .verdict = verdict_,
            .life = host.life()};
  }

  /// The behaviour of a side, with `gives_up_at` as absolute time.
  [[nodiscard]] static CmBehavior behavior_of(const Attempt& attempt, CmSide side, Instant now) {
    CmBehavior behavior = attempt.behaviors[static_cast<std::size_t>(side)];
    if (behavior.gives_up_at != Instant::never()) {
      behavior.gives_up_at = now + behavior.gives_up_at.since_start();
    }
    return behavior;
  }

  [[nodiscard]] cm::Path path(const CmHost& from, const CmHost& to) const {
    return {.sgid = from.gid(),
            .dgid = to.gid(),
            .slid = from.lid(),
            .dlid = to.lid(),
            .mtu = verbs::Mtu::Mtu256,
            .packet_life_time = kPacketLifeTime};
  }

  void begin(Attempt& attempt, CmSide side, Instant now) {
    const auto index = static_cast<std::size_t>(side);
    attempt.has_begun[index] = true;
    CmHost& host = *hosts_[attempt.plan.hosts[index] - 1];
    CmHost& peer = *hosts_[attempt.plan.hosts[1 - index] - 1];
    if (attempt.token == 0) {
      attempt.token = ledger_.begin(attempt.plan);
    }
    if (host.program() == nullptr) {
      return;
    }
    const CmBehavior behavior = behavior_of(attempt, side, now);
    if (attempt.kind == Kind::Lookup || attempt.kind == Kind::UnansweredLookup) {
      const bool is_offered = attempt.kind == Kind::Lookup;
      exchanges_.lookup_requested(attempt.token, peer.number(), is_offered);
      auto end = std::make_unique<CmLookupEnd>(environment(host), attempt.token, side, behavior);
      end->ask(path(host, peer), is_offered ? CmHost::kLookupService : CmHost::kAbsentService, now);
      host.ends().push_back(std::move(end));
      return;
    }
    if (attempt.kind == Kind::Cmrc) {
      auto end = std::make_unique<CmrcEnd>(environment(host), attempt.token, side, behavior);
      static_cast<void>(end->ask(path(host, peer), CmHost::kCmrcService, now));
      host.ends().push_back(std::move(end));
      return;
    }
    const bool is_peer = attempt.kind == Kind::Peers;
    auto end = std::make_unique<CmDirectEnd>(environment(host), attempt.token, side, behavior);
    static_cast<void>(end->ask(
        {.path = path(host, peer),
         .service_id = is_peer ? CmHost::kPeerService + attempt.token : CmHost::kDirectService,
         .peer_to_peer = is_peer},
        now));
    host.ends().push_back(std::move(end));
  }

  /// Handles a request at a listener.
  cm::Handled serve(CmHost& host, cm::CmId id, const cm::CmEvent& event, Instant now) {
    const CmLedger::Token token = CmLedger::token_of(event.private_data);
    const auto attempt = std::ranges::find(attempts_, token, &Attempt::token);
    if (token == 0 || attempt == attempts_.end()) {
      verdict_.fail("a request arrived that no end sent");
      return cm::Handled::Destroy;
    }
    if (random_.chance(1, 20)) {
      return cm::Handled::DestroyNoResources;
    }
    const CmBehavior behavior = behavior_of(*attempt, CmSide::Server, now);
    if (event.type == cm::CmEventType::SidrReqReceived) {
      return settle<CmLookupEnd>(host, id, event, behavior, token, now);
    }
    return attempt->kind == Kind::Cmrc ? settle<CmrcEnd>(host, id, event, behavior, token, now)
                                       : settle<CmDirectEnd>(host, id, event, behavior, token, now);
  }

  template <class End>
  cm::Handled settle(CmHost& host, cm::CmId id, const cm::CmEvent& event,
                     const CmBehavior& behavior, CmLedger::Token token, Instant now) {
    auto end = std::make_unique<End>(environment(host), token, CmSide::Server, behavior);
    const cm::Handled handled = end->take(id, event, now);
    new_ends_.emplace_back(&host, std::move(end));
    return handled;
  }

  void step() {
    Instant next = std::min({mads_.next_arrival(), data_.next_arrival(), death_at_, return_at_});
    for (const auto& host : hosts_) {
      next = std::min(next, host->deadline());
    }
    for (const Attempt& attempt : attempts_) {
      for (std::size_t side = 0; side < 2; ++side) {
        next = attempt.has_begun[side] ? next : std::min(next, attempt.begins[side]);
      }
    }
    if (next == Instant::never() || next.since_start() > kVirtualBound) {
      return verdict_.fail("an end waits forever");
    }
    now_ = std::max(now_, next);
    if (death_at_ <= now_) {
      kill();
    }
    if (return_at_ <= now_) {
      bring_back();
    }
    for (Attempt& attempt : attempts_) {
      for (const CmSide side : {CmSide::Client, CmSide::Server}) {
        const auto index = static_cast<std::size_t>(side);
        if (!attempt.has_begun[index] && attempt.begins[index] <= now_) {
          begin(attempt, side, now_);
        }
      }
    }
    deliver();
    for (const auto& host : hosts_) {
      host->step(now_);
      check_new_ends();
      transmit(*host);
    }
    ledger_.check(now_);
  }

  /// Adds ends created for requests while the host's ends were being visited.
  void check_new_ends() {
    for (auto& [host, end] : new_ends_) {
      host->ends().push_back(std::move(end));
    }
    new_ends_.clear();
  }

  void deliver() {
    while (mads_.next_arrival() <= now_) {
      const Network::Arrival arrival = mads_.take();
      CmHost& host = *hosts_[CmHost::number_of(arrival.to) - 1];
      digest_.add(arrival.bytes);
      if (host.is_up()) {
        const Lid from{std::to_integer<std::uint32_t>(arrival.bytes.back())};
        host.gsi().handle_mad({.lid = from}, ByteSpan{arrival.bytes}.first(wire::kMadBytes), now_);
      }
      check_new_ends();
    }
    while (data_.next_arrival() <= now_) {
      const Network::Arrival arrival = data_.take();
      CmProgram* const program = hosts_[CmHost::number_of(arrival.to) - 1]->program();
      const auto packet = hca::from_wire(arrival.bytes);
      if (packet && program != nullptr && slot_of(packet->header.dest_qp) == program->slot()) {
        program->hca().handle_packet(PortNumber{1}, *packet, now_);
      }
    }
  }

  void transmit(CmHost& host) {
    if (!host.is_up()) {
      return;
    }
    while (const auto packet = host.gsi().poll_transmit(now_)) {
      std::vector<std::byte> bytes{packet->bytes.begin(), packet->bytes.end()};
      bytes.push_back(static_cast<std::byte>(host.lid().value()));
      mads_.send(host.lid(), packet->address.lid, bytes, now_);
    }
    if (host.program() == nullptr) {
      return;
    }
    Wire wire{data_, now_};
    host.program()->hca().for_each_qp([&](hca::Qp& qp) {
      while (qp.needs_transmit() && qp.transmit(wire, now_, 8)) {
      }
      qp.check_invariants();
    });
  }

  void kill() {
    death_at_ = Instant::never();
    CmHost& host = *hosts_[victim_];
    if (scenario_.a_host_dies) {
      ledger_.host_down(host.life(), now_);
      host.crash(now_);
      return_at_ = now_ + Duration::milliseconds(20) + some_time(random_, 400);
    } else {
      host.end_program(now_);
      exchanges_.program_down(host.number());
      return_at_ = now_ + Duration::milliseconds(1) + some_time(random_, 50);
    }
  }

  void bring_back() {
    return_at_ = Instant::never();
    CmHost& host = *hosts_[victim_];
    if (scenario_.a_host_dies) {
      host.boot();
      ledger_.host_up(host.number(), now_);
    } else {
      host.start_program();
    }
  }

  [[nodiscard]] bool is_idle_now() const {
    const bool all_have_begun = std::ranges::all_of(attempts_, [](const Attempt& attempt) {
      return attempt.has_begun[0] && attempt.has_begun[1];
    });
    return all_have_begun && death_at_ == Instant::never() && return_at_ == Instant::never() &&
           mads_.next_arrival() == Instant::never() && data_.next_arrival() == Instant::never() &&
           std::ranges::all_of(hosts_, [](const auto& host) {
             return host->ends().empty() && host->deadline() == Instant::never();
           });
  }

  CmScenario scenario_;
  Random random_;
  Network mads_;
  Network data_;
  Verdict verdict_;
  CmLedger ledger_;
  CmExchanges exchanges_{verdict_};
  std::vector<Attempt> attempts_;
  std::vector<std::unique_ptr<CmHost>> hosts_;
  std::vector<std::pair<CmHost*, std::unique_ptr<CmEnd>>> new_ends_;
  std::uint32_t victim_{};
  Instant death_at_{Instant::never()};
  Instant return_at_{Instant::never()};
  Instant now_{Duration::seconds(1)};
  Digest digest_;
};

}  // namespace

CmScenario CmScenario::of_seed(std::uint64_t seed) {
  CmScenario scenario;
  scenario.seed = seed;
  scenario.connections = 11 + static_cast<std::uint32_t>(seed % 17);
  const bool is_quiescent = seed % 8 == 0;
  scenario.mad_faults = {
      .loss = is_quiescent ? 0U : static_cast<std::uint32_t>(seed % 6) * 250,
      .duplication = static_cast<std::uint32_t>(seed % 5) * 300,
      .lateness = 2000,
      .late_by = Duration::milliseconds(20),
      .delay_max = Duration::milliseconds(1 + static_cast<std::int64_t>(seed % 8))};
  scenario.data_faults = {.loss = 100,
                          .duplication = 100,
                          .corruption = 50,
                          .lateness = 100,
                          .late_by = Duration::milliseconds(10),
                          .delay_max = Duration::microseconds(20)};
  scenario.a_host_dies = seed % 3 == 1;
  scenario.a_program_dies = seed % 3 == 2;
  return scenario;
}

std::string CmScenario::describe() const {
  return fmt::format(
      "seed {}: {} connections, MADs: loss {} duplication {} of 10000, delay up to {} us and {} us "
      "more, {}",
      seed, connections, mad_faults.loss, mad_faults.duplication,
      mad_faults.delay_max.microseconds(), mad_faults.late_by.microseconds(),
      a_host_dies      ? "a host dies"
      : a_program_dies ? "a program dies"
                       : "nobody dies");
}

Outcome run(const CmScenario& scenario) { return World{scenario}.run(); }

}  // namespace weft::sim
