#pragma once

// A connection manager between the hosts of an EngineNetwork: every step takes a while that the
// seed says. Addresses are host numbers; at any other nobody answers.

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "core/client.h"
#include "core/testing/engine_network.h"
#include "core/work.h"
#include "ulp/iser/connection_manager.h"

namespace weft::iser::testing {

class SimulatedCm;

/// All events but those by which a connection is made.
inline constexpr std::array kEndingEvents{
    CmEvent::AddressError,  CmEvent::RouteError,   CmEvent::ConnectError,
    CmEvent::Unreachable,   CmEvent::Rejected,     CmEvent::Disconnected,
    CmEvent::AddressChange, CmEvent::TimewaitExit, CmEvent::DeviceRemoval};

class SimulatedId final : public CmId {
 public:
  SimulatedId(SimulatedCm& cm, std::size_t host) : cm_(cm), host_(host) {}
  ~SimulatedId() override;

  void set_handler(CmHandler& handler) { handler_ = &handler; }
  Result<void> resolve_address(std::string_view address, Duration timeout) override;
  Result<void> resolve_route(Duration timeout) override;
  [[nodiscard]] core::Device* device() const override;
  Result<void> set_qp(core::Qp& qp) override;
  Result<void> connect(const verbs::ConnectionParameters& parameters) override;
  Result<void> accept(const verbs::ConnectionParameters& parameters) override;
  void disconnect() override;

 private:
  friend class SimulatedCm;
  // Takes the QP to RTS, towards the peer's; false: it is in error already.
  [[nodiscard]] bool join();

  SimulatedCm& cm_;
  std::size_t host_;
  CmHandler* handler_{};
  core::Qp* qp_{};
  std::size_t remote_host_{};
  Qpn remote_qpn_{};
  bool is_resolved_{};
  SimulatedId* peer_{};
};

/// As RDMA-CM, a client of the registry.
class SimulatedCm final : public core::Client {
 public:
  /// A request to connect has come; the id's owner accepts it, or drops it, which is a REJ.
  using Listener = std::function<void(std::unique_ptr<SimulatedId> id, ByteSpan private_data)>;

  SimulatedCm(core::Environment& environment, core::testing::EngineNetwork& network,
              std::uint64_t seed);
  ~SimulatedCm() override;

  // --- Client
  Result<void> add(core::Device& /*device*/) override { return {}; }
  /// DEVICE_REMOVAL for every id of the device, and waits until they are gone.
  void remove(core::Device& device, void* data) override;

  std::unique_ptr<SimulatedId> make_id(std::size_t host, CmHandler& handler);
  void listen(std::size_t host, Listener listener) { listeners_[host] = std::move(listener); }
  /// DEVICE_REMOVAL for every id of the host.
  void remove_device(std::size_t host);
  /// That event for every id of the host.
  void report_all(std::size_t host, CmEvent event);

  Duration longest_step{Duration::milliseconds(5)};
  std::vector<std::byte> accept_data;  ///< of the newest accept, for tests
  unsigned disconnects{};              ///< calls of disconnect()

 private:
  friend class SimulatedId;
  struct Step {
    Instant at;
    SimulatedId* about{};  // gone: nothing
    std::function<void()> happen;
  };
  void after(SimulatedId& about, Duration delay, std::function<void()> happen);
  void soon(SimulatedId& about, std::function<void()> happen);
  void report(SimulatedId& to, CmEvent event, std::vector<std::byte> private_data = {});
  void reschedule();

  struct Tick final : core::Task {
    explicit Tick(SimulatedCm& owner) : cm(owner) {}
    void run() override { cm.run(); }
    SimulatedCm& cm;
  };
  void run();

  core::Environment& environment_;
  core::testing::EngineNetwork& network_;
  Random random_;
  std::map<std::size_t, Listener> listeners_;
  std::vector<SimulatedId*> ids_;
  std::list<Step> steps_;
  Tick tick_{*this};
};

}  // namespace weft::iser::testing
