// Writes the form that topology_toml.cc describes, omitting defaults.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/topology.h"

namespace weft::fabric {
namespace {

void write_guid(std::string& text, const std::optional<Guid>& guid) {
  if (guid) {
    fmt::format_to(std::back_inserter(text), "guid = \"{:#018x}\"\n", guid->value());
  }
}

void write_link_type(std::string& text, LinkType type) {
  if (type != LinkType::InfiniBand) {
    fmt::format_to(std::back_inserter(text), "link = \"{}\"\n", key_of(type));
  }
}

void write_addresses(std::string& text, const std::vector<InterfaceAddress>& addresses) {
  std::vector<std::string> texts;
  for (const InterfaceAddress& address : addresses) {
    texts.push_back(to_string(address));
  }
  if (!texts.empty()) {
    fmt::format_to(std::back_inserter(text), "addresses = [\"{}\"]\n", fmt::join(texts, "\", \""));
  }
}

[[nodiscard]] std::string list_of(std::span<const PKey> pkeys) {
  std::vector<std::string> keys;
  for (const PKey pkey : pkeys) {
    keys.push_back(fmt::format("{:#06x}", pkey.value()));
  }
  return fmt::format("[{}]", fmt::join(keys, ", "));
}

void write_port(std::string& text, const HcaPortDescription& port) {
  const auto out = std::back_inserter(text);
  const HcaPortDescription usual;
  text += "[[host.hca.port]]\n";
  write_guid(text, port.guid);
  if (port.lmc != usual.lmc) {
    fmt::format_to(out, "lmc = {}\n", port.lmc);
  }
  if (port.max_mtu != usual.max_mtu) {
    fmt::format_to(out, "mtu = {}\n", bytes(port.max_mtu));
  }
  if (port.pkeys != usual.pkeys) {
    fmt::format_to(out, "pkeys = {}\n", list_of(port.pkeys));
  }
  write_addresses(text, port.addresses);
}

void write_functions(std::string& text, std::span<const PlannedFunction> functions) {
  const auto out = std::back_inserter(text);
  std::string_view before = "vfs = [";
  for (const PlannedFunction& function : functions) {
    text += std::exchange(before, ", ");
    if (function == PlannedFunction{.name = function.name}) {
      fmt::format_to(out, "\"{}\"", function.name);
      continue;
    }
    fmt::format_to(out, "{{ name = \"{}\"", function.name);
    if (!function.pkeys.empty()) {
      fmt::format_to(out, ", pkeys = {}", list_of(function.pkeys));
    }
    fmt::format_to(out, ", mads = {}, groups = {}{} }}", function.quotas.mads_per_second,
                   function.quotas.groups, function.is_trusted ? ", trust = true" : "");
  }
  text += functions.empty() ? "" : "]\n";
}

void write_host(std::string& text, const HostDescription& host) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "\n[[host]]\nname = \"{}\"\n", host.name);
  write_addresses(text, host.addresses);
  if (host.hcas == make_host(host.name).hcas) {
    return;
  }
  for (const HcaDescription& hca : host.hcas) {
    fmt::format_to(out, "[[host.hca]]\nname = \"{}\"\n", hca.name);
    write_guid(text, hca.guid);
    write_link_type(text, hca.link_type);
    write_functions(text, hca.functions);
    if (std::ranges::all_of(hca.ports,
                            [](const auto& port) { return port == HcaPortDescription{}; })) {
      fmt::format_to(out, "ports = {}\n", hca.ports.size());
      continue;
    }
    for (const HcaPortDescription& port : hca.ports) {
      write_port(text, port);
    }
  }
}

}  // namespace

std::string write_topology(const Topology& topology) {
  std::string text = fmt::format("subnet_prefix = \"{:#018x}\"\n", topology.subnet_prefix);
  const auto out = std::back_inserter(text);
  if (topology.time_scale != TimeScale{}) {
    fmt::format_to(out, "time_scale = {}\n", topology.time_scale.factor());
  }
  if (!topology.faults.empty()) {
    text += "faults = [\n";
    for (const FaultDescription& fault : topology.faults) {
      fmt::format_to(out, "  \"{}\",\n", to_string(fault));
    }
    text += "]\n";
  }
  for (const HostDescription& host : topology.hosts) {
    write_host(text, host);
  }
  for (const SwitchDescription& node : topology.switches) {
    fmt::format_to(out, "\n[[switch]]\nname = \"{}\"\nports = {}\n", node.name, node.port_count);
    write_guid(text, node.guid);
    write_link_type(text, node.link_type);
  }
  for (const LinkDescription& link : topology.links) {
    fmt::format_to(out, "\n[[link]]\na = \"{}\"\nb = \"{}\"\n", to_string(topology, link.a),
                   to_string(topology, link.b));
    if (link.rate_gbps) {
      fmt::format_to(out, "rate_gbps = {}\n", *link.rate_gbps);
    }
    if (link.delay != Duration{}) {
      fmt::format_to(out, "delay_ns = {}\n", link.delay.nanoseconds());
    }
    write_link_type(text, link.type);
  }
  return text;
}

}  // namespace weft::fabric
