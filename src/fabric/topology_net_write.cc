#include <fmt/format.h>

#include <iterator>
#include <string>
#include <unordered_map>

#include "fabric/topology_net.h"

namespace weft::fabric {
namespace {

/// The id of an end point's node. Unique, since names contain no slash.
std::string id_of(const Topology& topology, const EndPoint& end) {
  if (end.kind == NodeKind::Switch) {
    return topology.switches[end.node].name;
  }
  const HostDescription& host = topology.hosts[end.node];
  return end.hca == 0 ? host.name : fmt::format("{}/{}", host.name, host.hcas[end.hca].name);
}

/// The InfiniBand part of a topology: the form has no other links.
class NetWriter {
 public:
  explicit NetWriter(const Topology& topology) : topology_(topology) {
    for (const LinkDescription& link : topology.links) {
      peers_.emplace(to_string(topology, link.a), &link.b);
      peers_.emplace(to_string(topology, link.b), &link.a);
    }
  }

  std::string write() {
    for (std::uint32_t position = 0; position < topology_.switches.size(); ++position) {
      const SwitchDescription& node = topology_.switches[position];
      if (node.link_type != LinkType::InfiniBand) {
        continue;
      }
      write_node({NodeKind::Switch, position, 0, PortNumber{0}}, node.name, node.port_count);
    }
    for (std::uint32_t position = 0; position < topology_.hosts.size(); ++position) {
      const HostDescription& host = topology_.hosts[position];
      for (std::size_t hca = 0; hca < host.hcas.size(); ++hca) {
        if (host.hcas[hca].link_type != LinkType::InfiniBand) {
          continue;
        }
        write_node({NodeKind::Host, position, static_cast<std::uint8_t>(hca), PortNumber{0}},
                   fmt::format("{} {}", host.name, host.hcas[hca].name),
                   host.hcas[hca].ports.size());
      }
    }
    return std::move(text_);
  }

 private:
  void write_node(EndPoint end, const std::string& description, std::size_t ports) {
    const auto out = std::back_inserter(text_);
    const bool is_switch = end.kind == NodeKind::Switch;
    fmt::format_to(out, "{}{}={:#x}\n{}\t{} \"{}\"\t\t# \"{}\"\n", text_.empty() ? "" : "\n",
                   is_switch ? "switchguid" : "caguid", guid_of(topology_, end).value(),
                   is_switch ? "Switch" : "Ca", ports, id_of(topology_, end), description);
    for (std::size_t port = 1; port <= ports; ++port) {
      end.port = PortNumber{static_cast<std::uint8_t>(port)};
      if (const auto found = peers_.find(to_string(topology_, end)); found != peers_.end()) {
        write_port(end, *found->second);
      }
    }
  }

  void write_port(const EndPoint& end, const EndPoint& peer) {
    const auto out = std::back_inserter(text_);
    fmt::format_to(out, "[{}]", end.port.value());
    if (end.kind == NodeKind::Host) {
      fmt::format_to(out, "({:x})", guid_of(topology_, end).value());
    }
    fmt::format_to(out, "\t\"{}\"[{}]", id_of(topology_, peer), peer.port.value());
    if (peer.kind == NodeKind::Host) {
      fmt::format_to(out, "({:x})", guid_of(topology_, peer).value());
    }
    if (end.kind == NodeKind::Host) {
      const auto& port = topology_.hosts[end.node].hcas[end.hca].ports[end.port.value() - 1U];
      fmt::format_to(out, "\t\t# lmc {}", port.lmc);
    }
    text_ += '\n';
  }

  const Topology& topology_;
  std::unordered_map<std::string, const EndPoint*> peers_;
  std::string text_;
};

}  // namespace

std::string write_net(const Topology& topology) { return NetWriter{topology}.write(); }

}  // namespace weft::fabric
