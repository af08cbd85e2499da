#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "cm/connection_manager.h"
#include "cm/messages.h"
#include "mad/management_interface.h"
#include "mad/testing/network.h"

/// For tests: connection managers on a network in virtual time, with a log of their events.
namespace weft::cm {

struct Reported {
  CmId id{};
  CmEvent event{};
  Instant at{};
};

/// A host with one port that observes all of its ids.
class TestHost final : public CmObserver {
 public:
  static constexpr PortKey kPort{1};

  TestHost(Lid at, Options options)
      : lid(at), gsi(mad::InterfaceKind::Gsi, {.queued_mads = 100'000}), cm(seeded(options, at)) {
    cm.add_port(kPort, gsi, address()).value();
  }

  [[nodiscard]] Guid ca() const { return Guid{0xCA00 + lid.value()}; }
  [[nodiscard]] Gid gid() const { return {kDefaultGidPrefix, Guid{0xB000 + lid.value()}}; }
  /// Another one of the same port, for an alternate path.
  [[nodiscard]] Gid other_gid() const { return {kDefaultGidPrefix, Guid{0xBF00 + lid.value()}}; }
  [[nodiscard]] PortAddress address() const {
    PortAddress address;
    address.lid = lid;
    address.gids = {gid(), other_gid()};
    address.pkeys = {PKey{0x1234}, kDefaultPKey};
    address.ca_guid = ca();
    return address;
  }

  Handled handle(CmId id, const CmEvent& event, Instant now) override {
    reported.push_back({.id = id, .event = event, .at = now});
    if (event.type == CmEventType::ReqReceived || event.type == CmEventType::SidrReqReceived) {
      newest = id;
    }
    return on_event ? on_event(id, event, now) : Handled::Keep;
  }

  [[nodiscard]] CmId make(std::uint64_t context = 0) { return cm.create(*this, context).value(); }
  [[nodiscard]] CmId listener(std::uint64_t service_id, std::uint64_t mask = 0) {
    const CmId id = make();
    cm.listen(id, {.service_id = service_id, .service_mask = mask}).value();
    return id;
  }
  [[nodiscard]] State state(CmId id) const {
    const auto status = cm.status(id);
    return status ? status->state : State::Idle;
  }
  [[nodiscard]] std::vector<CmEventType> reported_for(CmId id) const {
    std::vector<CmEventType> types;
    for (const Reported& each : reported) {
      if (each.id == id) {
        types.push_back(each.event.type);
      }
    }
    return types;
  }
  [[nodiscard]] unsigned count(CmEventType type) const {
    unsigned count = 0;
    for (const Reported& each : reported) {
      count += each.event.type == type ? 1 : 0;
    }
    return count;
  }
  /// The last of that type.
  [[nodiscard]] const Reported* last(CmEventType type) const {
    for (auto each = reported.rbegin(); each != reported.rend(); ++each) {
      if (each->event.type == type) {
        return &*each;
      }
    }
    return nullptr;
  }

  Lid lid;
  mad::ManagementInterface gsi;
  ConnectionManager cm;
  std::vector<Reported> reported;
  CmId newest{};  ///< that a request made
  std::function<Handled(CmId, const CmEvent&, Instant)> on_event;

 private:
  [[nodiscard]] static Options seeded(Options options, Lid at) {
    options.seed += at.value();
    return options;
  }
};

class TestCmNetwork {
 public:
  explicit TestCmNetwork(std::uint64_t seed = 1, const mad::NetworkFaults& faults = {},
                         const Options& options = {})
      : random_(seed), faults_(faults) {
    for (std::uint32_t lid = 1; lid <= 2; ++lid) {
      hosts_.push_back(std::make_unique<TestHost>(Lid{lid}, options));
    }
  }

  [[nodiscard]] TestHost& a() { return *hosts_[0]; }
  [[nodiscard]] TestHost& b() { return *hosts_[1]; }

  /// With a packet life time of about 1 ms.
  [[nodiscard]] static Path path(const TestHost& from, const TestHost& to) {
    return {.sgid = from.gid(),
            .dgid = to.gid(),
            .slid = from.lid,
            .dlid = to.lid,
            .packet_life_time = 8};
  }
  [[nodiscard]] static Path alternate(const TestHost& from, const TestHost& to) {
    Path path = TestCmNetwork::path(from, to);
    path.dgid = to.other_gid();
    path.sl = ServiceLevel{3};
    path.packet_life_time = 9;
    return path;
  }
  /// To b's service 0x1000, with response times of about 17 ms.
  [[nodiscard]] RequestParameters request(std::uint64_t service_id = 0x1000) {
    return {.primary = path(a(), b()),
            .service_id = service_id,
            .qpn = Qpn{0x11},
            .starting_psn = Psn{0x111},
            .responder_resources = 4,
            .initiator_depth = 3,
            .remote_cm_response_timeout = 12,
            .local_cm_response_timeout = 12,
            .max_cm_retries = 4};
  }
  [[nodiscard]] static ReplyParameters reply() {
    return {.qpn = Qpn{0x22},
            .starting_psn = Psn{0x222},
            .responder_resources = 3,
            .initiator_depth = 4,
            .target_ack_delay = 5};
  }

  /// Delivers MADs and advances time until nothing is pending or `until` is reached.
  void run(Instant until = Instant{Duration::seconds(10'000)}) {
    for (std::uint64_t steps = 0;; ++steps) {
      WEFT_ASSERT(steps < 2'000'000, "the network does not come to rest");
      collect();
      Instant next = arrivals_.empty() ? Instant::never() : arrivals_.begin()->first.first;
      for (const auto& host : hosts_) {
        next = std::min({next, host->gsi.deadline(), host->cm.deadline()});
      }
      if (next == Instant::never() || next > until) {
        now = until == Instant{Duration::seconds(10'000)} ? now : until;
        return;
      }
      now = std::max(now, next);
      deliver();
      for (const auto& host : hosts_) {
        host->gsi.handle_timeout(now);
        host->cm.handle_timeout(now);
        host->cm.check_invariants();
      }
    }
  }
  void run_for(Duration span) { run(now + span); }
  /// Long enough for messages, too short for anything to be repeated.
  void run_shortly() { run_for(Duration::milliseconds(1)); }

  /// Delivers a forged MAD with that source.
  void inject(TestHost& to, Lid from, const mad::MadBytes& mad) {
    to.gsi.handle_mad({.lid = from}, mad, now);
    to.cm.check_invariants();
  }

  struct Sent {
    Lid from{};
    wire::CmAttribute attribute{};
    mad::MadBytes mad{};
    Instant at{};
    bool is_lost{};
  };
  [[nodiscard]] std::vector<wire::CmAttribute> sent_by(const TestHost& host) const {
    std::vector<wire::CmAttribute> attributes;
    for (const Sent& each : sent) {
      if (each.from == host.lid) {
        attributes.push_back(each.attribute);
      }
    }
    return attributes;
  }
  [[nodiscard]] unsigned count(wire::CmAttribute attribute) const {
    unsigned count = 0;
    for (const Sent& each : sent) {
      count += each.attribute == attribute ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] const Sent* last(wire::CmAttribute attribute) const {
    for (auto each = sent.rbegin(); each != sent.rend(); ++each) {
      if (each->attribute == attribute) {
        return &*each;
      }
    }
    return nullptr;
  }

  std::vector<Sent> sent;
  Instant now{Duration::seconds(1)};
  std::function<bool(const Sent&)> loses;  ///< losses in addition to the faults

 private:
  void collect() {
    for (const auto& host : hosts_) {
      while (const auto packet = host->gsi.poll_transmit(now)) {
        Sent each{
            .from = host->lid,
            .attribute = static_cast<wire::CmAttribute>(header_of(packet->bytes).attribute_id),
            .mad = packet->bytes,
            .at = now};
        each.is_lost = (loses && loses(each)) || random_.chance(faults_.loss, 100);
        sent.push_back(each);
        const unsigned copies = each.is_lost ? 0 : random_.chance(faults_.duplication, 100) ? 2 : 1;
        for (unsigned i = 0; i < copies; ++i) {
          const auto span =
              static_cast<std::uint64_t>((faults_.delay_max - faults_.delay_min).nanoseconds());
          const Duration delay =
              faults_.delay_min +
              Duration::nanoseconds(static_cast<std::int64_t>(span == 0 ? 0 : random_.below(span)));
          arrivals_.emplace(std::pair{now + delay, ++order_}, std::pair{packet->address.lid, each});
        }
      }
    }
  }

  void deliver() {
    while (!arrivals_.empty() && arrivals_.begin()->first.first <= now) {
      const auto [to, each] = arrivals_.begin()->second;
      arrivals_.erase(arrivals_.begin());
      for (const auto& host : hosts_) {
        if (host->lid == to) {
          inject(*host, each.from, each.mad);
        }
      }
    }
  }

  Random random_;
  mad::NetworkFaults faults_;
  std::vector<std::unique_ptr<TestHost>> hosts_;
  std::map<std::pair<Instant, std::uint64_t>, std::pair<Lid, Sent>> arrivals_;
  std::uint64_t order_{};
};

/// A server that accepts every request, and a client that accepts every reply.
inline void answer_all(TestCmNetwork& network) {
  const auto answer = [](TestHost& host) {
    host.on_event = [&host](CmId id, const CmEvent& event, Instant now) {
      if (event.type == CmEventType::ReqReceived) {
        (void)host.cm.send_rep(id, TestCmNetwork::reply(), now);
      } else if (event.type == CmEventType::RepReceived) {
        (void)host.cm.send_rtu(id, {}, now);
      } else if (event.type == CmEventType::DreqReceived) {
        (void)host.cm.send_drep(id, {}, now);
      }
      return Handled::Keep;
    };
  };
  answer(network.a());
  answer(network.b());
}

/// a's and b's id of a connection that is established; b listens for 0x1000.
struct Connected {
  CmId a{};
  CmId b{};
  CmId listener{};
};

[[nodiscard]] inline Connected connect(TestCmNetwork& network) {
  Connected ids{.a = network.a().make(), .listener = network.b().listener(0x1000)};
  network.a().cm.send_req(ids.a, network.request(), network.now).value();
  network.run_shortly();
  ids.b = network.b().newest;
  network.b().cm.send_rep(ids.b, TestCmNetwork::reply(), network.now).value();
  network.run_shortly();
  network.a().cm.send_rtu(ids.a, {}, network.now).value();
  network.run_shortly();
  WEFT_ASSERT(network.a().state(ids.a) == State::Established, "the network was told so");
  WEFT_ASSERT(network.b().state(ids.b) == State::Established, "the network was told so");
  return ids;
}

}  // namespace weft::cm
