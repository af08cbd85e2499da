#include "daemon/function_report.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/virtual_ports.h"
#include "sriov/multiplexer.h"
#include "verbs/port_policy.h"
#include "verbs/port_state.h"
#include "wire/address_text.h"

namespace weft::daemon {
namespace {

using fabric::PortIndex;
using nlohmann::json;
using sriov::FunctionId;

constexpr std::array kActions{sriov::Action::SendToWire, sriov::Action::Deliver,
                              sriov::Action::Answer, sriov::Action::Discard, sriov::Action::Drop};

[[nodiscard]] std::string hex(std::uint64_t value, int digits) {
  return fmt::format("{:#0{}x}", value, digits + 2);
}

[[nodiscard]] std::string_view host_of(const fabric::TablesView& view, PortIndex port) {
  return view.name(view.node(view.port(port).node));
}

/// The ports of a physical port's functions by their numbers; 0 is the port itself.
[[nodiscard]] std::map<FunctionId, PortIndex> functions_at(const node::SharedPorts& shared,
                                                           PortIndex physical) {
  std::map<FunctionId, PortIndex> functions{
      {sriov::kPhysicalFunction, physical}
  };
  for (const PortIndex port : shared.functions_of(physical)) {
    functions.emplace(shared.function_at(port)->number, port);
  }
  return functions;
}

[[nodiscard]] json sums_json(const sriov::DecisionCounters& counters, FunctionId function) {
  json sums;
  for (const sriov::Action action : kActions) {
    sums[std::string{sriov::name_of(action)}] = counters.of(function, action);
  }
  return sums;
}

[[nodiscard]] json counters_json_of(const sriov::DecisionCounters& counters, FunctionId function) {
  json list = json::array();
  for (const auto& each : counters.all_of(function)) {
    list.push_back({
        {"action", sriov::name_of(sriov::action_of(each.reason))},
        {"reason", sriov::text_of(each.reason)                  },
        {"count",  each.count                                   }
    });
  }
  return list;
}

/// Of its programs' QPs, not MADs.
[[nodiscard]] json dropped_json(const HostUse& use) {
  json list = json::array();
  if (use.packets_on_vl15 != 0) {
    list.push_back({
        {"reason", sriov::text_of(sriov::Reason::VirtualLane15)},
        {"count",  use.packets_on_vl15                         }
    });
  }
  return list;
}

[[nodiscard]] json groups_json(const sriov::GroupProxy& groups, FunctionId function) {
  json list = json::array();
  for (const wire::McMemberRecord& record : groups.memberships_of(function)) {
    list.push_back({
        {"mgid",       wire::address_text(record.mgid.octets())},
        {"mlid",       record.mlid.value()                     },
        {"join_state", record.join_state.bits()                }
    });
  }
  return list;
}

/// P_Keys by the function's own indexes, with where each is in the port's table.
[[nodiscard]] json pkeys_json(const std::vector<PKey>& own,
                              const std::vector<std::uint16_t>& physical) {
  json list = json::array();
  for (std::size_t i = 0; i < own.size() && i < physical.size(); ++i) {
    list.push_back({
        {"index", i},
        {"physical", physical[i]},
        {"pkey", hex(own[i].value(), 4)}
    });
  }
  return list;
}

/// What only a virtual function has.
void add_virtual(json& entry, const fabric::TablesView& view, const node::SharedPorts& shared,
                 PortIndex physical, PortIndex port) {
  const sriov::Multiplexer& mux = shared.shared_port(physical).multiplexer();
  const FunctionId function = shared.function_at(port)->number;
  const fabric::PortRecord& record = view.port(port);
  const fabric::FunctionDescription& description = shared.description_of(port);
  const auto gid = mux.gid_of(function);
  entry["state"] = verbs::name_of(record.state);
  entry["lid"] = record.lid.value();
  entry["guid"] = hex(record.guid.value(), 16);
  entry["node_guid"] = hex(view.hca(record.hca).guid.value(), 16);
  entry["policy"] = verbs::name_of(description.policy);
  entry["trusted"] = description.is_trusted;
  entry["guid_state"] = sriov::name_of(mux.alias_guids().state(function));
  entry["gid"] = gid ? json(wire::address_text(gid->octets())) : json{};
  entry["pkeys"] = pkeys_json(mux.pkeys_of(function), description.pkeys);
  entry["quotas"] = {
      {"mads_per_second", description.quotas.mads_per_second},
      {"groups",          description.quotas.groups         }
  };
  entry["most_groups"] = mux.groups().limit_of(function);
  entry["groups"] = groups_json(mux.groups(), function);
}

}  // namespace

std::string functions_json(const fabric::TablesView& view, const node::SharedPorts& shared,
                           const std::map<fabric::NodeIndex, HostUse>& use) {
  json list = json::array();
  for (const PortIndex physical : shared.physical_ports()) {
    const sriov::Multiplexer& mux = shared.shared_port(physical).multiplexer();
    json functions = json::array();
    for (const auto& [number, port] : functions_at(shared, physical)) {
      const auto found = use.find(view.port(port).node);
      const HostUse has = found == use.end() ? HostUse{} : found->second;
      json entry{
          {"number", number.value()},
          {"host", host_of(view, port)},
          {"programs", has.programs},
          {"qps", has.qps},
          {"connections", mux.communication_ids().count_of(number)},
          {"mads", sums_json(mux.counters(), number)},
          {"counters", counters_json_of(mux.counters(), number)},
          {"dropped_packets", dropped_json(has)}
      };
      if (number != sriov::kPhysicalFunction) {
        entry["most_programs"] = fabric::kMostProgramsOfFunction;
        add_virtual(entry, view, shared, physical, port);
      }
      functions.push_back(std::move(entry));
    }
    json pkeys = json::array();
    for (const PKey pkey : view.pkeys(view.port(physical))) {
      pkeys.push_back(hex(pkey.value(), 4));
    }
    list.push_back({
        {"port", fabric::port_name(view, physical)},
        {"lid", view.port(physical).lid.value()},
        {"pkeys", std::move(pkeys)},
        {"functions", std::move(functions)}
    });
  }
  return list.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string decisions_json(const fabric::TablesView& view, const node::SharedPorts& shared,
                           Instant now) {
  json list = json::array();
  for (const PortIndex physical : shared.physical_ports()) {
    const auto functions = functions_at(shared, physical);
    for (const auto& [at, decision] :
         shared.shared_port(physical).multiplexer().decisions().entries()) {
      const auto function = functions.find(decision.function);
      list.push_back({
          {"port", fabric::port_name(view, physical)},
          {"function", decision.function.value()},
          {"host", function == functions.end() ? json{} : json(host_of(view, function->second))},
          {"microseconds_ago", (now - at).nanoseconds() / 1'000},
          {"is_outbound", decision.is_outbound},
          {"action", sriov::name_of(decision.action())},
          {"reason", sriov::text_of(decision.reason)},
          {"transaction_id", hex(decision.before.transaction_id, 16)},
          {"transaction_id_after", hex(decision.after.transaction_id, 16)},
          {"text", to_string(decision)}
      });
    }
  }
  return list.dump(-1, ' ', true, json::error_handler_t::replace);
}

json shared_ports_json(const fabric::TablesView& view, const node::SharedPorts& shared) {
  json list = json::array();
  for (const PortIndex physical : shared.physical_ports()) {
    const sriov::DecisionCounters& counters = shared.shared_port(physical).multiplexer().counters();
    std::map<sriov::Action, std::uint64_t> sums;
    json names = json::array();
    for (const auto& [number, port] : functions_at(shared, physical)) {
      for (const sriov::Action action : kActions) {
        sums[action] += counters.of(number, action);
      }
      if (number != sriov::kPhysicalFunction) {
        names.push_back(host_of(view, port));
      }
    }
    json mads;
    for (const auto& [action, count] : sums) {
      mads[std::string{sriov::name_of(action)}] = count;
    }
    list.push_back({
        {"port", fabric::port_name(view, physical)},
        {"functions", std::move(names)},
        {"mads", std::move(mads)}
    });
  }
  return list;
}

}  // namespace weft::daemon
