#pragma once

// Open devices that other processes of the host may import (ibv_import_device(3)), by the files of
// their command descriptors: whose each is, and who has imported it. Pure; one thread.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "node/fabric.h"

namespace weft::node {

class SharedDevices {
 public:
  /// Policy: shared and imported, of one process.
  static constexpr std::size_t kMaxOfProcess = 256;

  /// The file of a command descriptor, as one host sees it.
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
    std::map<ProcessId, std::uint32_t> importers;  // how often each
  };

  [[nodiscard]] Result<std::uint32_t> share(ProcessId owner, const Name& name, std::uint32_t hca);
  /// TryAgain: nobody has shared it. Of one's own, or again, too.
  [[nodiscard]] Result<std::uint32_t> import(ProcessId importer, const Name& name);

  /// That of the name, if it is the owner's.
  [[nodiscard]] std::optional<std::uint32_t> owned(ProcessId owner, const Name& name) const;
  /// Null: there is none of that number.
  [[nodiscard]] const Device* find(std::uint32_t device) const;
  /// Whether it is the owner or has imported the device.
  [[nodiscard]] bool has(ProcessId process, std::uint32_t device) const;
  [[nodiscard]] std::vector<std::uint32_t> of(ProcessId process) const;

  /// Who is to hear that the process has the device open no more: the owner of what was imported,
  /// everybody of what was owned, which is then forgotten. `wholly`: all the times that it was
  /// imported.
  std::vector<ProcessId> leave(ProcessId process, std::uint32_t device, bool wholly);

 private:
  std::map<std::uint32_t, Device> devices_;
  std::map<Name, std::uint32_t> numbers_;
  std::uint32_t newest_{};
};

}  // namespace weft::node
