#include "node/engine_ports.h"

#include <utility>

#include "verbs/port_events.h"

namespace weft::node {

EnginePorts::EnginePorts(agents::FabricAgents& agents, const fabric::TablesBuilder& tables,
                         fabric::HcaIndex hca, core::engine::Engine& engine,
                         std::function<Instant()> now)
    : agents_(agents), tables_(tables), hca_(hca), engine_(engine), now_(std::move(now)) {
  engine_.set_management(*this);
  const std::uint32_t count = tables_.hcas()[hca_.value()].port_count;
  for (std::uint32_t i = 1; i <= count; ++i) {
    const PortNumber number{static_cast<std::uint8_t>(i)};
    known_.push_back(read(number));
    engine_.hca().set_port(number, known_.back().attributes);
  }
}

fabric::PortIndex EnginePorts::index_of(PortNumber number) const {
  const fabric::HcaRecord& hca = tables_.hcas()[hca_.value()];
  return fabric::PortIndex{hca.first_port.value() + number.value() - 1};
}

EnginePorts::Known EnginePorts::read(PortNumber number) const {
  const fabric::PortIndex index = index_of(number);
  const fabric::PortRecord& record = tables_.port(index);
  return {.attributes = fabric::attributes_of(record, tables_.gids(index), tables_.pkeys(index)),
          .reregistrations = record.reregistrations};
}

void EnginePorts::update() {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const PortNumber number{static_cast<std::uint8_t>(i + 1)};
    const Known fresh = read(number);
    const Known before = std::exchange(known_[i], fresh);
    engine_.hca().set_port(number, fresh.attributes);
    for (const verbs::AsyncEventType type :
         verbs::PortEvents{before.attributes, fresh.attributes}) {
      engine_.report_port_event(number, type);
    }
    if (before.reregistrations != fresh.reregistrations) {
      engine_.report_port_event(number, verbs::AsyncEventType::ClientReregister);
    }
  }
}

core::engine::ManagedPort EnginePorts::port(PortNumber number) const {
  const wire::PortInfo info = agents_.port_info(index_of(number));
  return {.physical_state = static_cast<std::uint8_t>(info.physical_state),
          .capability_mask = info.capability_mask.bits(),
          .capability_mask_2 = info.capability_mask2.bits(),
          .pkey_violations = info.pkey_violations,
          .qkey_violations = info.qkey_violations,
          .subnet_timeout = info.subnet_timeout,
          .init_type_reply = info.init_type_reply};
}

Guid EnginePorts::system_image_guid() const {
  return agents_.node_info(index_of(PortNumber{1})).system_image_guid;
}

Result<void> EnginePorts::modify_port(PortNumber number,
                                      const core::PortModification& modification) {
  const fabric::PortIndex index = index_of(number);
  if (modification.mask.has(core::PortChange::Shutdown)) {
    // Disabled, so that the link does not train again before a manager wants it to.
    if (auto down = agents_.configure(index, {.physical = wire::PhysicalState::Disabled}, now_());
        !down) {
      return down;
    }
  }
  if (modification.mask.has(core::PortChange::InitType)) {
    agents_.set_init_type(index, modification.init_type);
  }
  if (modification.mask.has(core::PortChange::ResetQKeyCounter)) {
    agents_.reset_qkey_violations(index);
  }
  agents_.change_capabilities(
      index, wire::PortCapabilities::from_bits(modification.set_capabilities),
      wire::PortCapabilities::from_bits(modification.clear_capabilities), now_());
  return {};
}

Result<void> EnginePorts::modify_device(const core::DeviceModification& modification) {
  const fabric::PortIndex index = index_of(PortNumber{1});
  if (modification.mask.has(core::DeviceChange::NodeDescription)) {
    for (std::size_t i = 0; i < known_.size(); ++i) {  // the SMA of each port tells it
      const PortNumber number{static_cast<std::uint8_t>(i + 1)};
      if (auto set =
              agents_.set_node_description(index_of(number), modification.node_description, now_());
          !set) {
        return set;
      }
    }
  }
  if (modification.mask.has(core::DeviceChange::SystemImageGuid)) {
    agents_.set_system_image_guid(index, modification.system_image_guid, now_());
  }
  return {};
}

void EnginePorts::report_bad_keys(const hca::BadKey& last, std::uint32_t count) {
  const agents::BadKey bad{.source = last.source,
                           .destination = last.destination,
                           .sl = last.sl,
                           .source_qp = last.source_qp,
                           .destination_qp = last.destination_qp,
                           .source_gid = last.source_gid,
                           .key = last.key};
  if (last.kind == hca::BadKey::Kind::PKey) {
    agents_.note_bad_pkeys(index_of(last.port), bad, count, now_());
  } else {
    agents_.note_bad_qkeys(index_of(last.port), bad, count, now_());
  }
}

}  // namespace weft::node
