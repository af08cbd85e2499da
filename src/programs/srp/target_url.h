#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "ulp/srp/root_path.h"
#include "wire/srp/srp_codes.h"

namespace weft::programs::srp {

/// A logical unit of an SRP target: srp://HOST[:PORT]/TARGET/LUN. TARGET is the target's port
/// identifier in 32 hexadecimal digits, or 16 digits where extension and GUID are the same.
struct TargetUrl {
  std::string address{};  ///< HOST:PORT; the port is kDefaultPort if there is none
  wire::SrpPortId port_id{};
  bool is_revision_10{};  ///< I/O class ff00: the halves of both ends' identifiers are swapped
  std::uint16_t lun{};
  /// Instead of HOST:PORT: the login goes by service ID, as that of IB CM.
  std::optional<core::NativeAddress> native{};
  Gid source_gid{};                            ///< zero: any port of this host
  std::optional<wire::SrpPortId> initiator{};  ///< of this end, where the name of the unit has it
};

/// A unit however it is named: srp://HOST[:PORT]/TARGET/LUN; the line that srp_daemon prints for a
/// target, id_ext=...,ioc_guid=...,dgid=...,pkey=...,service_id=... with ,lun=N, ,sgid=...
/// and ,io_class=... after it; gPXE's root path, ib_srp:...; or sbft:FILE with a boot firmware
/// table. NotFound: there is no such file.
[[nodiscard]] Result<TargetUrl> find_target(std::string_view text);

/// InvalidArgument: no DGID or service ID, or a LUN of another form than SRP targets here have.
[[nodiscard]] Result<TargetUrl> target_of(const weft::srp::BootSession& session);

[[nodiscard]] Result<TargetUrl> parse_target_url(std::string_view text);

/// Of this end, where nobody says who it is: as the target's revision of SRP has it.
[[nodiscard]] wire::SrpPortId initiator_port_id(const TargetUrl& target, std::uint64_t extension,
                                                Guid guid);

}  // namespace weft::programs::srp
