#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "core/device.h"
#include "core/engine/port_management.h"
#include "core/registry.h"
#include "core/work.h"
#include "hca/events.h"
#include "hca/hca.h"

namespace weft::core::engine {

/// What carries the packets of an engine's QPs, and its timers: the simulator, a wire in memory, or
/// a live program's driver.
class EngineCarrier {
 public:
  virtual ~EngineCarrier() = default;
  /// Posts to the QP's send queue, and lets it send what may go.
  virtual Result<void> post(hca::Qp& qp, const hca::SendWr& wr) = 0;
  /// The QP was made, or its state has changed: it may have something to send, or a deadline.
  virtual void wake(hca::Qp& qp) = 0;
  /// Destroys the QP: no packet comes to it meanwhile, and none of its own is under way any more.
  virtual Result<void> destroy(hca::Hca& hca, hca::Qp& qp) = 0;
};

/// The driver id of engines (kUnknownDriver is none).
inline constexpr std::uint32_t kEngineDriver = 1;

/// The operations of every engine.
[[nodiscard]] DeviceOperations engine_operations();

struct EngineInit {
  std::string_view name{"weft%d"};
  Guid node_guid{};
  std::string node_description{"weft"};
  unsigned completion_vectors{4};
  bool forces_registration{};
  const NetNamespace* net{};
  /// The driver's table; another one is made of it, for a device that can less.
  DeviceOperations (*operations)(){engine_operations};
};

/// The driver that makes a device of an hca::Hca: every verb of the core is the engine's own verb.
/// Made in this order: the engine, the HCA with the engine as its HcaEvents, bind(),
/// register_device — and taken apart the other way round. Any thread.
class Engine final : public hca::HcaEvents {
 public:
  Engine(Registry& registry, EngineCarrier& carrier, EngineInit init);
  ~Engine() override;

  /// The HCA outlives the registration.
  void bind(hca::Hca& hca);
  /// Who manages the ports, from before their users to after them; without it they are as the HCA
  /// has them, and nothing of them is modified.
  void set_management(PortManagement& management) { management_ = &management; }
  Result<void> register_device();
  void unregister_device();

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] hca::Hca& hca() { return *hca_; }
  [[nodiscard]] EngineCarrier& carrier() { return carrier_; }

  /// Something of a port changed; its new attributes are in the HCA already (Hca::set_port).
  void report_port_event(PortNumber port, verbs::AsyncEventType type);

  // --- hca::HcaEvents: recorded, and told later without locks.
  void completion_event(hca::CompletionQueue& cq) override;
  void async_event(const hca::AsyncEvent& event) override;
  void bad_key(const hca::BadKey& bad) override;
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view reason) override;

 private:
  friend struct EngineOperations;
  /// Packets with a wrong key of one kind at one port that the management has not been told of.
  struct BadKeys {
    hca::BadKey last;
    std::uint32_t count{};
  };

  using Untold = std::variant<Cq*, Event>;
  void tell();
  void tell_bad_keys();
  [[nodiscard]] static bool is_of(const Untold& untold, const void* object);
  /// The core's object goes: nobody is told of it any more when this returns.
  void forget(const void* object);
  /// Of a QP's number; null for one that is no QP's, as a work queue's.
  [[nodiscard]] std::atomic<Qp*>* qp_slot(Qpn qpn);

  Registry& registry_;
  EngineCarrier& carrier_;
  EngineInit init_;
  hca::Hca* hca_{};
  PortManagement* management_{};
  Device* device_{};
  std::vector<std::atomic<Qp*>> qps_;  // by number, for completions
  PolicyLock lock_;                    // of what follows
  std::deque<Untold> untold_;
  std::optional<Untold> telling_;  // what is told just now
  unsigned forgetting_{};          // callers of forget() that wait for it
  std::vector<BadKeys> bad_keys_;  // two a port at most: any sender can cause any number of them
  Work teller_;
};

[[nodiscard]] Engine& engine_of(const Device& device);

}  // namespace weft::core::engine
