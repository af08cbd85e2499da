#include "core/testing/engine_network.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.h"

namespace weft::core::testing {

class EngineNetwork::Sink final : public hca::TransmitSink {
 public:
  Sink(EngineNetwork& network, std::size_t from) : network_(network), from_(from) {}
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return 0; }
  [[nodiscard]] bool send(hca::Flow /*flow*/, const hca::PacketHeader& header,
                          std::span<const ByteSpan> gather) override {
    Flight flight{.from = from_, .header = header, .payload = {}};
    for (const ByteSpan piece : gather) {
      flight.payload.insert(flight.payload.end(), piece.begin(), piece.end());
    }
    if (!network_.filter || network_.filter(flight)) {
      network_.wire_.push_back(std::move(flight));
    }
    return true;
  }

 private:
  EngineNetwork& network_;
  std::size_t from_;
};

EngineNetwork::EngineNetwork(Environment& environment)
    : environment_(environment),
      lock_(environment.lock_policy()),
      timer_(environment, WorkContext::UnboundWorkQueue, 0, [] {}) {}

EngineNetwork::~EngineNetwork() { timer_.cancel_and_wait(); }

engine::Engine& EngineNetwork::add_host(Registry& registry, const engine::EngineInit& init,
                                        const std::function<void(hca::HcaConfiguration&)>& change) {
  const std::size_t index = hosts_.size();
  Host host;
  host.engine = std::make_unique<engine::Engine>(registry, *this, init);
  hca::HcaConfiguration configuration;
  configuration.lock_policy = environment_.lock_policy();
  configuration.seed = 11 + index;
  configuration.first_qpn = Qpn{static_cast<std::uint32_t>(0x10000 * (index + 1))};
  if (change) {
    change(configuration);
  }
  host.hca = std::make_unique<hca::Hca>(configuration, *host.engine);
  verbs::PortAttributes port;
  port.state = verbs::PortState::Active;
  port.lid = lid_of(index);
  port.sm_lid = lid_of(0);
  port.pkeys = {kDefaultPKey};
  port.gids = {
      Gid{kDefaultGidPrefix, Guid{0x100 + index}}
  };
  host.hca->set_port(PortNumber{1}, port);
  host.engine->bind(*host.hca);
  engine::Engine& engine = *host.engine;
  {
    const std::lock_guard lock{lock_};
    hosts_.push_back(std::move(host));
  }
  const auto registered = engine.register_device();
  WEFT_ASSERT(registered, "the harness is used as it is meant");
  return engine;
}

void EngineNetwork::unregister_all() {
  for (const Host& host : hosts_) {
    host.engine->unregister_device();
  }
}

bool EngineNetwork::transmit() {
  bool has_sent = false;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Sink sink{*this, i};
    hosts_[i].hca->for_each_qp([&](hca::Qp& qp) {
      if (qp.needs_transmit()) {
        has_sent = true;
        qp.transmit(sink, environment_.now(), 16);
      }
    });
  }
  return has_sent;
}

bool EngineNetwork::deliver() {
  if (wire_.empty()) {
    return false;
  }
  const Flight flight = std::move(wire_.front());
  wire_.pop_front();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (flight.header.dlid != lid_of(i) && !flight.header.dlid.is_multicast()) {
      continue;
    }
    hca::Packet packet;
    packet.header = flight.header;
    packet.payload = flight.payload;
    packet.is_loopback = i == flight.from;
    hosts_[i].hca->handle_packet(PortNumber{1}, packet, environment_.now());
  }
  return true;
}

bool EngineNetwork::fire_timers() {
  const Instant now = environment_.now();
  Instant next = Instant::never();
  bool has_fired = false;
  for (const Host& host : hosts_) {
    host.hca->for_each_qp([&](hca::Qp& qp) {
      if (qp.deadline() <= now) {
        qp.handle_timeout(now);
        has_fired = true;
      }
      next = std::min(next, qp.deadline());
    });
  }
  timer_.cancel_and_wait();
  if (!has_fired && next != Instant::never()) {
    timer_.queue(next - now);  // whoever waits has something to wait for
  }
  return has_fired;
}

bool EngineNetwork::step() {
  const std::lock_guard lock{lock_};
  const bool has_sent = transmit();
  return deliver() || has_sent || fire_timers();
}

Result<void> EngineNetwork::post(hca::Qp& qp, const hca::SendWr& wr) {
  auto posted = qp.post_send(wr);
  environment_.notify();
  return posted;
}

void EngineNetwork::wake(hca::Qp& /*qp*/) { environment_.notify(); }

Result<void> EngineNetwork::destroy(hca::Hca& hca, hca::Qp& qp) {
  const std::lock_guard lock{lock_};
  return hca.destroy_qp(qp);
}

}  // namespace weft::core::testing
