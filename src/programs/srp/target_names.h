#pragma once

// What a user says of SRP targets, as the configuration of programs/iscsi has it: a target's name
// is its identifier extension, its initiators are who may log in.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "programs/iscsi/configuration.h"
#include "ulp/srp/port_name.h"

namespace weft::programs::srp {

inline constexpr std::uint16_t kDefaultPort = 5555;  // policy; there is no assigned one

/// A target of the configuration, looked at.
struct TargetNames {
  wire::SrpPortId port_id{};  ///< identifier extension, then the GUID of the I/O controller
  std::vector<weft::srp::AccessName> allowed{};  ///< empty: anybody
};

/// The extension is a name of up to 16 hexadecimal digits, the GUID itself where there is none.
/// InvalidArgument: other names, and a chap-file, which SRP has no use for.
[[nodiscard]] Result<TargetNames> names_of(const iscsi::TargetConfiguration& target, Guid ioc_guid);

/// Extension and GUID one after the other.
[[nodiscard]] wire::SrpPortId port_id_of(std::uint64_t extension, Guid guid);
[[nodiscard]] std::uint64_t extension_of(const wire::SrpPortId& id);
[[nodiscard]] Guid guid_of(const wire::SrpPortId& id);

}  // namespace weft::programs::srp
