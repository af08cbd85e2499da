#pragma once

// The units of a target that EXTENDED COPY reaches beside its own (SPC-4 §5.17), and how a copy
// manager reads and writes them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "scsi/block_device.h"
#include "scsi/command.h"
#include "scsi/unit_state.h"

namespace weft::scsi {

class LogicalUnit;

/// The designator of an identification descriptor copy target (SPC-4 §6.4.4.2), as INQUIRY's page
/// 83h of the unit has it.
struct CopyDesignator {
  std::uint8_t code_set{};
  std::uint8_t association{};
  std::uint8_t kind{};
  ByteSpan octets{};
  /// Whether a unit with these options is meant.
  [[nodiscard]] bool names(const UnitOptions& unit) const;
};

/// The units of one target by their designators. Any thread, also under a unit's lock: it takes
/// none itself.
class UnitDirectory {
 public:
  explicit UnitDirectory(LockPolicy locks) : lock_(locks) {}
  void add(const std::shared_ptr<LogicalUnit>& unit, const UnitOptions& options);
  void remove(Lun lun);
  /// Null: there is none.
  [[nodiscard]] std::shared_ptr<LogicalUnit> find(const CopyDesignator& designator) const;
  /// A nexus of a copy manager, of whom the target has none.
  [[nodiscard]] NexusId next_nexus();

 private:
  struct Entry {
    UnitOptions options;
    std::weak_ptr<LogicalUnit> unit;
  };
  mutable PolicyLock lock_;
  std::vector<Entry> entries_;
  std::uint64_t nexuses_{};
};

/// A unit as the device of a copy. The copy manager is an initiator to it: what it asks are
/// commands on a nexus of its own, which has the names of whoever sent EXTENDED COPY, so that
/// reservations, access states and other commands on the same blocks hold as for any. They are HEAD
/// OF QUEUE, since what they wait for might wait for the copy. Tuples stay behind: each unit checks
/// and makes its own. One request at a time.
class CopyTarget final : public BlockDevice, private CommandClient {
 public:
  CopyTarget(std::shared_ptr<LogicalUnit> unit, NexusId id, NexusName name)
      : unit_(std::move(unit)), id_(id), name_(std::move(name)) {}
  ~CopyTarget() override;

  [[nodiscard]] const LogicalUnit* unit() const { return unit_.get(); }
  [[nodiscard]] BlockGeometry geometry() const override;
  /// Read and Write. Takes the unit's lock.
  void submit(BlockRequest& request) override;

 private:
  void handle_completion(Command& command, const Completion& completion) override;

  std::shared_ptr<LogicalUnit> unit_;
  NexusId id_;
  NexusName name_;
  bool is_attached_{};
  std::array<std::byte, 16> cdb_{};
  Command command_;
  BlockRequest* request_{};
};

}  // namespace weft::scsi
