#include "programs/disk/disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft::programs::disk {
namespace {

using scsi::DiskExtent;
using scsi::Verdict;
using scsi::VitalPage;

/// Of one command, where the disk says nothing; policy. Debian's tgt ends an iSER connection over a
/// longer WRITE, since its buffers have this size, and says nothing of it in its VPD pages.
constexpr std::size_t kMostTransferBytes = 512 << 10;
constexpr unsigned kTries = 10;                          // policy
constexpr std::chrono::milliseconds kFirstPause{5};      // policy; doubled each time
constexpr std::uint64_t kMostUnmapBlocks = 1 << 20;      // policy, where the disk says nothing
constexpr std::uint64_t kMostWriteSameBlocks = 1 << 16;  // policy, as before
constexpr std::uint64_t kMostBlocks = 0xFFFF'FFFF;       // a CDB's field

[[nodiscard]] ErrorCode code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Conflict:
    case Verdict::AgainLater:
      return ErrorCode::Busy;
    case Verdict::NoSpace:
      return ErrorCode::OutOfMemory;
    case Verdict::Protected:
      return ErrorCode::PermissionDenied;
    case Verdict::Refused:
      return ErrorCode::NotSupported;
    default:
      return ErrorCode::Io;
  }
}

}  // namespace

Result<std::size_t> Disk::execute(const DiskCommand& command, std::string_view what) {
  Verdict verdict{};
  std::string said;
  auto pause = kFirstPause;
  for (unsigned i = 0; i < kTries; ++i) {
    const DiskAnswer answer = path_.execute(command);
    if (answer.kind == DiskAnswer::Kind::Gone) {
      return fail(ErrorCode::Io, "{}: {}", what, answer.reason);
    }
    if (answer.kind == DiskAnswer::Kind::Interrupted) {
      said = answer.reason;
      verdict = Verdict::Failed;
      continue;  // what is executed twice reads or writes the same
    }
    verdict = scsi::judge(answer.status, answer.sense);
    if (verdict == Verdict::Done) {
      return answer.data_in_bytes;
    }
    said = scsi::describe(answer.status, answer.sense);
    if (verdict == Verdict::AgainLater) {
      std::this_thread::sleep_for(std::exchange(pause, 2 * pause));
    } else if (verdict != Verdict::Again) {
      break;
    }
  }
  return fail(code_of(verdict), "{}: {}", what, said);
}

Result<void> Disk::learn(VitalPage page) {
  std::array<std::byte, scsi::kInquiryBytes> data{};
  const auto came = execute({.cdb = scsi::inquiry_cdb(page), .data_in = data}, "INQUIRY");
  if (came) {
    scsi::take_page(page, ByteSpan{data}.first(*came), properties_);
    return {};
  }
  // A disk need not have the page.
  return came.error().code == ErrorCode::NotSupported ? Result<void>{}
                                                      : std::unexpected(came.error());
}

Result<void> Disk::open() {
  std::array<std::byte, scsi::kInquiryBytes> data{};
  const auto ask = [&](const scsi::Cdb& cdb, std::size_t bytes, std::string_view what,
                       Result<void> (*take)(ByteSpan, scsi::DiskProperties&)) -> Result<void> {
    const auto came = execute({.cdb = cdb, .data_in = MutableByteSpan{data}.first(bytes)}, what);
    return came ? take(ByteSpan{data}.first(*came), properties_) : std::unexpected(came.error());
  };
  if (auto asked = ask(scsi::inquiry_cdb(), scsi::kInquiryBytes, "INQUIRY", scsi::take_inquiry);
      !asked) {
    return asked;
  }
  if (auto ready = execute({.cdb = scsi::test_unit_ready_cdb()}, "TEST UNIT READY"); !ready) {
    return std::unexpected(ready.error());
  }
  if (auto asked = ask(scsi::read_capacity_cdb(), scsi::kCapacityBytes, "READ CAPACITY (16)",
                       scsi::take_capacity);
      !asked) {
    return asked;
  }
  if (auto asked =
          ask(scsi::mode_sense_cdb(), scsi::kModeBytes, "MODE SENSE (10)", scsi::take_mode);
      !asked && asked.error().code != ErrorCode::NotSupported) {
    return asked;
  }
  for (const VitalPage page : {VitalPage::BlockLimits, VitalPage::LogicalBlockProvisioning}) {
    if (auto learned = learn(page); !learned) {
      return learned;
    }
  }
  max_transfer_bytes_ = std::max<std::size_t>(kMostTransferBytes, transfer_block_bytes());
  if (properties_.max_transfer_blocks != 0) {
    max_transfer_bytes_ = std::min(
        max_transfer_bytes_, std::size_t{properties_.max_transfer_blocks} * transfer_block_bytes());
  }
  return {};
}

Result<void> Disk::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint32_t block = properties_.block_bytes;
  if (offset % block != 0 || bytes % block != 0) {
    return fail(ErrorCode::InvalidArgument, "{} octets at {}: the disk has blocks of {}", bytes,
                offset, block);
  }
  if (offset > properties_.bytes() || bytes > properties_.bytes() - offset) {
    return fail(ErrorCode::InvalidArgument, "{} octets at {}: the disk ends at {}", bytes, offset,
                properties_.bytes());
  }
  return {};
}

template <class Act>
Result<void> Disk::for_each_extent(std::uint64_t offset, std::uint64_t bytes,
                                   std::uint64_t most_blocks, Act act) {
  if (auto checked = check_range(offset, bytes); !checked) {
    return checked;
  }
  const std::uint32_t block = properties_.block_bytes;
  std::uint64_t lba = offset / block;
  std::uint64_t left = bytes / block;
  while (left != 0) {
    const std::uint64_t count = std::min({left, most_blocks, kMostBlocks});
    if (Result<void> acted =
            act(DiskExtent{.lba = lba, .blocks = static_cast<std::uint32_t>(count)});
        !acted) {
      return acted;
    }
    lba += count;
    left -= count;
  }
  return {};
}

std::size_t Disk::transfer_block_bytes() const {
  return properties_.block_bytes + (transfers_tuples() ? scsi::kTupleBytes : 0);
}

scsi::TransferProtection Disk::transfer_protection() const {
  return {.type = transfers_tuples() ? properties_.protection : scsi::ProtectionType::None,
          .application_tag = protection_.application_tag};
}

// Reference tags are the blocks' addresses, as Type 1 has it and as our CDBs of Type 2 say.
scsi::ProtectionCheck Disk::check_of(const DiskExtent& extent) const {
  return {.type = properties_.protection,
          .block_bytes = properties_.block_bytes,
          .application_tag = protection_.application_tag.has_value(),
          .expected_application = protection_.application_tag.value_or(0),
          .expected_reference = static_cast<std::uint32_t>(extent.lba)};
}

// The disk has checked the tuples before it sent them; here it is seen what came of them.
Result<void> Disk::read_protected(const DiskExtent& extent, MutableByteSpan into) {
  std::vector<std::byte> transfer(extent.blocks * transfer_block_bytes());
  const auto came =
      execute({.cdb = scsi::read_cdb(extent, transfer_protection()), .data_in = transfer}, "READ");
  if (!came) {
    return std::unexpected(came.error());
  }
  if (*came != transfer.size()) {
    return fail(ErrorCode::Io, "READ: {} octets of {} came", *came, transfer.size());
  }
  std::vector<std::byte> tuples(extent.blocks * scsi::kTupleBytes);
  scsi::separate_protection(properties_.block_bytes, transfer, into, tuples);
  const auto wrong = scsi::check_protection(check_of(extent), into, tuples);
  if (!wrong) {
    return {};
  }
  const std::string_view tag = wrong->fault == scsi::ProtectionFault::Guard ? "guard"
                               : wrong->fault == scsi::ProtectionFault::ApplicationTag
                                   ? "application tag"
                                   : "reference tag";
  return fail(ErrorCode::Io, "READ: the {} of block {} is wrong", tag, extent.lba + wrong->block);
}

std::vector<std::byte> Disk::with_tuples(const DiskExtent& extent, ByteSpan from) const {
  std::vector<std::byte> tuples(extent.blocks * scsi::kTupleBytes);
  scsi::generate_protection(check_of(extent), from, tuples);
  std::vector<std::byte> transfer(extent.blocks * transfer_block_bytes());
  scsi::interleave_protection(properties_.block_bytes, from, tuples, transfer);
  return transfer;
}

Result<void> Disk::read(std::uint64_t offset, MutableByteSpan into) {
  const std::uint32_t block = properties_.block_bytes;
  const std::size_t most = max_transfer_bytes_ / transfer_block_bytes();
  return for_each_extent(offset, into.size(), most, [&](DiskExtent extent) -> Result<void> {
    const auto part = into.subspan(extent.lba * block - offset, std::size_t{extent.blocks} * block);
    if (transfers_tuples()) {
      return read_protected(extent, part);
    }
    const auto came = execute({.cdb = scsi::read_cdb(extent), .data_in = part}, "READ (16)");
    if (!came) {
      return std::unexpected(came.error());
    }
    return *came == part.size()
               ? Result<void>{}
               : fail(ErrorCode::Io, "READ (16): {} octets of {} came", *came, part.size());
  });
}

Result<void> Disk::write(std::uint64_t offset, ByteSpan from, bool force_unit_access) {
  const std::uint32_t block = properties_.block_bytes;
  const bool forces = force_unit_access && properties_.has_fua;
  const std::size_t most = max_transfer_bytes_ / transfer_block_bytes();
  auto written = for_each_extent(offset, from.size(), most, [&](DiskExtent extent) -> Result<void> {
    auto part = from.subspan(extent.lba * block - offset, std::size_t{extent.blocks} * block);
    std::vector<std::byte> transfer;
    if (transfers_tuples()) {
      transfer = with_tuples(extent, part);
      part = transfer;
    }
    const auto done = execute(
        {.cdb = scsi::write_cdb(extent, forces, transfer_protection()), .data_out = part}, "WRITE");
    return done ? Result<void>{} : std::unexpected(done.error());
  });
  return written && force_unit_access && !forces ? flush() : written;
}

Result<void> Disk::flush() {
  const auto done = execute({.cdb = scsi::synchronize_cache_cdb()}, "SYNCHRONIZE CACHE (16)");
  // Without a cache there need not be the command.
  return done || done.error().code == ErrorCode::NotSupported ? Result<void>{}
                                                              : std::unexpected(done.error());
}

Result<void> Disk::trim(std::uint64_t offset, std::uint64_t bytes) {
  if (properties_.has_unmap) {
    const std::uint64_t most =
        properties_.max_unmap_blocks != 0 ? properties_.max_unmap_blocks : kMostUnmapBlocks;
    return for_each_extent(offset, bytes, most, [&](DiskExtent extent) -> Result<void> {
      const auto list = scsi::unmap_parameters({&extent, 1});
      const auto done = execute({.cdb = scsi::unmap_cdb(1), .data_out = list}, "UNMAP");
      return done ? Result<void>{} : std::unexpected(done.error());
    });
  }
  if (properties_.has_write_same) {
    return zero(offset, bytes, true, false);
  }
  return fail(ErrorCode::NotSupported, "the disk does not forget what it has");
}

Result<void> Disk::zero(std::uint64_t offset, std::uint64_t bytes, bool may_unmap,
                        bool force_unit_access) {
  const std::vector<std::byte> zeroes(properties_.block_bytes);
  const std::uint64_t most = properties_.max_write_same_blocks != 0
                                 ? properties_.max_write_same_blocks
                                 : kMostWriteSameBlocks;
  auto done = for_each_extent(offset, bytes, most, [&](DiskExtent extent) -> Result<void> {
    const bool unmaps = may_unmap && properties_.has_write_same && properties_.unmapped_are_zero;
    const auto same = execute({.cdb = scsi::write_same_cdb(extent, unmaps), .data_out = zeroes},
                              "WRITE SAME (16)");
    return same ? Result<void>{} : std::unexpected(same.error());
  });
  if (!done && done.error().code == ErrorCode::NotSupported) {
    return write_zeroes(offset, bytes, force_unit_access);
  }
  return done && force_unit_access ? flush() : done;
}

Result<void> Disk::write_zeroes(std::uint64_t offset, std::uint64_t bytes, bool force_unit_access) {
  const std::vector<std::byte> zeroes(std::min<std::uint64_t>(bytes, max_transfer_bytes_));
  while (bytes != 0) {
    const std::uint64_t count = std::min<std::uint64_t>(bytes, zeroes.size());
    if (auto written = write(offset, ByteSpan{zeroes}.first(count), force_unit_access); !written) {
      return written;
    }
    offset += count;
    bytes -= count;
  }
  return {};
}

Result<scsi::DiskProperties> properties_of(DiskPath& path) {
  Disk disk{path};
  if (auto opened = disk.open(); !opened) {
    return std::unexpected(opened.error());
  }
  return disk.properties();
}

}  // namespace weft::programs::disk
