#pragma once

// A SCSI target: ports, nexuses and logical units, as transports see them (SAM-5 §4.6).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "scsi/command.h"
#include "scsi/copy_targets.h"
#include "scsi/logical_unit.h"
#include "scsi/lun.h"

namespace weft::scsi {

struct TargetOptions {
  LockPolicy locks{LockPolicy::None};
  std::size_t max_nexuses{4096};  ///< policy
  std::size_t max_units{1024};    ///< policy
};

/// Any thread, with LockPolicy::Spin. Handlers and clients are called without a lock held. Devices
/// must outlive the target's last command.
class Target {
 public:
  explicit Target(const TargetOptions& options = {})
      : options_(options),
        directory_(std::make_shared<UnitDirectory>(options.locks)),
        lock_(options.locks) {}

  /// Exists if the relative identifier is taken.
  Result<void> add_port(const PortOptions& port);
  /// Exists for a LUN that is taken, OutOfMemory at the limit, InvalidArgument for options that do
  /// not fit to the device. Nexuses that are open get REPORTED LUNS DATA HAS CHANGED.
  Result<std::shared_ptr<LogicalUnit>> add_unit(const UnitOptions& options, BlockDevice& device);
  /// Aborts the unit's commands; `done` when the device is not used any more. NotFound.
  Result<void> remove_unit(Lun lun, std::function<void()> done);
  [[nodiscard]] std::shared_ptr<LogicalUnit> unit(Lun lun) const;

  /// NotFound for an unknown port, OutOfMemory at the limit. With `joins` it is a further channel
  /// of the I_T nexus of the same names, if there is one: its commands are apart, and it shares all
  /// that units keep for that. Without, it is a new nexus; reservations go by names.
  Result<NexusId> open_nexus(PortId port, const TransportId& initiator, bool joins = false);
  /// Aborts the nexus's commands without status (SAM-5 §6.3.4); `done` when no buffer is used any
  /// more. At once for an unknown nexus.
  void close_nexus(NexusId id, std::function<void()> done);

  /// How a command's blocks are protected, for a transport whose adapter is to do it: then the
  /// command comes with its tuples apart. Nothing: the unit does it, or there is nothing to do.
  [[nodiscard]] std::optional<BlockProtection> protection_of(std::uint64_t lun, ByteSpan cdb) const;
  /// How a command that has read ends whose tuples turned out to be wrong on their way.
  [[nodiscard]] Completion failed_check(std::uint64_t lun, const BlockProtection& how,
                                        const ProtectionError& error) const;

  void submit(Command& command);
  void manage(NexusId id, TaskManagement function, std::uint64_t lun, std::uint64_t tag,
              const TaskManagementHandler& handler);

  [[nodiscard]] std::size_t nexuses() const;

 private:
  struct Nexus {
    NexusName name;
    bool joins{};
  };

  [[nodiscard]] std::vector<Lun> luns_locked() const;
  [[nodiscard]] std::vector<std::shared_ptr<LogicalUnit>> units() const;
  [[nodiscard]] std::shared_ptr<LogicalUnit> unit_at(std::uint64_t lun) const;
  void answer_without_unit(Command& command);

  TargetOptions options_;
  std::shared_ptr<UnitDirectory> directory_;
  mutable PolicyLock lock_;  // guards all below; taken before a unit's, never after
  std::vector<PortOptions> ports_;
  std::map<Lun, std::shared_ptr<LogicalUnit>> units_;
  std::map<NexusId, Nexus> nexuses_;
  std::uint64_t next_nexus_{1};
};

}  // namespace weft::scsi
