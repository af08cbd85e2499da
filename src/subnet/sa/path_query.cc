#include "subnet/sa/path_query.h"

namespace weft::subnet {

EndName source_name(const SaQuery& query, const wire::PathRecord& wanted) {
  EndName name;
  if (query.has<wire::PathRecord, "SGID">()) {
    name.gid = wanted.sgid;
  }
  if (query.has<wire::PathRecord, "SLID">()) {
    name.lid = wanted.slid;
  }
  return name;
}

EndName destination_name(const SaQuery& query, const wire::PathRecord& wanted) {
  EndName name;
  if (query.has<wire::PathRecord, "DGID">()) {
    name.gid = wanted.dgid;
  }
  if (query.has<wire::PathRecord, "DLID">()) {
    name.lid = wanted.dlid;
  }
  return name;
}

std::vector<PathEnd> find_ends(const SaQuery& query, const EndName& name, SaAnswer& answer) {
  const Subnet& subnet = query.subnet();
  std::vector<PathEnd> ends;
  if (!name.gid && !name.lid) {
    query.for_each_end_port(std::nullopt, answer, [&](PortId port) {
      ends.push_back({.port = port, .gid = subnet.gid_of(port), .lid = std::nullopt});
    });
    return ends;
  }
  const bool is_of_this_subnet = !name.gid || name.gid->prefix() == subnet.subnet_prefix ||
                                 name.gid->prefix() == kDefaultGidPrefix;
  if (!is_of_this_subnet || (name.gid && name.gid->interface_id() == Guid{})) {
    // also for multicast GIDs, which start with ff
    answer.refuse(wire::SaStatus::RequestInvalidGid);
    return ends;
  }
  const auto by_gid = name.gid ? query.directory.find_gid(subnet, *name.gid) : std::nullopt;
  const auto by_lid = name.lid ? subnet.find_lid(*name.lid) : std::nullopt;
  if ((name.gid && !by_gid) || (name.lid && !by_lid)) {
    return ends;  // unknown LID or GID: no records
  }
  if (by_gid && by_lid && *by_gid != *by_lid) {
    answer.refuse(wire::SaStatus::RequestInvalid);
    return ends;
  }
  const PortId port = by_gid ? *by_gid : *by_lid;
  if (query.can_see(port)) {
    ends.push_back({.port = port, .gid = name.gid.value_or(subnet.gid_of(port)), .lid = name.lid});
  }
  return ends;
}

}  // namespace weft::subnet
