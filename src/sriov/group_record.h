#pragma once

// MCMemberRecords in SA MADs, as GroupProxy handles them.

#include <cstdint>

#include "base/flags.h"
#include "base/identifiers.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::sriov {

/// Components that say whose membership it is.
inline constexpr std::uint64_t kMembershipMask =
    wire::kComponent<wire::McMemberRecord, "MGID"> |
    wire::kComponent<wire::McMemberRecord, "PortGID"> |
    wire::kComponent<wire::McMemberRecord, "JoinState">;

[[nodiscard]] bool is_member_record(const wire::MadHeader& header);

[[nodiscard]] wire::McMemberRecord record_of(const wire::SaMad& mad);
void set_record(wire::SaMad& mad, const wire::McMemberRecord& record);

/// The record as that of one member.
[[nodiscard]] wire::McMemberRecord joined(wire::McMemberRecord record, const Gid& port_gid,
                                          Flags<wire::JoinState> states);

/// A join of a group with these properties, which creates it if SA has lost it; or a leave.
[[nodiscard]] wire::SaMad make_request(const wire::McMemberRecord& record, bool is_join,
                                       const Gid& port_gid, Flags<wire::JoinState> states);

/// True if a group fulfils what a join asks for in the components of the mask (IBTA vol 1
/// §15.2.5.17). MTU, rate and packet lifetime are compared as their selectors say.
[[nodiscard]] bool fits(const wire::McMemberRecord& group, const wire::McMemberRecord& wanted,
                        std::uint64_t mask);

}  // namespace weft::sriov
