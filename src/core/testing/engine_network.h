#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "core/engine/engine.h"
#include "core/environment.h"
#include "core/work.h"
#include "hca/hca.h"
#include "hca/packet.h"

namespace weft::core::testing {

/// Hosts with one engine each, on a wire in memory: LIDs from 1, one port, one GID. step() lets the
/// world go on; a ManualEnvironment calls it while somebody waits, a threaded one has a thread that
/// does.
class EngineNetwork final : public engine::EngineCarrier {
 public:
  explicit EngineNetwork(Environment& environment);
  ~EngineNetwork() override;

  /// A host whose device is registered.
  engine::Engine& add_host(Registry& registry, const engine::EngineInit& init = {},
                           const std::function<void(hca::HcaConfiguration&)>& change = {});
  [[nodiscard]] engine::Engine& host(std::size_t index) { return *hosts_[index].engine; }
  [[nodiscard]] static Lid lid_of(std::size_t host) {
    return Lid{static_cast<std::uint32_t>(host + 1)};
  }
  /// Unregisters all devices; their objects are gone before.
  void unregister_all();

  /// Lets QPs send, delivers a packet or fires a timer; false: nothing is to be done now.
  bool step();

  // --- EngineCarrier
  Result<void> post(hca::Qp& qp, const hca::SendWr& wr) override;
  void wake(hca::Qp& qp) override;
  Result<void> destroy(hca::Hca& hca, hca::Qp& qp) override;

  struct Flight {
    std::size_t from{};
    hca::PacketHeader header;
    std::vector<std::byte> payload;
  };
  /// False: the packet is lost.
  std::function<bool(const Flight&)> filter;

 private:
  class Sink;
  struct Host {
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<hca::Hca> hca;
  };
  bool transmit();
  bool deliver();
  bool fire_timers();

  Environment& environment_;
  PolicyLock lock_;  // of the wire, and held while packets come
  std::vector<Host> hosts_;
  std::deque<Flight> wire_;
  Work timer_;
};

}  // namespace weft::core::testing
