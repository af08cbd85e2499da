#include "scsi/access_states.h"

#include <algorithm>
#include <utility>

namespace weft::scsi {
namespace {

constexpr std::uint8_t kSupportedStates = 0x8F;  // T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP
constexpr std::uint8_t kTransitionSeconds = 10;  // IMPLICIT TRANSITION TIME; policy
constexpr std::size_t kDescriptorBytes = 4;

// Transitioning is reported, never commanded (SPC-4 §6.45: INVALID FIELD IN PARAMETER LIST).
bool may_be_set(std::uint8_t state) {
  return state <= std::to_underlying(AccessState::Unavailable);
}

bool has_port(const std::vector<PortId>& ports, PortId port) {
  return std::ranges::find(ports, port) != ports.end();
}

}  // namespace

AccessStates::Group* AccessStates::find(std::uint16_t group) {
  const auto found = std::ranges::find(groups_, group, &Group::id);
  return found == groups_.end() ? nullptr : &*found;
}

void AccessStates::add_port(PortId port, std::uint16_t group) {
  if (find(group) == nullptr) {
    groups_.push_back({.id = group, .ports = {}});
  }
  find(group)->ports.push_back(port);
}

AccessState AccessStates::state(PortId port) const {
  for (const Group& group : groups_) {
    if (has_port(group.ports, port)) {
      return group.state;
    }
  }
  return AccessState::ActiveOptimized;
}

std::optional<std::uint16_t> AccessStates::group(PortId port) const {
  for (const Group& group : groups_) {
    if (has_port(group.ports, port)) {
      return group.id;
    }
  }
  return std::nullopt;
}

Result<bool> AccessStates::set_state(std::uint16_t group, AccessState state, bool by_command) {
  Group* const found = find(group);
  if (found == nullptr) {
    return fail(ErrorCode::NotFound, "no target port group {}", group);
  }
  const bool changed = found->state != state;
  found->state = state;
  found->cause = by_command ? Cause::SetByCommand : Cause::Implicit;
  return changed;
}

ParameterData AccessStates::report(bool extended) const {
  ParameterData data(4);
  if (extended) {
    data.add(2, 0x10'00u | kTransitionSeconds).add(2, 0);
  }
  for (const Group& group : groups_) {
    data.add(1, std::to_underlying(group.state))
        .add(1, kSupportedStates)
        .add(2, group.id)
        .add(1, 0)
        .add(1, std::to_underlying(group.cause))
        .add(1, 0)
        .add(1, group.ports.size());
    for (const PortId port : group.ports) {
      data.add(2, 0).add(2, port.value());
    }
  }
  data.set(0, 4, data.size() - 4);
  return data;
}

Outcome<bool> AccessStates::set_from(ByteSpan parameters) {
  if (parameters.empty()) {
    return false;  // SPC-4 §6.45: a length of zero changes nothing
  }
  if (parameters.size() < kDescriptorBytes || parameters.size() % kDescriptorBytes != 0) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  for (std::size_t at = kDescriptorBytes; at < parameters.size(); at += kDescriptorBytes) {
    if (!may_be_set(load8(parameters, at) & 0x0F)) {
      return invalid_field_in_parameters(at);
    }
    if (find(load16(parameters, at + 2)) == nullptr) {
      return invalid_field_in_parameters(at + 2);
    }
  }
  bool changed = false;
  for (std::size_t at = kDescriptorBytes; at < parameters.size(); at += kDescriptorBytes) {
    const auto state = static_cast<AccessState>(load8(parameters, at) & 0x0F);
    const Result<bool> result = set_state(load16(parameters, at + 2), state, true);
    changed = changed || result.value_or(false);
  }
  return changed;
}

}  // namespace weft::scsi
