// Queries of programs connected by ibsim's protocol about their port.

#include <algorithm>
#include <string>

#include "daemon/ibsim/server.h"
#include "wire/mad/node_info.h"
#include "wire/mad/port_info.h"

namespace weft::daemon {
namespace {

using fabric::NodeKind;
using fabric::PortIndex;

[[nodiscard]] std::string description_of(node::Fabric& fabric, PortIndex port) {
  std::string text;
  for (const std::byte letter : fabric.management().agents().node_description(port).text) {
    text += static_cast<char>(letter);
  }
  return text.substr(0, text.find('\0'));
}

/// Port `number` of the node of `own`, or `own` if there is no such port, as ibsim does.
[[nodiscard]] PortIndex port_of(const fabric::TablesBuilder& tables, PortIndex own,
                                std::uint8_t number) {
  const fabric::PortRecord& record = tables.port(own);
  const fabric::NodeRecord& node = tables.node(record.node);
  for (std::uint32_t i = 0; number != 0 && i < node.port_count; ++i) {
    const PortIndex each{node.first_port.value() + i};
    if (tables.port(each).hca == record.hca && tables.port(each).number.value() == number) {
      return each;
    }
  }
  return own;
}

void answer_pkeys(const fabric::TablesBuilder& tables, PortIndex port, IbsimControl& question) {
  std::array<std::uint16_t, 32> table{};
  const auto pkeys = tables.pkeys(port);
  for (std::size_t i = 0; i < std::min(pkeys.size(), table.size()); ++i) {
    table.at(i) = swapped(static_cast<std::uint16_t>(pkeys[i].value()));
  }
  set_data(question, table);
}

}  // namespace

Result<PortIndex> find_ibsim_port(node::Fabric& fabric, std::string_view name) {
  const fabric::TablesBuilder& tables = fabric.builder();
  if (name.empty()) {
    return tables.nodes().front().first_port;
  }
  for (const fabric::NodeRecord& node : tables.nodes()) {
    if (tables.name(node) == name) {
      return node.first_port;
    }
  }
  const auto guid = guid_in_ibsim_name(name);
  for (const fabric::HcaRecord& hca : tables.hcas()) {
    if (guid ? hca.guid == *guid : description_of(fabric, hca.first_port) == name) {
      return hca.first_port;
    }
  }
  for (const fabric::NodeRecord& node : tables.nodes()) {
    if (node.kind == NodeKind::Switch &&
        (guid ? node.guid == *guid : description_of(fabric, node.first_port) == name)) {
      return node.first_port;
    }
  }
  return fail(ErrorCode::NotFound, "no host or switch {} (SIM_HOST chooses)", name);
}

bool answer_ibsim_request(node::Fabric& fabric, PortIndex port, IbsimControl& question) {
  const agents::FabricAgents& agents = fabric.management().agents();
  const wire::NodeInfo node = agents.node_info(port);
  switch (question.question) {
    case IbsimRequest::Port: {
      const auto& record = fabric.builder().port(port);
      set_data(question, IbsimPort{.lid = static_cast<std::uint16_t>(record.lid.value()),
                                   .state = static_cast<std::uint8_t>(record.state)});
      return true;
    }
    case IbsimRequest::Vendor:
      set_data(question, IbsimVendor{.vendor = node.vendor_id,
                                     .device = node.device_id,
                                     .revision = node.revision,
                                     .firmware = 1});
      return true;
    case IbsimRequest::Gid:
      set_data(question, fabric.builder().gids(port).front().octets());
      return true;
    case IbsimRequest::Guid:
      set_data(question, swapped(node.node_guid.value()));
      return true;
    case IbsimRequest::NodeInfo:
      set_data(question, wire::pack(node));
      return true;
    case IbsimRequest::PortInfo: {
      const auto number = static_cast<std::uint8_t>(question.data.front());
      wire::PortInfo info = agents.port_info(port_of(fabric.builder(), port, number));
      info.mkey = {};  // only disclosed to the subnet manager
      set_data(question, wire::pack(info));
      return true;
    }
    case IbsimRequest::PKeys:
      answer_pkeys(fabric.builder(), port, question);
      return true;
    case IbsimRequest::Error:
    case IbsimRequest::Connect:
    case IbsimRequest::Disconnect:
    case IbsimRequest::IsSm:
      return false;
  }
  return false;
}

}  // namespace weft::daemon
