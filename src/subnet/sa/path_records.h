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

/// Path records (IBTA vol 1 §15.2.5.16, §15.2.5.20), derived from the forwarding tables for each
/// pair of SLID and DLID. Paths exist only between ports that share a partition.
namespace weft::subnet {

/// Maximum number of port pairs examined by one query. A query with wildcards at both ends of a
/// large subnet is refused with TooManyRecords before any work. Policy, not from the specification.
inline constexpr std::size_t kPathPairLimit = 65536;

/// One end of the requested paths.
struct PathEnd {
  PortId port{};
  Gid gid{};
  std::optional<Lid> lid{};  ///< set if given in the query; otherwise all LIDs of the port
};

/// Constraints of a path query.
struct PathQuery {
  std::optional<PKey> pkey{};
  std::optional<ServiceLevel> sl{};
  Constraint mtu{};
  Constraint rate{};
  Constraint life_time{};
  bool is_reversible{};
  unsigned path_count{1};  ///< maximum per pair of ports
};

/// The path between a LID of `source` and one of `destination`; none if no path satisfies `wish`.
[[nodiscard]] std::optional<wire::PathRecord> find_path(const SaQuery& query, const PathEnd& source,
                                                        const PathEnd& destination, Lid slid,
                                                        Lid dlid, const PathQuery& path_query);

/// Calls visit(SLID, DLID) for the LID pairs of two ports until it returns false. Pairs that share
/// neither LID with an earlier one come first.
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

/// Get and GetTable of PathRecord. For a multicast DGID, returns the properties of the group.
void answer_path_records(const SaQuery& query, const SaGroups& groups, SaAnswer& answer);

/// GetMulti of MultiPathRecord: paths between each source and each destination.
void answer_multi_path_records(const SaQuery& query, SaAnswer& answer);

/// GetTraceTable: the nodes along a path given by both its ends.
void answer_trace_records(const SaQuery& query, SaAnswer& answer);

}  // namespace weft::subnet
