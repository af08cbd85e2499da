#include <optional>
#include <vector>

#include "subnet/sa/path_query.h"
#include "subnet/sa/path_records.h"
#include "wire/mad/trace_record.h"

namespace weft::subnet {
namespace {

[[nodiscard]] wire::TraceRecord record_of(const Subnet& subnet, NodeId id) {
  const SubnetNode& node = subnet.node(id);
  return {.gid_prefix = subnet.subnet_prefix,
          .node_type = node.info.node_type,
          .node_id = node.info.node_guid.value(),
          .chassis_id = node.info.system_image_guid.value()};
}

/// One record per node: ingress and egress of the path (§15.2.5.19).
[[nodiscard]] std::vector<wire::TraceRecord> trace(const Subnet& subnet, const PathFacts& path) {
  std::vector<wire::TraceRecord> records{record_of(subnet, path.source.node)};
  for (const RouteStep& step : path.steps) {
    const std::uint64_t guid = subnet.port(step.port).guid.value();
    if (step.is_egress) {
      records.back().exit_port = step.port.number;
      records.back().exit_port_id = guid;
    } else {
      records.push_back(record_of(subnet, step.port.node));
      records.back().entry_port = step.port.number;
      records.back().entry_port_id = guid;
    }
  }
  return records;
}

}  // namespace

void answer_trace_records(const SaQuery& query, SaAnswer& answer) {
  const auto wanted = query.record<wire::PathRecord>();
  const EndName from = source_name(query, wanted);
  const EndName to = destination_name(query, wanted);
  if ((!from.gid && !from.lid) || (!to.gid && !to.lid)) {
    return answer.refuse(wire::SaStatus::RequestInsufficientComponents);
  }
  const auto sources = find_ends(query, from, answer);
  const auto destinations = find_ends(query, to, answer);
  if (answer.is_over()) {
    return;
  }
  if (sources.empty() || destinations.empty()) {
    return answer.refuse(wire::SaStatus::NoRecords);
  }
  PathQuery path_query = path_query_of<wire::PathRecord>(query, wanted);
  path_query.path_count = 1;
  for_each_lid_pair(query.subnet().port(sources[0].port), sources[0].lid,
                    query.subnet().port(destinations[0].port), destinations[0].lid,
                    [&](Lid slid, Lid dlid) {
                      if (!find_path(query, sources[0], destinations[0], slid, dlid, path_query)) {
                        return true;
                      }
                      if (const auto path = query.control.path(slid, dlid)) {
                        for (const wire::TraceRecord& record : trace(query.subnet(), *path)) {
                          answer.add(record);
                        }
                      }
                      return false;
                    });
  if (answer.count() == 0 && !answer.is_over()) {
    answer.refuse(wire::SaStatus::NoRecords);
  }
}

}  // namespace weft::subnet
