#include "node/shared_devices.h"

namespace weft::node {

Result<std::uint32_t> SharedDevices::share(ProcessId owner, const Name& name, std::uint32_t hca) {
  if (numbers_.contains(name)) {
    return fail(ErrorCode::Exists, "the command descriptor is that of a device already");
  }
  if (of(owner).size() >= kMaxOfProcess) {
    return fail(ErrorCode::OutOfMemory, "a process may share and import {} devices", kMaxOfProcess);
  }
  const std::uint32_t number = ++newest_;
  numbers_.emplace(name, number);
  devices_.emplace(number, Device{.name = name, .owner = owner, .hca = hca, .importers = {}});
  return number;
}

Result<std::uint32_t> SharedDevices::import(ProcessId importer, const Name& name) {
  const auto known = numbers_.find(name);
  if (known == numbers_.end()) {
    return fail(ErrorCode::TryAgain,
                "the descriptor is that of no device which a program of this host has open");
  }
  if (of(importer).size() >= kMaxOfProcess && !has(importer, known->second)) {
    return fail(ErrorCode::OutOfMemory, "a process may share and import {} devices", kMaxOfProcess);
  }
  ++devices_.at(known->second).importers[importer];
  return known->second;
}

std::optional<std::uint32_t> SharedDevices::owned(ProcessId owner, const Name& name) const {
  const auto known = numbers_.find(name);
  return known != numbers_.end() && devices_.at(known->second).owner == owner
             ? std::optional{known->second}
             : std::nullopt;
}

const SharedDevices::Device* SharedDevices::find(std::uint32_t device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? nullptr : &found->second;
}

bool SharedDevices::has(ProcessId process, std::uint32_t device) const {
  const Device* const found = find(device);
  return found != nullptr && (found->owner == process || found->importers.contains(process));
}

std::vector<std::uint32_t> SharedDevices::of(ProcessId process) const {
  std::vector<std::uint32_t> found;
  for (const auto& [number, device] : devices_) {
    if (device.owner == process || device.importers.contains(process)) {
      found.push_back(number);
    }
  }
  return found;
}

std::vector<ProcessId> SharedDevices::leave(ProcessId process, std::uint32_t device, bool wholly) {
  const auto found = devices_.find(device);
  if (found == devices_.end()) {
    return {};
  }
  Device& left = found->second;
  if (left.owner == process) {
    std::vector<ProcessId> others;
    for (const auto& [importer, count] : left.importers) {
      others.push_back(importer);
    }
    numbers_.erase(left.name);
    devices_.erase(found);
    return others;
  }
  const auto importer = left.importers.find(process);
  if (importer == left.importers.end() || (--importer->second != 0 && !wholly)) {
    return {};
  }
  left.importers.erase(importer);
  return {left.owner};
}

}  // namespace weft::node
