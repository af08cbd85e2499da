#include "scsi/target.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::scsi {

Result<void> Target::add_port(const PortOptions& port) {
  const std::scoped_lock hold(lock_);
  if (port.id.value() == 0) {
    return fail(ErrorCode::InvalidArgument, "relative target port identifiers begin with 1");
  }
  if (std::ranges::find(ports_, port.id, &PortOptions::id) != ports_.end()) {
    return fail(ErrorCode::Exists, "relative target port {} exists", port.id.value());
  }
  ports_.push_back(port);
  for (const auto& [lun, unit] : units_) {
    unit->add_port(port);
  }
  return {};
}

std::vector<Lun> Target::luns_locked() const {
  std::vector<Lun> luns;
  for (const auto& [lun, unit] : units_) {
    luns.push_back(lun);
  }
  return luns;
}

Result<std::shared_ptr<LogicalUnit>> Target::add_unit(const UnitOptions& options,
                                                      BlockDevice& device) {
  const BlockGeometry geometry = device.geometry();
  if (options.lun.value() > kMaxLun) {
    return fail(ErrorCode::InvalidArgument, "LUN {} is not in 0..{}", options.lun.value(), kMaxLun);
  }
  if (geometry.blocks == 0 || (geometry.block_bytes != 512 && geometry.block_bytes != 4096)) {
    return fail(ErrorCode::InvalidArgument, "a disk has at least one block of 512 or 4096 octets");
  }
  if (options.protection != ProtectionType::None && !geometry.keeps_protection) {
    return fail(ErrorCode::InvalidArgument, "the device does not keep protection information");
  }
  const std::scoped_lock hold(lock_);
  if (units_.contains(options.lun)) {
    return fail(ErrorCode::Exists, "LUN {} exists", options.lun.value());
  }
  if (units_.size() >= options_.max_units) {
    return fail(ErrorCode::OutOfMemory, "{} units are the limit", options_.max_units);
  }
  auto unit = std::make_shared<LogicalUnit>(options, device, options_.locks, directory_);
  for (const PortOptions& port : ports_) {
    unit->add_port(port);
  }
  for (const auto& [id, nexus] : nexuses_) {
    unit->attach(id, nexus.name, nexus.joins);
  }
  units_.emplace(options.lun, unit);
  directory_->add(unit, options);
  for (const auto& [lun, other] : units_) {
    other->set_luns(luns_locked(), lun != options.lun);
  }
  return unit;
}

Result<void> Target::remove_unit(Lun lun, std::function<void()> done) {
  std::shared_ptr<LogicalUnit> unit;
  {
    const std::scoped_lock hold(lock_);
    const auto found = units_.find(lun);
    if (found == units_.end()) {
      return fail(ErrorCode::NotFound, "no LUN {}", lun.value());
    }
    unit = std::move(found->second);
    units_.erase(found);
    directory_->remove(lun);
    for (const auto& [other_lun, other] : units_) {
      other->set_luns(luns_locked(), true);
    }
  }
  const auto pending = std::make_shared<Pending>(std::move(done));
  unit->abort_all(pending);
  if (pending->drop()) {
    pending->finish();
  }
  return {};
}

std::shared_ptr<LogicalUnit> Target::unit(Lun lun) const {
  const std::scoped_lock hold(lock_);
  const auto found = units_.find(lun);
  return found == units_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<LogicalUnit>> Target::units() const {
  const std::scoped_lock hold(lock_);
  std::vector<std::shared_ptr<LogicalUnit>> all;
  for (const auto& [lun, unit] : units_) {
    all.push_back(unit);
  }
  return all;
}

std::size_t Target::nexuses() const {
  const std::scoped_lock hold(lock_);
  return nexuses_.size();
}

Result<NexusId> Target::open_nexus(PortId port, const TransportId& initiator, bool joins) {
  const std::scoped_lock hold(lock_);
  if (std::ranges::find(ports_, port, &PortOptions::id) == ports_.end()) {
    return fail(ErrorCode::NotFound, "no relative target port {}", port.value());
  }
  if (nexuses_.size() >= options_.max_nexuses) {
    return fail(ErrorCode::OutOfMemory, "{} nexuses are the limit", options_.max_nexuses);
  }
  const NexusId id{next_nexus_++};
  const Nexus& nexus =
      nexuses_
          .emplace(id,
                   Nexus{
                       .name = {.initiator = initiator, .port = port},
                         .joins = joins
  })
          .first->second;
  for (const auto& [lun, unit] : units_) {
    unit->attach(id, nexus.name, joins);
  }
  return id;
}

void Target::close_nexus(NexusId id, std::function<void()> done) {
  {
    const std::scoped_lock hold(lock_);
    nexuses_.erase(id);
  }
  const auto pending = std::make_shared<Pending>(std::move(done));
  for (const auto& unit : units()) {
    unit->detach(id, pending);
  }
  if (pending->drop()) {
    pending->finish();
  }
}

std::shared_ptr<LogicalUnit> Target::unit_at(std::uint64_t lun) const {
  const auto number = parse_lun(lun);
  return number ? unit(*number) : nullptr;
}

std::optional<BlockProtection> Target::protection_of(std::uint64_t lun, ByteSpan cdb) const {
  const auto found = unit_at(lun);
  return found != nullptr ? found->protection_of(cdb) : std::nullopt;
}

Completion Target::failed_check(std::uint64_t lun, const BlockProtection& how,
                                const ProtectionError& error) const {
  const auto found = unit_at(lun);
  const auto format = found != nullptr ? found->sense_format() : SenseData::Format::Fixed;
  return {
      .status = Status::CheckCondition, .sense = SenseData{sense_of(error, how.lba), format}
  };
}

void Target::submit(Command& command) {
  std::shared_ptr<LogicalUnit> addressed;
  bool known = false;
  {
    const std::scoped_lock hold(lock_);
    known = nexuses_.contains(command.nexus);
    if (const auto lun = parse_lun(command.lun)) {
      const auto found = units_.find(*lun);
      addressed = found == units_.end() ? nullptr : found->second;
    }
  }
  if (!known) {
    command.client->handle_completion(command, {.has_status = false});
  } else if (addressed != nullptr) {
    addressed->submit(command);
  } else {
    answer_without_unit(command);
  }
}

// SPC-4 §6.6.2, §6.33, §6.39: three commands are answered for units that are not there.
void Target::answer_without_unit(Command& command) {
  ParameterData data;
  std::size_t allocation_length = 0;
  const std::uint8_t opcode = command.cdb.empty() ? 0xFF : load8(command.cdb, 0);
  const Sense missing{.key = SenseKey::IllegalRequest, .code = SenseCode::LogicalUnitNotSupported};
  if (opcode == 0x12 && command.cdb.size() >= 6 && (load8(command.cdb, 1) & 0x01) == 0) {
    data.add(1, 0x7F).add(1, 0).add(1, 0x06).add(1, 0x02).add(1, 36 - 5).add_zeroes(31);
    allocation_length = load16(command.cdb, 3);
  } else if (opcode == 0x03 && command.cdb.size() >= 6) {
    const bool descriptors = (load8(command.cdb, 1) & 0x01) != 0;
    const SenseData sense(missing,
                          descriptors ? SenseData::Format::Descriptor : SenseData::Format::Fixed);
    data.add(sense.octets());
    allocation_length = load8(command.cdb, 4);
  } else if (opcode == 0xA0 && command.cdb.size() >= 12 && load32(command.cdb, 6) >= 16) {
    const std::scoped_lock hold(lock_);
    data.add_zeroes(8);
    for (const Lun lun : load8(command.cdb, 2) == 1 ? std::vector<Lun>{} : luns_locked()) {
      data.add(8, lun_address(lun));
    }
    data.set(0, 4, data.size() - 8);
    allocation_length = load32(command.cdb, 6);
  }
  Completion completion;
  if (data.size() == 0) {
    completion.status = Status::CheckCondition;
    completion.sense = SenseData(missing, SenseData::Format::Fixed);
  }
  const std::size_t wanted = std::min(data.size(), allocation_length);
  completion.data_in_bytes = std::min(wanted, command.data_in.size());
  copy_bytes(command.data_in, data.octets().first(completion.data_in_bytes));
  const std::size_t room = std::max(command.data_in.size(), command.data_out.size());
  completion.residual = static_cast<std::int64_t>(room) - static_cast<std::int64_t>(wanted);
  command.client->handle_completion(command, completion);
}

void Target::manage(NexusId id, TaskManagement function, std::uint64_t lun, std::uint64_t tag,
                    const TaskManagementHandler& handler) {
  bool known = false;
  std::shared_ptr<LogicalUnit> addressed;
  {
    const std::scoped_lock hold(lock_);
    known = nexuses_.contains(id);
    if (const auto number = parse_lun(lun)) {
      const auto found = units_.find(*number);
      addressed = found == units_.end() ? nullptr : found->second;
    }
  }
  const bool of_all =
      function == TaskManagement::TargetReset || function == TaskManagement::NexusReset;
  if (!known) {
    handler(TaskManagementResponse::NoSuchNexus);
    return;
  }
  if (!of_all && addressed == nullptr) {
    handler(TaskManagementResponse::IncorrectLun);
    return;
  }
  auto response = std::make_shared<TaskManagementResponse>(TaskManagementResponse::Complete);
  const auto pending = std::make_shared<Pending>([handler, response] { handler(*response); });
  const auto addressees = of_all ? units() : std::vector{addressed};
  for (const auto& unit : addressees) {
    *response = unit->manage(id, function, tag, pending);
  }
  if (pending->drop()) {
    pending->finish();
  }
}

}  // namespace weft::scsi
