#include "subnet/sa/path_records.h"

#include <span>
#include <vector>

#include "subnet/sa/path_query.h"
#include "wire/encodings.h"

namespace weft::subnet {

std::optional<wire::PathRecord> find_path(const SaQuery& query, const PathEnd& source,
                                          const PathEnd& destination, Lid slid, Lid dlid,
                                          const PathQuery& path_query) {
  const SaDirectory& directory = query.directory;
  const auto pkey =
      directory.shared_key(directory.kind_of(query.subnet(), source.port),
                           directory.kind_of(query.subnet(), destination.port), path_query.pkey);
  if (!pkey) {
    return std::nullopt;
  }
  const auto there = query.control.path(slid, dlid);
  if (!there || (path_query.sl && *path_query.sl != there->sl)) {
    return std::nullopt;
  }
  const auto back = query.control.path(dlid, slid);
  if (path_query.is_reversible && !back) {
    return std::nullopt;
  }
  // A reversible path has the properties that hold in both directions (§15.2.5.16).
  std::uint8_t mtu = static_cast<std::uint8_t>(there->mtu);
  RateCode rate = there->rate;
  if (back) {
    mtu = std::min(mtu, static_cast<std::uint8_t>(back->mtu));
    rate = slower_of(rate, back->rate);
  }
  const auto chosen_mtu = choose_mtu(mtu, path_query.mtu);
  const auto chosen_rate = choose_rate(rate, path_query.rate);
  const auto life_time = choose_life_time(there->packet_life_time, path_query.life_time);
  if (!chosen_mtu || !chosen_rate || !life_time) {
    return std::nullopt;
  }
  return wire::PathRecord{.dgid = destination.gid,
                          .sgid = source.gid,
                          .dlid = dlid,
                          .slid = slid,
                          .reversible = back.has_value(),
                          .pkey = *pkey,
                          .sl = there->sl,
                          .mtu_selector = wire::Selector::Exactly,
                          .mtu = *chosen_mtu,
                          .rate_selector = wire::Selector::Exactly,
                          .rate = *chosen_rate,
                          .packet_life_time_selector = wire::Selector::Exactly,
                          .packet_life_time = *life_time};
}

void add_paths(const SaQuery& query, const PathEnd& source, const PathEnd& destination,
               const PathRequest& request, SaAnswer& answer) {
  unsigned found = 0;
  for_each_lid_pair(
      query.subnet().port(source.port), source.lid, query.subnet().port(destination.port),
      destination.lid, [&](Lid slid, Lid dlid) {
        answer.charge();
        auto path = find_path(query, source, destination, slid, dlid, request.path_query);
        if (path) {
          path->set_service_id(request.service_id);
          path->flow_label = request.flow_label;
          path->tclass = request.tclass;
          path->qos_class = request.qos_class;
          answer.add(*path);
          ++found;
        }
        return found < request.path_query.path_count && !answer.is_over();
      });
}

void add_paths_between(const SaQuery& query, std::span<const PathEnd> sources,
                       std::span<const PathEnd> destinations, const PathRequest& request,
                       SaAnswer& answer) {
  if (!destinations.empty() && sources.size() > kPathPairLimit / destinations.size()) {
    return answer.refuse(wire::SaStatus::TooManyRecords);
  }
  for (const PathEnd& source : sources) {
    for (const PathEnd& destination : destinations) {
      add_paths(query, source, destination, request, answer);
      if (answer.is_over() || (request.is_single && answer.count() != 0)) {
        return;
      }
    }
  }
}

namespace {

using Record = wire::PathRecord;

/// A group has fixed properties, so a query that they do not satisfy has no answer.
void answer_multicast_path(const SaQuery& query, const wire::PathRecord& wanted,
                           const SaGroups& groups, SaAnswer& answer) {
  const SaGroup* const group = groups.find(wanted.dgid);
  const auto sources = find_ends(query, source_name(query, wanted), answer);
  if (answer.is_over() || group == nullptr || sources.size() != 1) {
    return;
  }
  const wire::McMemberRecord& has = group->properties;
  const PathQuery path_query = path_query_of<Record>(query, wanted);
  const PartitionKind kind = query.directory.kind_of(query.subnet(), sources[0].port);
  if (!query.directory.has_key(kind, has.pkey) ||
      (path_query.pkey && path_query.pkey->base() != has.pkey.base()) ||
      (path_query.sl && *path_query.sl != has.sl) || !mtu_satisfies(has.mtu, path_query.mtu) ||
      !rate_satisfies(has.rate, path_query.rate)) {
    return;
  }
  answer.add(wire::PathRecord{.dgid = has.mgid,
                              .sgid = sources[0].gid,
                              .dlid = has.mlid,
                              .slid = query.subnet().port(sources[0].port).info.lid,
                              .flow_label = has.flow_label,
                              .hop_limit = has.hop_limit,
                              .tclass = has.tclass,
                              .pkey = has.pkey,
                              .sl = has.sl,
                              .mtu_selector = wire::Selector::Exactly,
                              .mtu = has.mtu,
                              .rate_selector = wire::Selector::Exactly,
                              .rate = has.rate,
                              .packet_life_time_selector = wire::Selector::Exactly,
                              .packet_life_time = has.packet_life_time});
}

/// True if a Get identifies both ends; one record cannot stand for all paths (§15.2.4).
[[nodiscard]] bool has_required_components(const SaQuery& query) {
  const bool has_source = query.has<Record, "SGID">() || query.has<Record, "SLID">();
  const bool has_destination = query.has<Record, "DGID">() || query.has<Record, "DLID">();
  return query.method() != wire::MadMethod::Get || (has_source && has_destination);
}

}  // namespace

void answer_path_records(const SaQuery& query, const SaGroups& groups, SaAnswer& answer) {
  const auto wanted = query.record<Record>();
  if (query.has<Record, "ServiceID8MSB">() != query.has<Record, "ServiceID56LSB">() ||
      !has_required_components(query)) {
    return answer.refuse(wire::SaStatus::RequestInsufficientComponents);
  }
  if (!values_are_valid<Record>(query, wanted)) {
    return answer.refuse(wire::SaStatus::RequestInvalid);
  }
  if (query.has<Record, "RawTraffic">() && wanted.raw_traffic) {
    return;  // raw packets are not supported
  }
  if (query.has<Record, "DGID">() && wanted.dgid.is_multicast()) {
    return answer_multicast_path(query, wanted, groups, answer);
  }
  const auto sources = find_ends(query, source_name(query, wanted), answer);
  const auto destinations = find_ends(query, destination_name(query, wanted), answer);
  if (answer.is_over()) {
    return;
  }
  add_paths_between(query, sources, destinations, request_of<Record>(query, wanted), answer);
}

void answer_multi_path_records(const SaQuery& query, SaAnswer& answer) {
  using Multi = wire::MultiPathRecord;
  const auto wanted = query.record<Multi>();
  const std::size_t gids = std::size_t{wanted.sgid_count} + wanted.dgid_count;
  if (!query.has<Multi, "SGIDCount">() || !query.has<Multi, "DGIDCount">() ||
      wanted.sgid_count == 0 || wanted.dgid_count == 0 ||
      query.has<Multi, "ServiceID8MSB">() != query.has<Multi, "ServiceID56LSB">()) {
    return answer.refuse(wire::SaStatus::RequestInsufficientComponents);
  }
  if (query.data.size() < wire::kSizeOf<Multi> + gids * Gid::kSize ||
      !values_are_valid<Multi>(query, wanted)) {
    return answer.refuse(wire::SaStatus::RequestInvalid);
  }
  std::vector<PathEnd> sources;
  std::vector<PathEnd> destinations;
  for (std::size_t i = 0; i < gids; ++i) {
    std::array<std::byte, Gid::kSize> octets{};
    copy_bytes(octets, query.data.subspan(wire::kSizeOf<Multi> + i * Gid::kSize, Gid::kSize));
    std::vector<PathEnd>& ends = i < wanted.sgid_count ? sources : destinations;
    for (const PathEnd& end : find_ends(query, {.gid = Gid{octets}}, answer)) {
      ends.push_back(end);
    }
  }
  if (answer.is_over() || (query.has<Multi, "RawTraffic">() && wanted.raw_traffic)) {
    return;
  }
  add_paths_between(query, sources, destinations, request_of<Multi>(query, wanted), answer);
}

}  // namespace weft::subnet
