#include "programs/net/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wire/address_text.h"
#include "wire/layout.h"

namespace weft::programs::net {
namespace {

[[nodiscard]] std::string_view mode_text(ipoib::ConnectedMode mode) {
  switch (mode) {
    case ipoib::ConnectedMode::None:
      return "datagram";
    case ipoib::ConnectedMode::Reliable:
      return "connected";
    case ipoib::ConnectedMode::Unreliable:
      return "unreliable connected";
    case ipoib::ConnectedMode::Both:
      return "reliable and unreliable connected";
  }
  return "";
}

}  // namespace

std::string link_address_text(const wire::IpoibHardwareAddress& hardware) {
  return wire::hex_text(wire::pack(hardware), ":");
}

std::string show_addresses(const InterfaceView& view, bool is_json) {
  std::vector<std::string> addresses;
  for (const InterfaceAddress& address : view.addresses) {
    addresses.push_back(to_string(address));
  }
  const std::string link = link_address_text(view.hardware);
  const std::string group = wire::address_text(view.broadcast.octets());
  const std::string client = wire::hex_text(view.client_identifier, ":");
  const std::string qkey = view.qkey ? fmt::format("{:#010x}", view.qkey->value()) : "";
  if (is_json) {
    std::string quoted;
    for (const std::string& address : addresses) {
      quoted += fmt::format("{}\"{}\"", quoted.empty() ? "" : ", ", address);
    }
    return fmt::format(
        R"({{"interface": "{}", "up": {}, "ports": [{}], "active_port": {}, )"
        R"("mtu": {}, "mode": "{}", "link_address": "{}", )"
        R"("pkey": {}, "group": "{}", "qkey": "{}", "dhcp_client_identifier": "{}", )"
        R"("addresses": [{}]}})"
        "\n",
        view.name, view.is_up, fmt::join(view.ports, ", "), view.active_port, view.mtu,
        mode_text(view.mode), link, view.pkey.value(), group, qkey, client, quoted);
  }
  std::string text = fmt::format("{}: {}, mtu {}, {} mode\n  link address {}\n  P_Key {:#06x}, ",
                                 view.name, view.is_up ? "up" : "down", view.mtu,
                                 mode_text(view.mode), link, view.pkey.value());
  if (view.ports.size() > 1) {
    text.insert(text.find('\n') + 1, fmt::format("  ports {}, of which {} carries it\n",
                                                 fmt::join(view.ports, " and "), view.active_port));
  }
  text += view.broadcast.is_zero() ? std::string{"no member of the broadcast group\n"}
                                   : fmt::format("broadcast group {} with Q_Key {}\n", group, qkey);
  text += fmt::format("  DHCP client identifier {}\n", client);
  for (const std::string& address : addresses) {
    text += fmt::format("  {} {}\n", address.contains(':') ? "inet6" : "inet", address);
  }
  return text;
}

std::string show_neighbors(std::span<const sa::NeighborTable::Entry> neighbors, bool is_json) {
  std::string text;
  for (const auto& [address, hardware, left] : neighbors) {
    const std::string link = hardware ? link_address_text(*hardware) : "";
    const std::int64_t seconds = left.nanoseconds() / 1'000'000'000;
    if (is_json) {
      text += fmt::format(R"({}{{"address": "{}", "link_address": "{}", "seconds_left": {}}})",
                          text.empty() ? "" : ", ", to_string(address), link, seconds);
    } else if (hardware) {
      text += fmt::format("{} link address {} for {} s more\n", to_string(address), link, seconds);
    } else {
      text += fmt::format("{} is being asked for\n", to_string(address));
    }
  }
  return is_json ? "[" + text + "]\n" : text;
}

std::string show_counts(std::span<const NamedCount> counts, bool is_json) {
  std::string text;
  for (const NamedCount& count : counts) {
    text += is_json ? fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", count.name, count.count)
                    : fmt::format("{:<28}{:>14}\n", count.name, count.count);
  }
  return is_json ? "{" + text + "}\n" : text;
}

}  // namespace weft::programs::net
