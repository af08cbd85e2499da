#pragma once

// What an initiator asks of a disk, and what it makes of the answers: CDBs and parameter lists of
// SBC-3 and SPC-4, capacity and limits, and whether a command is to be sent again. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "scsi/protection.h"
#include "scsi/sense.h"

namespace weft::scsi {

using Cdb = std::vector<std::byte>;

/// What a disk has said of itself.
struct DiskProperties {
  std::uint64_t blocks{};
  std::uint32_t block_bytes{};
  bool may_unmap{};                       ///< UNMAP (LBPU), or WRITE SAME (16) with UNMAP (LBPWS)
  bool has_unmap{};                       ///< LBPU
  bool has_write_same{};                  ///< LBPWS
  bool unmapped_are_zero{};               ///< LBPRZ
  bool write_protected{};                 ///< WP of the mode parameter header
  bool has_fua{};                         ///< DPOFUA
  ProtectionType protection{};            ///< what it is formatted with (PROT_EN, P_TYPE)
  std::uint32_t max_transfer_blocks{};    ///< 0: not told
  std::uint32_t max_unmap_blocks{};       ///< of all descriptors of an UNMAP; 0: not told
  std::uint64_t max_write_same_blocks{};  ///< 0: not told
  std::string vendor{};
  std::string product{};

  [[nodiscard]] std::uint64_t bytes() const { return blocks * block_bytes; }
};

/// A run of blocks.
struct DiskExtent {
  std::uint64_t lba{};
  std::uint32_t blocks{};
};

enum class VitalPage : std::uint8_t { BlockLimits = 0xB0, LogicalBlockProvisioning = 0xB2 };

// --- CDBs (SBC-3 §5, SPC-4 §6)
inline constexpr std::size_t kCapacityBytes = 32;
inline constexpr std::size_t kInquiryBytes = 96;  ///< of standard data and pages
inline constexpr std::size_t kModeBytes = 8;      ///< the header of MODE SENSE (10) is enough
[[nodiscard]] Cdb test_unit_ready_cdb();
[[nodiscard]] Cdb inquiry_cdb();
[[nodiscard]] Cdb inquiry_cdb(VitalPage page);
[[nodiscard]] Cdb read_capacity_cdb();
/// MODE SENSE (10) of all pages, without block descriptors.
[[nodiscard]] Cdb mode_sense_cdb();
/// What becomes of protection information: with None no tuples are transferred; else they are, and
/// the disk checks them as the type says, and the application tag if there is one (Type 2 alone,
/// whose CDBs of 32 octets have a place for it).
struct TransferProtection {
  ProtectionType type{};
  std::optional<std::uint16_t> application_tag{};
};
[[nodiscard]] Cdb read_cdb(const DiskExtent& extent, const TransferProtection& protection = {});
[[nodiscard]] Cdb write_cdb(const DiskExtent& extent, bool force_unit_access,
                            const TransferProtection& protection = {});
/// Of the whole medium.
[[nodiscard]] Cdb synchronize_cache_cdb();
[[nodiscard]] Cdb unmap_cdb(std::size_t descriptors);
[[nodiscard]] std::vector<std::byte> unmap_parameters(std::span<const DiskExtent> extents);
/// WRITE SAME (16), whose data-out is one block.
[[nodiscard]] Cdb write_same_cdb(const DiskExtent& extent, bool unmap);

// --- Answers. InvalidArgument with what is wrong with them.
/// The peripheral is a disk (device type 0), and its names.
Result<void> take_inquiry(ByteSpan data, DiskProperties& properties);
Result<void> take_capacity(ByteSpan data, DiskProperties& properties);
Result<void> take_mode(ByteSpan data, DiskProperties& properties);
/// Pages may be missing or shorter: what they do not say stays as it is.
void take_page(VitalPage page, ByteSpan data, DiskProperties& properties);

enum class Verdict : std::uint8_t {
  Done,
  Again,       ///< at once: the command did not begin
  AgainLater,  ///< after a moment: the disk has no room, or changes its state
  Conflict,    ///< another initiator has reserved the disk
  NoSpace,     ///< a thin disk is full
  Protected,   ///< it may not be written
  Refused,     ///< it does not know the command
  Failed,
};
[[nodiscard]] Verdict judge(Status status, ByteSpan sense);
/// For people: what status and sense data say.
[[nodiscard]] std::string describe(Status status, ByteSpan sense);

}  // namespace weft::scsi
