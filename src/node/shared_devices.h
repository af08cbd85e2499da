#pragma once

// Open devices that other processes of the host may import (ibv_import_device(3)), identified by
// the file of their command descriptor. Pure, not thread-safe.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "node/fabric.h"

namespace weft::node {

/// Shared devices of all hosts, with owner and importers.
class SharedDevices {
 public:
  /// Maximum of devices that one process shares and imports; policy, not from the specification.
  static constexpr std::size_t kMaxOfProcess = 256;

  /// A command descriptor's file on one host.
  struct Name {
    fabric::NodeIndex host;
    std::uint64_t device{};  // st_dev
    std::uint64_t inode{};
    auto operator<=>(const Name&) const = default;
  };
  struct Device {
    Name name;
    ProcessId owner;
    std::uint32_t hca{};
    std::map<ProcessId, std::uint32_t> importers;  // with the number of imports by each
  };

  [[nodiscard]] Result<std::uint32_t> share(ProcessId owner, const Name& name, std::uint32_t hca);
  /// Fails with TryAgain if nobody shares it. A process may import its own device, and repeatedly.
  [[nodiscard]] Result<std::uint32_t> import(ProcessId importer, const Name& name);

  /// The device with this name, if `owner` owns it.
  [[nodiscard]] std::optional<std::uint32_t> owned(ProcessId owner, const Name& name) const;
  /// Null if there is no such device.
  [[nodiscard]] const Device* find(std::uint32_t device) const;
  /// True if the process owns or has imported the device.
  [[nodiscard]] bool has(ProcessId process, std::uint32_t device) const;
  [[nodiscard]] std::vector<std::uint32_t> of(ProcessId process) const;

  /// Ends a process's use of a device: one import, or all if `wholly`; an owner's device is
  /// removed. Returns the processes to notify: the owner, or all importers.
  std::vector<ProcessId> leave(ProcessId process, std::uint32_t device, bool wholly);

 private:
  std::map<std::uint32_t, Device> devices_;
  std::map<Name, std::uint32_t> numbers_;
  std::uint32_t newest_{};
};

}  // namespace weft::node
