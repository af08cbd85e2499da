#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agents/fabric_agents.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "core/engine/engine.h"
#include "core/engine/port_management.h"
#include "fabric/tables.h"
#include "verbs/port_attributes.h"

namespace weft::node {

/// The ports of an engine as the SMA of its HCA has them: what a subnet manager writes reaches the
/// engine's device, and what the device's users modify reaches the subnet manager. Single-threaded,
/// as the agents are.
class EnginePorts final : public core::engine::PortManagement {
 public:
  /// `hca` is the engine's in the tables; `now` is the agents' clock. Makes itself the engine's
  /// management, and must outlive its device; agents and tables outlive it.
  EnginePorts(agents::FabricAgents& agents, const fabric::TablesBuilder& tables,
              fabric::HcaIndex hca, core::engine::Engine& engine, std::function<Instant()> now);

  /// Takes over what management has set since the last call, and tells the device's users of it
  /// (IBTA vol 1 §11.6.3.3). To be called whenever it may have.
  void update();

  // --- core::engine::PortManagement
  [[nodiscard]] core::engine::ManagedPort port(PortNumber number) const override;
  [[nodiscard]] Guid system_image_guid() const override;
  Result<void> modify_port(PortNumber number, const core::PortModification& modification) override;
  Result<void> modify_device(const core::DeviceModification& modification) override;
  void report_bad_keys(const hca::BadKey& last, std::uint32_t count) override;

 private:
  struct Known {
    verbs::PortAttributes attributes;
    std::uint8_t reregistrations{};
  };
  [[nodiscard]] fabric::PortIndex index_of(PortNumber number) const;
  [[nodiscard]] Known read(PortNumber number) const;

  agents::FabricAgents& agents_;
  const fabric::TablesBuilder& tables_;
  const fabric::HcaIndex hca_;
  core::engine::Engine& engine_;
  const std::function<Instant()> now_;
  std::vector<Known> known_;  // by port - 1
};

}  // namespace weft::node
