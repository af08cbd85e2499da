#pragma once

// T10-PI of an initiator's commands (SBC-3 §4.22): what a host offers of it, what a command asks
// for, and what was found of its tuples (R-ISER-11, R-ISER-21). Value types and pure functions.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/flags.h"
#include "core/device_attributes.h"
#include "core/dma.h"
#include "core/signature.h"
#include "scsi/protection.h"

namespace weft::iser {

/// Who checks which tuples: DIF are those between adapter and disk, DIX those between the host's
/// memory and the adapter, type 0 with tuples in memory alone (`enum
/// scsi_host_prot_capabilities`, whose bits these are).
enum class HostProtection : std::uint8_t {
  DifType1 = 1U << 0,
  DifType2 = 1U << 1,
  DifType3 = 1U << 2,
  DixType0 = 1U << 3,
  DixType1 = 1U << 4,
  DixType2 = 1U << 5,
  DixType3 = 1U << 6,
};
using HostProtections = Flags<HostProtection>;

/// How guards in the host's memory may be computed (`enum scsi_host_guard_type`).
enum class HostGuard : std::uint8_t { Crc = 1U << 0, IpChecksum = 1U << 1 };
using HostGuards = Flags<HostGuard>;

/// All types where the device has integrity regions, else none.
[[nodiscard]] HostProtections host_protections_of(const core::DeviceAttributes& device);
[[nodiscard]] HostGuards host_guards_of(const core::DeviceAttributes& device);

/// The protection of a command's data. With tuples on the wire alone they are the adapter's: it
/// makes them of a write, and checks and drops those of a read. In memory alone the same the other
/// way round; in both they pass.
struct TaskProtection {
  scsi::ProtectionType type{scsi::ProtectionType::Type1};
  bool on_wire{true};                                  ///< as the CDB's protection field asks for
  bool in_memory{true};                                ///< in `tuples`
  scsi::GuardKind memory_guard{scsi::GuardKind::Crc};  ///< on wires it is always the CRC
  std::uint16_t block_bytes{512};
  std::uint64_t first_block{};      ///< which the CDB names
  std::uint32_t first_reference{};  ///< Type 2: as in the CDB; of Type 1 it is the block's address
  std::uint16_t application_tag{};
  std::uint16_t application_mask{0xFFFF};  ///< bits of it that are compared
  bool checks_guard{true};
  bool checks_application_tag{true};
  bool checks_reference_tag{true};           ///< never with Type 3
  std::vector<core::ScatterEntry> tuples{};  ///< 8 octets for each block; empty unless in memory
};

/// What is on the wire of so many octets of data.
[[nodiscard]] std::uint64_t wire_bytes_of(const TaskProtection& protection,
                                          std::uint64_t data_bytes);

/// What the adapter of a target does for a disk, which always keeps tuples beside its blocks.
[[nodiscard]] TaskProtection protection_of(const scsi::BlockProtection& how);

/// What an integrity region is told.
[[nodiscard]] core::SignatureAttributes signature_of(const TaskProtection& protection);

/// Which tag was wrong, in SCSI's order: that of the additional sense codes 10h/01h to 03h, which
/// is another than the seed's own words have (R-ISER-21).
enum class ProtectionVerdict : std::uint8_t {
  None = 0,
  Guard = 1,
  ApplicationTag = 2,
  ReferenceTag = 3,
};

/// The same for a target, whose disk is told.
[[nodiscard]] std::optional<scsi::ProtectionError> error_of(const scsi::BlockProtection& how,
                                                            const core::SignatureStatus& status);

/// The verdict on a command whose region found this; the first block that was wrong in `block`,
/// which stays as it is with None.
[[nodiscard]] ProtectionVerdict verdict_of(const TaskProtection& protection,
                                           const core::SignatureStatus& status,
                                           std::uint64_t& block);

}  // namespace weft::iser
