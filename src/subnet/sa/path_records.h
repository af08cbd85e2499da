#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "subnet/sa/groups.h"
#include "subnet/sa/query.h"
#include "subnet/sa/rates.h"
#include "wire/mad/path_record.h"

/// Paths from port to port (IBTA vol 1 §15.2.5.16, §15.2.5.20). A path is what the forwarding
/// tables make of a SLID and a DLID; there is one only between ports that share a partition.
namespace weft::subnet {

/// Port pairs that one query may look at: a wildcard at both ends of a large subnet is refused with
/// TooManyRecords before any work. Policy, not from the specification.
inline constexpr std::size_t kPathPairLimit = 65536;

/// One end of the paths that are wanted.
struct PathEnd {
  PortId port{};
  Gid gid{};
  std::optional<Lid> lid{};  ///< named by the query; else all of the port's LIDs
};

/// What a query says of a path besides its ends.
struct PathWish {
  std::optional<PKey> pkey{};
  std::optional<ServiceLevel> sl{};
  Wanted mtu{};
  Wanted rate{};
  Wanted life_time{};
  bool is_reversible{};
  unsigned path_count{1};  ///< for each pair of ends at most
};

/// The path from a LID of `source` to one of `destination`; none when there is none as wished.
[[nodiscard]] std::optional<wire::PathRecord> find_path(const SaQuery& query, const PathEnd& source,
                                                        const PathEnd& destination, Lid slid,
                                                        Lid dlid, const PathWish& wish);

/// Calls visit(SLID, DLID) for the LID pairs of two ends, those that differ in both first, until it
/// returns false.
template <class Visit>
void for_each_lid_pair(const SubnetPort& source, std::optional<Lid> slid,
                       const SubnetPort& destination, std::optional<Lid> dlid, Visit&& visit) {
  const std::uint32_t from = slid ? 1 : source.lid_count();
  const std::uint32_t to = dlid ? 1 : destination.lid_count();
  const std::uint32_t longer = from > to ? from : to;
  for (std::uint32_t shift = 0; shift < from * to / longer; ++shift) {
    for (std::uint32_t i = 0; i < longer; ++i) {
      const std::uint32_t s = (from >= to ? i : i + shift) % from;
      const std::uint32_t d = (from >= to ? i + shift : i) % to;
      if (!visit(slid.value_or(Lid{source.info.lid.value() + s}),
                 dlid.value_or(Lid{destination.info.lid.value() + d}))) {
        return;
      }
    }
  }
}

/// Get and GetTable of PathRecord. A destination that is a multicast GID gives the group's values.
void answer_path_records(const SaQuery& query, const SaGroups& groups, SaAnswer& answer);

/// GetMulti of MultiPathRecord: PathRecords between each source and each destination.
void answer_multi_path_records(const SaQuery& query, SaAnswer& answer);

/// GetTraceTable: the nodes on the path that a PathRecord names by both its ends.
void answer_trace_records(const SaQuery& query, SaAnswer& answer);

}  // namespace weft::subnet
