#include "scsi/unit_state.h"

#include <algorithm>

namespace weft::scsi {

ModeFacts UnitState::mode_facts() const {
  const BlockGeometry geometry = device->geometry();
  return {.read_only = geometry.read_only,
          .blocks = geometry.blocks,
          .block_bytes = geometry.block_bytes,
          .protection_tags_kept = options.protection != ProtectionType::None};
}

Reservations::Facts UnitState::reservation_facts() const {
  Reservations::Facts facts{.ports = {}, .can_persist = options.store != nullptr};
  for (const PortOptions& port : ports) {
    facts.ports.push_back(port.id);
  }
  return facts;
}

const NexusMemory* UnitState::memory_of(NexusId id) const {
  const auto found = nexuses.find(id);
  return found == nexuses.end() ? nullptr : found->second.memory.get();
}

void UnitState::establish_for_others(NexusId but, SenseCode code) {
  const NexusMemory* const own = memory_of(but);
  for (auto& [id, nexus] : nexuses) {
    if (nexus.memory.get() != own) {
      nexus.memory->attentions.establish(code);
    }
  }
}

void UnitState::establish_for(const NexusName& name, SenseCode code) {
  for (auto& [id, nexus] : nexuses) {
    if (nexus.name == name) {
      nexus.memory->attentions.establish(code);
    }
  }
}

void CommandContext::respond(const ParameterData& data, std::size_t allocation_length) {
  wanted_bytes = std::min(data.size(), allocation_length);
  given_bytes = std::min(wanted_bytes, data_in.size());
  copy_bytes(data_in, data.octets().first(given_bytes));
}

Outcome<ByteSpan> CommandContext::parameters(std::size_t length) {
  wanted_bytes = length;
  if (data_out.size() < length) {
    return illegal_request(SenseCode::InvalidFieldInCommandInformationUnit);
  }
  return data_out.first(length);
}

}  // namespace weft::scsi
