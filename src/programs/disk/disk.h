#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "programs/disk/disk_path.h"
#include "scsi/disk_requests.h"

namespace weft::programs::disk {

/// What is done with the protection information of a disk that has some (T10-PI, SBC-3 §4.22).
struct DiskProtection {
  bool used{true};  ///< tuples go with the data, made and checked here and by the disk
  /// Written into each tuple, and wanted of each that is read; nothing: 0, and any.
  std::optional<std::uint16_t> application_tag{};
};

/// A disk at the end of a path, as who reads and writes octets wants it. Commands that a lost
/// connection, a unit attention or a busy disk ended are sent again, in bounds. Any thread, once it
/// is open. Errors: InvalidArgument for what no block boundary fits, PermissionDenied for a disk
/// that may not be written, NoSpace where a thin disk is full, Busy for one that another initiator
/// has reserved, NotSupported, and Io for all else, as for a tag that is wrong.
class Disk {
 public:
  /// The path outlives it.
  explicit Disk(DiskPath& path, const DiskProtection& protection = {})
      : path_(path), protection_(protection) {}

  /// Learns what the disk is.
  Result<void> open();
  [[nodiscard]] const scsi::DiskProperties& properties() const { return properties_; }
  /// Of one command.
  [[nodiscard]] std::size_t max_transfer_bytes() const { return max_transfer_bytes_; }

  Result<void> read(std::uint64_t offset, MutableByteSpan into);
  /// `force_unit_access`: it is on the medium when this returns.
  Result<void> write(std::uint64_t offset, ByteSpan from, bool force_unit_access);
  /// All that was written is on the medium.
  Result<void> flush();
  /// The octets need not be kept; NotSupported if the disk cannot forget.
  Result<void> trim(std::uint64_t offset, std::uint64_t bytes);
  /// They read as zeroes, and need no room if `may_unmap` and the disk can.
  Result<void> zero(std::uint64_t offset, std::uint64_t bytes, bool may_unmap,
                    bool force_unit_access);

 private:
  /// Sends until it is answered for good; octets of data-in.
  Result<std::size_t> execute(const DiskCommand& command, std::string_view what);
  Result<void> learn(scsi::VitalPage page);
  [[nodiscard]] bool transfers_tuples() const {
    return protection_.used && properties_.protection != scsi::ProtectionType::None;
  }
  /// Of a block in a READ or WRITE.
  [[nodiscard]] std::size_t transfer_block_bytes() const;
  [[nodiscard]] scsi::TransferProtection transfer_protection() const;
  [[nodiscard]] scsi::ProtectionCheck check_of(const scsi::DiskExtent& extent) const;
  Result<void> read_protected(const scsi::DiskExtent& extent, MutableByteSpan into);
  [[nodiscard]] std::vector<std::byte> with_tuples(const scsi::DiskExtent& extent,
                                                   ByteSpan from) const;
  [[nodiscard]] Result<void> check_range(std::uint64_t offset, std::uint64_t bytes) const;
  template <class Act>
  Result<void> for_each_extent(std::uint64_t offset, std::uint64_t bytes, std::uint64_t most_blocks,
                               Act act);
  Result<void> write_zeroes(std::uint64_t offset, std::uint64_t bytes, bool force_unit_access);

  DiskPath& path_;
  DiskProtection protection_;
  scsi::DiskProperties properties_;
  std::size_t max_transfer_bytes_{};
};

/// What the disk at the end of a path that is open says of itself.
[[nodiscard]] Result<scsi::DiskProperties> properties_of(DiskPath& path);

}  // namespace weft::programs::disk
