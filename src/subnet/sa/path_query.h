#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "subnet/sa/path_records.h"
#include "subnet/sa/query.h"
#include "wire/mad/multi_path_record.h"
#include "wire/mad/path_record.h"

/// Interpretation of path queries, shared by sa_path_records.cc and sa_trace_records.cc.
namespace weft::subnet {

/// One end of a path as the query gives it: by GID, LID, both, or neither.
struct EndName {
  std::optional<Gid> gid{};
  std::optional<Lid> lid{};
};

[[nodiscard]] EndName source_name(const SaQuery& query, const wire::PathRecord& wanted);
[[nodiscard]] EndName destination_name(const SaQuery& query, const wire::PathRecord& wanted);

/// The ports matching an end, restricted to those visible to the requester. Refuses GIDs that no
/// port can have, and a GID and LID of different ports.
[[nodiscard]] std::vector<PathEnd> find_ends(const SaQuery& query, const EndName& name,
                                             SaAnswer& answer);

/// Constraints of a query, and the components copied to each returned path.
struct PathRequest {
  PathQuery path_query{};
  std::uint64_t service_id{};
  std::uint32_t flow_label{};
  std::uint8_t tclass{};
  std::uint16_t qos_class{};
  bool is_single{};  ///< Get: return only the first path
};

/// A selector applies only together with its value; without one of them any value matches.
template <wire::WireType T, wire::Name kSelector, wire::Name kValue>
[[nodiscard]] Constraint constraint_of(const SaQuery& query, wire::Selector selector,
                                       std::uint8_t value) {
  return query.has<T, kSelector>() && query.has<T, kValue>() ? Constraint{selector, value}
                                                             : Constraint{};
}

template <wire::WireType T>
[[nodiscard]] PathQuery path_query_of(const SaQuery& query, const T& wanted) {
  constexpr unsigned kMaxPaths = 127;  // NumbPath has 7 bits
  PathQuery path_query{
      .mtu = constraint_of<T, "MtuSelector", "Mtu">(query, wanted.mtu_selector, wanted.mtu),
      .rate = constraint_of<T, "RateSelector", "Rate">(query, wanted.rate_selector, wanted.rate),
      .life_time = constraint_of<T, "PacketLifeTimeSelector", "PacketLifeTime">(
          query, wanted.packet_life_time_selector, wanted.packet_life_time),
      .is_reversible = query.has<T, "Reversible">() && wanted.reversible};
  if (query.has<T, "P_Key">()) {
    path_query.pkey = wanted.pkey;
  }
  if (query.has<T, "SL">()) {
    path_query.sl = wanted.sl;
  }
  const bool is_single = query.method() == wire::MadMethod::Get;
  path_query.path_count = is_single                    ? 1
                          : query.has<T, "NumbPath">() ? std::max<unsigned>(wanted.path_count, 1)
                                                       : kMaxPaths;
  return path_query;
}

template <wire::WireType T>
[[nodiscard]] PathRequest request_of(const SaQuery& query, const T& wanted) {
  return {.path_query = path_query_of<T>(query, wanted),
          .service_id = query.has<T, "ServiceID56LSB">() ? wanted.service_id() : 0,
          .flow_label = query.has<T, "FlowLabel">() ? wanted.flow_label : 0,
          .tclass = query.has<T, "TClass">() ? wanted.tclass : std::uint8_t{},
          .qos_class = query.has<T, "QoSClass">() ? wanted.qos_class : std::uint16_t{},
          .is_single = query.method() == wire::MadMethod::Get};
}

/// True if the MTU and rate in the query are defined codes and the P_Key is valid.
template <wire::WireType T>
[[nodiscard]] bool values_are_valid(const SaQuery& query, const T& wanted) {
  const Constraint mtu =
      constraint_of<T, "MtuSelector", "Mtu">(query, wanted.mtu_selector, wanted.mtu);
  const Constraint rate =
      constraint_of<T, "RateSelector", "Rate">(query, wanted.rate_selector, wanted.rate);
  return (mtu.selector == wire::Selector::Best || is_mtu(mtu.value)) &&
         (rate.selector == wire::Selector::Best || is_rate(rate.value)) &&
         (!query.has<T, "P_Key">() || wanted.pkey.is_valid());
}

/// Adds the paths between two ends, or between all pairs of two lists.
void add_paths(const SaQuery& query, const PathEnd& source, const PathEnd& destination,
               const PathRequest& request, SaAnswer& answer);
void add_paths_between(const SaQuery& query, std::span<const PathEnd> sources,
                       std::span<const PathEnd> destinations, const PathRequest& request,
                       SaAnswer& answer);

}  // namespace weft::subnet
