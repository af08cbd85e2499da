#include "fabric/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fabric/addresses.h"
#include "fabric/topology_check.h"

namespace weft::fabric {
namespace internal {
namespace {

bool is_digit(char character) { return character >= '0' && character <= '9'; }

bool is_name_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         is_digit(character) || character == '-' || character == '_' || character == '.';
}

}  // namespace

Result<void> check_name(std::string_view what, std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name.front() == '-' || name.front() == '.' ||
      !std::ranges::all_of(name, is_name_character)) {
    return fail(ErrorCode::InvalidArgument,
                "{} name '{}' will not do: 1 to {} letters, digits, '-', '_' or '.', the first a "
                "letter, digit or '_'",
                what, name, kMaxNameBytes);
  }
  return {};
}

}  // namespace internal

namespace {

using internal::check_name;

Result<void> check_port(const HostDescription& host, const HcaDescription& hca,
                        const HcaPortDescription& port) {
  if (port.lmc > kMaxLmc) {
    return fail(ErrorCode::InvalidArgument, "{}/{}: LMC {} is not in 0..{}", host.name, hca.name,
                port.lmc, kMaxLmc);
  }
  if (port.pkeys.empty() || port.pkeys.size() > kMaxPKeysPerPort) {
    return fail(ErrorCode::InvalidArgument, "{}/{}: {} P_Keys; a port has 1 to {}", host.name,
                hca.name, port.pkeys.size(), kMaxPKeysPerPort);
  }
  for (const PKey pkey : port.pkeys) {
    if (!pkey.is_valid()) {
      return fail(ErrorCode::InvalidArgument,
                  "{}/{}: P_Key {:#06x} names no partition: its low 15 bits are zero", host.name,
                  hca.name, pkey.value());
    }
  }
  return {};
}

Result<void> check_link_type(std::string_view node, LinkType type) {
  if (type == LinkType::InfiniBand || type == LinkType::OmniPath) {
    return {};
  }
  return fail(ErrorCode::NotSupported,
              "{} has links of type {}; nothing sends on those yet: \"{}\" and \"{}\" are possible",
              node, name_of(type), key_of(LinkType::InfiniBand), key_of(LinkType::OmniPath));
}

/// What an Omni-Path HCA has not got: it is no device of verbs, and its ports have one LID and the
/// MTU of their links.
Result<void> check_omni_path(const HostDescription& host, const HcaDescription& hca) {
  if (!hca.functions.empty()) {
    return fail(ErrorCode::NotSupported, "{}/{}: an Omni-Path HCA has no virtual functions",
                host.name, hca.name);
  }
  for (const HcaPortDescription& port : hca.ports) {
    if (port.lmc != 0 || port.max_mtu != HcaPortDescription{}.max_mtu) {
      return fail(ErrorCode::NotSupported,
                  "{}/{}: an Omni-Path port has one LID and an MTU of {}; leave lmc and mtu out",
                  host.name, hca.name, kOmniPathMtuBytes);
    }
  }
  return {};
}

Result<void> check_kind(const HostDescription& host, const HcaDescription& hca) {
  if (hca.link_type == LinkType::OmniPath) {
    return check_omni_path(host, hca);
  }
  return check_link_type(fmt::format("{}/{}", host.name, hca.name), hca.link_type);
}

Result<void> check_host(const HostDescription& host) {
  if (host.hcas.empty() || host.hcas.size() > kMaxHcasPerHost) {
    return fail(ErrorCode::InvalidArgument, "host {} has {} HCAs; 1 to {} are possible", host.name,
                host.hcas.size(), kMaxHcasPerHost);
  }
  std::unordered_set<std::string_view> names;
  for (const HcaDescription& hca : host.hcas) {
    if (auto checked = check_name("HCA", hca.name); !checked) {
      return checked;
    }
    if (!names.insert(hca.name).second) {
      return fail(ErrorCode::InvalidArgument, "host {} has two HCAs named {}", host.name, hca.name);
    }
    if (hca.ports.empty() || hca.ports.size() > kMaxPortsPerHca) {
      return fail(ErrorCode::InvalidArgument, "{}/{} has {} ports; an HCA has 1 to {}", host.name,
                  hca.name, hca.ports.size(), kMaxPortsPerHca);
    }
    for (const HcaPortDescription& port : hca.ports) {
      if (auto checked = check_port(host, hca, port); !checked) {
        return checked;
      }
    }
    if (auto checked = check_kind(host, hca); !checked) {
      return checked;
    }
  }
  return {};
}

/// Hosts of virtual functions are named like others.
Result<void> check_functions(const HostDescription& host,
                             std::unordered_set<std::string_view>& names) {
  std::size_t count = 0;
  for (const HcaDescription& hca : host.hcas) {
    for (const PlannedFunction& function : hca.functions) {
      const std::string& name = function.name;
      if (auto checked = check_name("host", name); !checked) {
        return checked;
      }
      if (!names.insert(name).second) {
        return fail(ErrorCode::InvalidArgument,
                    "two nodes are named {}, one of them a virtual function of {}/{}", name,
                    host.name, hca.name);
      }
    }
    count += hca.functions.size();
  }
  if (count > kMaxFunctionsPerHost) {
    return fail(ErrorCode::InvalidArgument,
                "host {} has {} virtual functions; at most {} are possible, of all HCAs together",
                host.name, count, kMaxFunctionsPerHost);
  }
  return {};
}

Result<void> check_nodes(const Topology& topology) {
  if (topology.hosts.empty()) {
    return fail(ErrorCode::InvalidArgument, "a fabric needs at least one host");
  }
  if (topology.hosts.size() > kMaxNodes || topology.switches.size() > kMaxNodes) {
    return fail(ErrorCode::InvalidArgument, "{} hosts and {} switches; at most {} of each",
                topology.hosts.size(), topology.switches.size(), kMaxNodes);
  }
  std::unordered_set<std::string_view> names;
  for (const HostDescription& host : topology.hosts) {
    if (auto checked = check_name("host", host.name); !checked) {
      return checked;
    }
    if (!names.insert(host.name).second) {
      return fail(ErrorCode::InvalidArgument, "two nodes are named {}", host.name);
    }
    if (auto checked = check_host(host); !checked) {
      return checked;
    }
  }
  for (const SwitchDescription& node : topology.switches) {
    if (auto checked = check_name("switch", node.name); !checked) {
      return checked;
    }
    if (!names.insert(node.name).second) {
      return fail(ErrorCode::InvalidArgument, "two nodes are named {}", node.name);
    }
    if (node.port_count == 0 || node.port_count > kMaxPortsPerSwitch) {
      return fail(ErrorCode::InvalidArgument, "switch {} has {} ports; 1 to {} are possible",
                  node.name, node.port_count, kMaxPortsPerSwitch);
    }
    if (auto checked = check_link_type(fmt::format("switch {}", node.name), node.link_type);
        !checked) {
      return checked;
    }
  }
  for (const HostDescription& host : topology.hosts) {
    if (auto checked = check_functions(host, names); !checked) {
      return checked;
    }
  }
  return {};
}

Result<void> check_end_point(const Topology& topology, const EndPoint& end) {
  std::size_t ports = 0;
  if (end.kind == NodeKind::Host) {
    if (end.node >= topology.hosts.size() || end.hca >= topology.hosts[end.node].hcas.size()) {
      return fail(ErrorCode::InvalidArgument, "a link ends at host {}, HCA {}, which do not exist",
                  end.node, end.hca);
    }
    ports = topology.hosts[end.node].hcas[end.hca].ports.size();
  } else {
    if (end.node >= topology.switches.size() || end.hca != 0) {
      return fail(ErrorCode::InvalidArgument, "a link ends at switch {}, which does not exist",
                  end.node);
    }
    ports = topology.switches[end.node].port_count;
  }
  if (end.port.value() == 0 || end.port.value() > ports) {
    return fail(ErrorCode::InvalidArgument, "a link ends at {}, but the ports there are 1..{}",
                to_string(topology, end), ports);
  }
  return {};
}

std::uint64_t key_of(const EndPoint& end) {
  return std::uint64_t{static_cast<std::uint8_t>(end.kind)} << 48 | std::uint64_t{end.node} << 16 |
         std::uint64_t{end.hca} << 8 | end.port.value();
}

/// A cable joins two ports of its own kind.
Result<void> check_ends(const Topology& topology, const LinkDescription& link) {
  const LinkType a = link_type_of(topology, link.a);
  const LinkType b = link_type_of(topology, link.b);
  if (a != b) {
    return fail(ErrorCode::InvalidArgument,
                "{} is a port of type {}, and {} of type {}: a link joins ports of one type; give "
                "both nodes link = \"{}\", or neither",
                to_string(topology, link.a), name_of(a), to_string(topology, link.b), name_of(b),
                key_of(a == LinkType::InfiniBand ? b : a));
  }
  if (link.type != a) {
    return fail(ErrorCode::InvalidArgument,
                "the link at {} is of type {}, and the ports that it joins are of type {}: an HCA "
                "or a switch has link = \"{}\" where its links have",
                to_string(topology, link.a), name_of(link.type), name_of(a), key_of(link.type));
  }
  return {};
}

Result<void> check_links(const Topology& topology) {
  constexpr double kMaxRateGbps = 4000;                 // policy: the tables hold Mb/s in 32 bits
  constexpr Duration kMaxDelay = Duration::seconds(1);  // policy
  std::unordered_set<std::uint64_t> used;
  for (const LinkDescription& link : topology.links) {
    for (const EndPoint& end : {link.a, link.b}) {
      if (auto checked = check_end_point(topology, end); !checked) {
        return checked;
      }
      if (!used.insert(key_of(end)).second) {
        return fail(ErrorCode::InvalidArgument, "{} has two cables", to_string(topology, end));
      }
    }
    if (auto checked = check_ends(topology, link); !checked) {
      return checked;
    }
    if (link.rate_gbps && !(*link.rate_gbps >= 0.001 && *link.rate_gbps <= kMaxRateGbps)) {
      return fail(ErrorCode::InvalidArgument,
                  "the link at {} has a rate of {} Gb/s; 0.001 to {} are possible",
                  to_string(topology, link.a), *link.rate_gbps, kMaxRateGbps);
    }
    if (link.delay < Duration{} || link.delay > kMaxDelay) {
      return fail(ErrorCode::InvalidArgument,
                  "the link at {} has a delay of {} ns; 0 to 1,000,000,000 are possible",
                  to_string(topology, link.a), link.delay.nanoseconds());
    }
  }
  return {};
}

using PeerMap = std::unordered_map<std::uint64_t, std::pair<EndPoint, const LinkDescription*>>;

PeerMap map_peers(const Topology& topology) {
  PeerMap peers;
  peers.reserve(topology.links.size() * 2);
  for (const LinkDescription& link : topology.links) {
    peers.emplace(key_of(link.a), std::pair{link.b, &link});
    peers.emplace(key_of(link.b), std::pair{link.a, &link});
  }
  return peers;
}

void show_peer(std::string& text, const Topology& topology, const PeerMap& peers,
               const EndPoint& end) {
  const auto found = peers.find(key_of(end));
  if (found == peers.end()) {
    text += "no cable\n";
    return;
  }
  const auto& [peer, link] = found->second;
  text += to_string(topology, peer);
  if (link->rate_gbps) {
    fmt::format_to(std::back_inserter(text), ", {} Gb/s", *link->rate_gbps);
  }
  if (link->delay != Duration{}) {
    fmt::format_to(std::back_inserter(text), ", {} ns", link->delay.nanoseconds());
  }
  text += '\n';
}

/// Nothing for InfiniBand, which is the usual.
std::string kind_text(LinkType type) {
  return type == LinkType::InfiniBand ? std::string{} : fmt::format(" {}", name_of(type));
}

EndPoint end(std::uint32_t host, std::uint32_t hca, std::uint32_t port) {
  return {NodeKind::Host, host, static_cast<std::uint8_t>(hca),
          PortNumber{static_cast<std::uint8_t>(port)}};
}

void show_host(std::string& text, const Topology& topology, const PeerMap& peers,
               std::uint32_t position) {
  const auto out = std::back_inserter(text);
  const HostDescription& host = topology.hosts[position];
  fmt::format_to(out, "host {}\n", host.name);
  std::uint32_t port_of_host = 0;
  for (std::uint32_t hca = 0; hca < host.hcas.size(); ++hca) {
    fmt::format_to(out, "  {} node GUID {:#018x}{}", host.hcas[hca].name,
                   guid_of(topology, end(position, hca, 0)).value(),
                   kind_text(host.hcas[hca].link_type));
    if (!host.hcas[hca].functions.empty()) {
      text += " virtual functions";
      for (const PlannedFunction& function : host.hcas[hca].functions) {
        fmt::format_to(out, " {}", function.name);
      }
    }
    text += '\n';
    for (std::uint32_t port = 1; port <= host.hcas[hca].ports.size(); ++port) {
      const HcaPortDescription& description = host.hcas[hca].ports[port - 1];
      fmt::format_to(out, "    port {} GUID {:#018x}", port,
                     guid_of(topology, end(position, hca, port)).value());
      if (description.lmc != 0) {
        fmt::format_to(out, " LMC {}", description.lmc);
      }
      if (description.pkeys != std::vector{kDefaultPKey}) {
        text += " P_Key";
        for (const PKey pkey : description.pkeys) {
          fmt::format_to(out, " {:#06x}", pkey.value());
        }
      }
      for (const InterfaceAddress& address : addresses_of(topology, position, port_of_host++)) {
        if (!address.address.is_link_local()) {  // which follows from the GUID
          fmt::format_to(out, " {}", to_string(address.address));
        }
      }
      text += " -> ";
      show_peer(text, topology, peers, end(position, hca, port));
    }
  }
}

void show_switch(std::string& text, const Topology& topology, const PeerMap& peers,
                 std::uint32_t position) {
  const auto out = std::back_inserter(text);
  const SwitchDescription& node = topology.switches[position];
  fmt::format_to(out, "switch {} node GUID {:#018x}{}\n", node.name,
                 guid_of(topology, {NodeKind::Switch, position, 0, PortNumber{0}}).value(),
                 kind_text(node.link_type));
  for (std::uint32_t port = 1; port <= node.port_count; ++port) {
    fmt::format_to(out, "    port {} -> ", port);
    show_peer(text, topology, peers,
              {NodeKind::Switch, position, 0, PortNumber{static_cast<std::uint8_t>(port)}});
  }
}

}  // namespace

HostDescription make_host(std::string name, std::uint32_t hca_count, std::uint32_t ports_per_hca) {
  HostDescription host;
  host.name = std::move(name);
  for (std::uint32_t hca = 0; hca < hca_count; ++hca) {
    HcaDescription& description = host.hcas.emplace_back();
    description.name = fmt::format("weft{}", hca);
    description.ports.resize(ports_per_hca);
  }
  return host;
}

Result<void> validate(const Topology& topology) {
  if (topology.subnet_prefix >> 56 == 0xFF) {
    return fail(ErrorCode::InvalidArgument, "subnet prefix {:#018x} is that of a multicast GID",
                topology.subnet_prefix);
  }
  if (auto checked = check_nodes(topology); !checked) {
    return checked;
  }
  if (auto checked = internal::check_guids(topology); !checked) {
    return checked;
  }
  if (auto checked = internal::check_addresses(topology); !checked) {
    return checked;
  }
  if (auto checked = check_links(topology); !checked) {
    return checked;
  }
  return internal::check_faults(topology);
}

LinkType link_type_of(const Topology& topology, const EndPoint& end_point) {
  return end_point.kind == NodeKind::Switch
             ? topology.switches[end_point.node].link_type
             : topology.hosts[end_point.node].hcas[end_point.hca].link_type;
}

void set_link_type(Topology& topology, LinkType type) {
  for (HostDescription& host : topology.hosts) {
    for (HcaDescription& hca : host.hcas) {
      hca.link_type = type;
    }
  }
  for (SwitchDescription& node : topology.switches) {
    node.link_type = type;
  }
  for (LinkDescription& link : topology.links) {
    link.type = type;
  }
}

std::string to_string(const Topology& topology, const EndPoint& end_point) {
  if (end_point.kind == NodeKind::Switch) {
    return fmt::format("{}:{}", topology.switches[end_point.node].name, end_point.port.value());
  }
  const HostDescription& host = topology.hosts[end_point.node];
  if (end_point.hca == 0) {
    return fmt::format("{}:{}", host.name, end_point.port.value());
  }
  return fmt::format("{}/{}:{}", host.name, host.hcas[end_point.hca].name, end_point.port.value());
}

std::string show(const Topology& topology) {
  std::string text = fmt::format("{} hosts, {} switches, {} links, subnet prefix {:#018x}\n",
                                 topology.hosts.size(), topology.switches.size(),
                                 topology.links.size(), topology.subnet_prefix);
  if (topology.time_scale != TimeScale{}) {
    fmt::format_to(std::back_inserter(text), "timeouts times {}\n", topology.time_scale.factor());
  }
  const PeerMap peers = map_peers(topology);
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    show_host(text, topology, peers, host);
  }
  for (std::uint32_t node = 0; node < topology.switches.size(); ++node) {
    show_switch(text, topology, peers, node);
  }
  for (const FaultDescription& fault : topology.faults) {
    fmt::format_to(std::back_inserter(text), "fault {}\n", to_string(fault));
  }
  return text;
}

}  // namespace weft::fabric
