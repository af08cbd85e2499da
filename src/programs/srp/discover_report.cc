#include "programs/srp/discover_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "wire/address_text.h"

namespace weft::programs::srp {
namespace {

using Json = nlohmann::ordered_json;
using weft::srp::FoundController;
using weft::srp::FoundTarget;
using weft::srp::ReadAttribute;

/// Of another machine: nothing that a terminal obeys.
[[nodiscard]] std::string printable(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

[[nodiscard]] std::size_t controllers_in(const wire::IoUnitInfo& unit) {
  return static_cast<std::size_t>(std::ranges::count(unit.controller_list, wire::IocSlot::Present));
}

void print_controller(std::string& text, const FoundPort& found,
                      const FoundController& controller) {
  const wire::IoControllerProfile& profile = controller.profile;
  text += fmt::format("  controller {:016x} in slot {}: {}\n", profile.ioc_guid.value(),
                      controller.slot, printable(weft::srp::text_of(profile.id_string)));
  text += fmt::format(
      "    vendor {:#08x}, device {}, version {}; class {:#06x}, subclass {:#06x}, protocol "
      "{:#06x} "
      "version {}\n",
      profile.vendor_id, profile.device_id, profile.device_version, profile.io_class,
      profile.io_subclass, profile.protocol, profile.protocol_version);
  text += fmt::format(
      "    messages of {} octets, {} at a time; transfers of {} octets, {} READs at "
      "a time\n",
      profile.send_message_size, profile.send_message_depth, profile.rdma_transfer_size,
      profile.rdma_read_depth);
  for (const wire::IocServiceEntry& service : controller.services) {
    text += fmt::format("    service {}, ID {:016x}\n", printable(weft::srp::text_of(service.name)),
                        service.service_id);
  }
  for (const FoundTarget& target : found.discovery.targets()) {
    if (target.ioc_guid == profile.ioc_guid) {
      text += fmt::format("    {}\n", connect_string(target, found.port.gid, found.pkey));
    }
  }
}

[[nodiscard]] Json json_of(const FoundController& controller) {
  const wire::IoControllerProfile& profile = controller.profile;
  Json services = Json::array();
  for (const wire::IocServiceEntry& service : controller.services) {
    services.push_back({
        {"name", printable(weft::srp::text_of(service.name))},
        {"service_id", fmt::format("{:016x}", service.service_id)}
    });
  }
  return {
      {"slot", controller.slot},
      {"ioc_guid", fmt::format("{:016x}", profile.ioc_guid.value())},
      {"id_string", printable(weft::srp::text_of(profile.id_string))},
      {"vendor_id", profile.vendor_id},
      {"device_id", profile.device_id},
      {"device_version", profile.device_version},
      {"io_class", profile.io_class},
      {"io_subclass", profile.io_subclass},
      {"protocol", profile.protocol},
      {"protocol_version", profile.protocol_version},
      {"send_message_depth", profile.send_message_depth},
      {"send_message_size", profile.send_message_size},
      {"rdma_read_depth", profile.rdma_read_depth},
      {"rdma_transfer_size", profile.rdma_transfer_size},
      {"services", std::move(services)}
  };
}

[[nodiscard]] Json json_of(const FoundPort& found) {
  Json controllers = Json::array();
  for (const FoundController& controller : found.discovery.controllers()) {
    controllers.push_back(json_of(controller));
  }
  Json targets = Json::array();
  for (const FoundTarget& target : found.discovery.targets()) {
    targets.push_back(connect_string(target, found.port.gid, found.pkey));
  }
  Json attributes = Json::array();
  for (const ReadAttribute& read : found.discovery.attributes()) {
    attributes.push_back({
        {"attribute", read.attribute           },
        {"modifier",  read.modifier            },
        {"octets",    wire::hex_text(read.data)}
    });
  }
  Json port = {
      {"gid", wire::address_text(found.port.gid.octets())},
      {"lid", found.port.lid.value()},
      {"node", printable(found.port.node)},
      {"pkey", fmt::format("{:04x}", found.pkey.value())}
  };
  if (const auto& unit = found.discovery.unit()) {
    port["change_id"] = unit->change_id;
    port["slots"] = unit->max_controllers;
  }
  port["controllers"] = std::move(controllers);
  port["targets"] = std::move(targets);
  port["attributes"] = std::move(attributes);
  if (!found.failure.empty()) {
    port["failure"] = found.failure;
  }
  return port;
}

}  // namespace

std::vector<std::string> connect_strings(const std::vector<FoundPort>& ports) {
  std::vector<std::string> lines;
  for (const FoundPort& found : ports) {
    for (const FoundTarget& target : found.discovery.targets()) {
      lines.push_back(connect_string(target, found.port.gid, found.pkey));
    }
  }
  return lines;
}

std::string discovery_text(const std::vector<FoundPort>& ports) {
  std::string text;
  for (const FoundPort& found : ports) {
    text += fmt::format("port {}, LID {}, of {}\n", wire::address_text(found.port.gid.octets()),
                        found.port.lid.value(), printable(found.port.node));
    if (const auto& unit = found.discovery.unit()) {
      text += fmt::format("  I/O unit: change {}, {} controllers in {} slots\n", unit->change_id,
                          controllers_in(*unit), unit->max_controllers);
    }
    for (const FoundController& controller : found.discovery.controllers()) {
      print_controller(text, found, controller);
    }
    if (!found.failure.empty()) {
      text += fmt::format("  not read: {}\n", found.failure);
    }
  }
  return text.empty() ? "no port of this subnet says that it has I/O controllers\n" : text;
}

std::string discovery_json(const std::vector<FoundPort>& ports) {
  Json all = Json::array();
  for (const FoundPort& found : ports) {
    all.push_back(json_of(found));
  }
  return all.dump(1) + "\n";
}

std::vector<std::string> changes_of(const std::vector<std::string>& before,
                                    const std::vector<std::string>& now) {
  std::vector<std::string> changes;
  const auto add = [&](char sign, const std::vector<std::string>& lines,
                       const std::vector<std::string>& without) {
    for (const std::string& line : lines) {
      if (std::ranges::find(without, line) == without.end()) {
        changes.push_back(fmt::format("{} {}", sign, line));
      }
    }
  };
  add('-', before, now);
  add('+', now, before);
  return changes;
}

}  // namespace weft::programs::srp
