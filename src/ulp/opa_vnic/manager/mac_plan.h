#pragma once

// Which MAC table each port of a virtual switch is to have. Pure functions.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ulp/opa_vnic/manager/config.h"
#include "wire/opa/mac_messages.h"

namespace weft::opa_vnic {

/// What is known of a member at present.
struct MemberMacs {
  std::uint32_t lid{};  ///< 0: it is not there
  std::vector<wire::MacAddress> reported;
};

/// Which member an address belongs to: configured ones first, then reported ones, of which the
/// first member that has it keeps it.
using MacOwners = std::map<wire::MacAddress, std::size_t>;

[[nodiscard]] MacOwners plan_owners(const SwitchConfig& config,
                                    std::span<const MemberMacs> members);

/// The table of one member: where all others' addresses are, and, if sources are filtered, its own
/// as sources. Cut at wire::kMaxMacTableEntries.
[[nodiscard]] std::vector<wire::MacTableEntry> plan_table(const SwitchConfig& config,
                                                          std::span<const MemberMacs> members,
                                                          const MacOwners& owners,
                                                          std::size_t member);

/// The same for equal tables, and never 0, which a port without a table has.
[[nodiscard]] std::uint32_t digest_of(std::span<const wire::MacTableEntry> table);

}  // namespace weft::opa_vnic
