#pragma once

// Booting from an SRP target: the root path of gPXE, and the table that hands the session over to
// the system that is booted (R-SRPI-9). Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "wire/srp/boot_table.h"

namespace weft::srp {

/// All that a session with one logical unit needs to be known.
struct BootSession {
  Gid source_gid{};
  Gid destination_gid{};
  PKey pkey{kDefaultPKey};
  std::uint64_t service_id{};
  std::uint64_t lun{};
  wire::SrpPortId initiator_port_id{};
  wire::SrpPortId target_port_id{};
  bool operator==(const BootSession&) const = default;
};

/// "ib_srp:<sgid>:<initiator id_ext>:<initiator HCA GUID>:<dgid>:<pkey>:<service_id>:<lun>:
/// <target id_ext>:<ioc_guid>", in hexadecimal digits; "-" may separate the groups of a GID, GUID
/// or LUN. A field may be empty, and fields at the end may be missing: what is not said stays as
/// `defaults` have it.
[[nodiscard]] Result<BootSession> parse_root_path(std::string_view path,
                                                  const BootSession& defaults = {});
[[nodiscard]] std::string to_root_path(const BootSession& session);

/// The sBFT, with its checksum.
[[nodiscard]] std::vector<std::byte> to_boot_table(const BootSession& session);
/// Checks signature, lengths, offsets and checksum.
[[nodiscard]] Result<BootSession> parse_boot_table(ByteSpan table);

}  // namespace weft::srp
