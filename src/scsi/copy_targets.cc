#include "scsi/copy_targets.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "scsi/big_endian.h"
#include "scsi/logical_unit.h"

namespace weft::scsi {
namespace {

constexpr std::uint8_t kRead16 = 0x88;
constexpr std::uint8_t kWrite16 = 0x8A;

/// Far above those that a target counts up from 1.
constexpr std::uint64_t kFirstNexus = std::uint64_t{1} << 63;

}  // namespace

bool CopyDesignator::names(const UnitOptions& unit) const {
  constexpr std::uint8_t kBinary = 1;
  constexpr std::uint8_t kText = 2;
  constexpr std::uint8_t kT10 = 1;
  constexpr std::uint8_t kNaa = 3;
  ParameterData own;
  if (code_set == kBinary && kind == kNaa) {
    own.add(8, unit.naa);
  } else if (code_set == kText && kind == kT10) {
    own.add_text(unit.vendor, 8).add_text(unit.product, 16);
    own.add_text(unit.serial, unit.serial.size());
  }
  return association == 0 && !octets.empty() && std::ranges::equal(octets, own.octets());
}

void UnitDirectory::add(const std::shared_ptr<LogicalUnit>& unit, const UnitOptions& options) {
  const std::scoped_lock hold(lock_);
  entries_.push_back({.options = options, .unit = unit});
}

void UnitDirectory::remove(Lun lun) {
  const std::scoped_lock hold(lock_);
  std::erase_if(entries_, [lun](const Entry& entry) { return entry.options.lun == lun; });
}

std::shared_ptr<LogicalUnit> UnitDirectory::find(const CopyDesignator& designator) const {
  const std::scoped_lock hold(lock_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return designator.names(entry.options); });
  return found == entries_.end() ? nullptr : found->unit.lock();
}

NexusId UnitDirectory::next_nexus() {
  const std::scoped_lock hold(lock_);
  return NexusId{kFirstNexus + nexuses_++};
}

CopyTarget::~CopyTarget() {
  if (is_attached_) {
    unit_->detach(id_, nullptr);
  }
}

BlockGeometry CopyTarget::geometry() const { return unit_->geometry(); }

void CopyTarget::submit(BlockRequest& request) {
  const bool reads = request.operation == BlockOperation::Read;
  WEFT_ASSERT(reads || request.operation == BlockOperation::Write, "a copy does nothing else");
  if (!std::exchange(is_attached_, true)) {
    unit_->attach_copy_manager(id_, name_);
  }
  request_ = &request;
  cdb_ = {};
  store_number(cdb_, 0, 1, reads ? kRead16 : kWrite16);
  store_number(cdb_, 2, 8, request.lba);
  store_number(cdb_, 10, 4, request.blocks);
  command_ = {.nexus = id_,
              .attribute = TaskAttribute::HeadOfQueue,
              .cdb = cdb_,
              .data_out = request.write_from,
              .data_in = request.read_into,
              .client = this};
  unit_->submit(command_);
}

// Whoever is told may end the copy, and this object with it.
void CopyTarget::handle_completion(Command& command, const Completion& completion) {
  const bool is_done =
      completion.has_status && completion.status == Status::Good && completion.residual == 0;
  const auto failed = command.data_in.empty() ? BlockStatus::WriteError : BlockStatus::ReadError;
  BlockRequest& request = *request_;
  request.client->handle_block_result(request, {.status = is_done ? BlockStatus::Ok : failed});
}

}  // namespace weft::scsi
