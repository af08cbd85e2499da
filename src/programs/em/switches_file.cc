#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// Version 3.3 asserts what it then checks and reports itself; "[&" would abort the program.
#define TOML_ASSERT(expr) static_assert(true)
#include "programs/em/switches_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "programs/vnic/announcement.h"

namespace weft::programs::em {

using opa_vnic::MacSource;
using opa_vnic::MemberConfig;
using opa_vnic::PriorityMap;
using opa_vnic::SwitchConfig;

namespace {

constexpr std::size_t kLongestFile = 1 << 20;  // policy
constexpr std::uint64_t kOuiOfOmniPath = 0x0011'7500'0000;
constexpr std::uint8_t kMostSc = 31;
constexpr std::uint8_t kMostVl = 31;

[[nodiscard]] Result<void> check_keys(const toml::table& table,
                                      std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : table) {
    if (std::ranges::find(known, key.str()) == known.end()) {
      return fail(ErrorCode::InvalidArgument, "line {}: unknown key '{}'",
                  value.source().begin.line, key.str());
    }
  }
  return {};
}

/// `otherwise` if there is no such key.
[[nodiscard]] Result<std::uint32_t> number(const toml::table& table, std::string_view key,
                                           std::uint32_t otherwise, std::uint32_t most) {
  const toml::node* const node = table.get(key);
  if (node == nullptr) {
    return otherwise;
  }
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < 0 || *value > most) {
    return fail(ErrorCode::InvalidArgument, "line {}: {} is a number from 0 to {}",
                node->source().begin.line, key, most);
  }
  return static_cast<std::uint32_t>(*value);
}

/// 00:11:75:00:00:01.
[[nodiscard]] std::optional<wire::MacAddress> parse_mac(std::string_view text) {
  constexpr std::size_t kLength = 17;
  std::uint64_t value = 0;
  if (text.size() != kLength) {
    return std::nullopt;
  }
  for (std::size_t at = 0; at < kLength; at += 3) {
    unsigned octet = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + at + 2, octet, 16);
    if (read.ec != std::errc{} || read.ptr != text.data() + at + 2 ||
        (at + 2 < kLength && text[at + 2] != ':')) {
      return std::nullopt;
    }
    value = value << 8 | octet;
  }
  return wire::MacAddress::from_number(value);
}

[[nodiscard]] Result<wire::MacAddress> mac_in(const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  const auto mac = text ? parse_mac(*text) : std::nullopt;
  if (!mac) {
    return fail(ErrorCode::InvalidArgument,
                "line {}: an address is written as \"00:11:75:00:00:01\" is",
                node.source().begin.line);
  }
  return *mac;
}

template <std::size_t kCount>
[[nodiscard]] Result<std::array<std::uint8_t, kCount>> octets(const toml::table& table,
                                                              std::string_view key,
                                                              std::uint8_t most) {
  std::array<std::uint8_t, kCount> values{};
  const toml::node* const node = table.get(key);
  if (node == nullptr) {
    return values;
  }
  const toml::array* const array = node->as_array();
  if (array == nullptr || array->size() != kCount) {
    return fail(ErrorCode::InvalidArgument, "line {}: {} is a list of {} numbers",
                node->source().begin.line, key, kCount);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto value = (*array)[i].value_exact<std::int64_t>();
    if (!value || *value < 0 || *value > most) {
      return fail(ErrorCode::InvalidArgument, "line {}: each of {} is from 0 to {}",
                  node->source().begin.line, key, most);
    }
    values[i] = static_cast<std::uint8_t>(*value);
  }
  return values;
}

/// `[switch.unicast]` and `[switch.multicast]`: by the priority of a VLAN tag, and without one.
[[nodiscard]] Result<PriorityMap> priorities(const toml::table& of, std::string_view key) {
  const toml::node* const node = of.get(key);
  if (node == nullptr) {
    return PriorityMap{};
  }
  const toml::table* const table = node->as_table();
  if (table == nullptr) {
    return fail(ErrorCode::InvalidArgument,
                "line {}: {} is a table with sc, vl, untagged-sc and "
                "untagged-vl",
                node->source().begin.line, key);
  }
  if (auto checked = check_keys(*table, {"sc", "vl", "untagged-sc", "untagged-vl"}); !checked) {
    return std::unexpected(checked.error());
  }
  const auto sc = octets<wire::kPriorities>(*table, "sc", kMostSc);
  const auto vl = octets<wire::kPriorities>(*table, "vl", kMostVl);
  const auto untagged_sc = number(*table, "untagged-sc", 0, kMostSc);
  const auto untagged_vl = number(*table, "untagged-vl", 0, kMostVl);
  for (const Error* const error : {sc ? nullptr : &sc.error(), vl ? nullptr : &vl.error(),
                                   untagged_sc ? nullptr : &untagged_sc.error(),
                                   untagged_vl ? nullptr : &untagged_vl.error()}) {
    if (error != nullptr) {
      return std::unexpected(*error);
    }
  }
  return PriorityMap{.sc = *sc,
                     .vl = *vl,
                     .untagged_sc = static_cast<std::uint8_t>(*untagged_sc),
                     .untagged_vl = static_cast<std::uint8_t>(*untagged_vl)};
}

/// Of the port at this place in its switch.
[[nodiscard]] Result<MemberConfig> parse_port(SwitchesFile& file, const toml::table& table,
                                              const SwitchConfig& of, std::size_t place) {
  if (auto checked = check_keys(table, {"host", "vport", "mac", "macs"}); !checked) {
    return std::unexpected(checked.error());
  }
  const auto host = table["host"].value<std::string>();
  if (!host || !vnic::is_host_name(*host)) {
    return fail(ErrorCode::InvalidArgument, "line {}: a port has a host, as host = \"h1\"",
                table.source().begin.line);
  }
  const auto vport = number(table, "vport", 0, opa_vnic::kMaxVportNumbers - 1);
  if (!vport) {
    return std::unexpected(vport.error());
  }
  const Guid guid = file.hosts.try_emplace(*host, guid_of_host(*host)).first->second;
  MemberConfig member{.port = guid,
                      .vport = static_cast<std::uint8_t>(*vport),
                      .mac = wire::MacAddress::from_number(
                          kOuiOfOmniPath | std::uint64_t{of.vesw_id} << 12 | (place + 1))};
  if (const toml::node* const mac = table.get("mac")) {
    const auto own = mac_in(*mac);
    if (!own) {
      return std::unexpected(own.error());
    }
    member.mac = *own;
  }
  if (const toml::node* const macs = table.get("macs")) {
    if (macs->as_array() == nullptr) {
      return fail(ErrorCode::InvalidArgument, "line {}: macs is a list of addresses",
                  macs->source().begin.line);
    }
    for (const toml::node& one : *macs->as_array()) {
      const auto mac = mac_in(one);
      if (!mac) {
        return std::unexpected(mac.error());
      }
      member.more_macs.push_back(*mac);
    }
  }
  return member;
}

[[nodiscard]] Result<void> parse_learning(SwitchConfig& one, const toml::table& table) {
  const std::string learning = table["learning"].value_or(std::string{"reported"});
  if (learning != "reported" && learning != "static") {
    return fail(ErrorCode::InvalidArgument, "line {}: learning is \"reported\" or \"static\"",
                table.get("learning")->source().begin.line);
  }
  one.mac_source = learning == "static" ? MacSource::Configured : MacSource::Reported;
  return {};
}

[[nodiscard]] Result<void> parse_numbers(SwitchConfig& one, const toml::table& table) {
  constexpr std::uint32_t kMost = 0xFFFF;
  const auto id = number(table, "id", 0, kMost);
  const auto fabric = number(table, "fabric", 0, kMost);
  const auto mtu = number(table, "mtu", opa_vnic::kDefaultEthMtu, kMost);
  const auto pkey = number(table, "pkey", kDefaultPKey.value(), kMost);
  const auto routing = number(table, "routing-control", 0, 0xFFFF'FFFF);
  for (const auto* const value : {&id, &fabric, &mtu, &pkey, &routing}) {
    if (!*value) {
      return std::unexpected(value->error());
    }
  }
  one.vesw_id = static_cast<std::uint16_t>(*id);
  one.fabric_id = static_cast<std::uint16_t>(*fabric);
  one.mtu = static_cast<std::uint16_t>(*mtu);
  one.pkey = PKey{static_cast<std::uint16_t>(*pkey)};
  one.routing_control = *routing;
  return {};
}

[[nodiscard]] Result<SwitchConfig> parse_switch(SwitchesFile& file, const toml::table& table) {
  if (auto checked =
          check_keys(table, {"name", "id", "fabric", "mtu", "pkey", "routing-control", "learning",
                             "filter-sources", "unicast", "multicast", "port"});
      !checked) {
    return std::unexpected(checked.error());
  }
  SwitchConfig one;
  one.name = table["name"].value_or(std::string{});
  if (!vnic::is_host_name(one.name)) {
    return fail(ErrorCode::InvalidArgument,
                "line {}: a switch has a name of letters, digits and - _ .",
                table.source().begin.line);
  }
  if (auto parsed = parse_numbers(one, table); !parsed) {
    return std::unexpected(parsed.error());
  }
  if (auto parsed = parse_learning(one, table); !parsed) {
    return std::unexpected(parsed.error());
  }
  one.filters_sources = table["filter-sources"].value_or(false);
  auto unicast = priorities(table, "unicast");
  auto multicast = priorities(table, "multicast");
  if (!unicast || !multicast) {
    return std::unexpected((unicast ? multicast : unicast).error());
  }
  one.unicast = *unicast;
  one.multicast = *multicast;
  const toml::array* const ports = table["port"].as_array();
  for (std::size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    const toml::table* const port = (*ports)[i].as_table();
    auto member = port == nullptr ? fail(ErrorCode::InvalidArgument, "line {}: a port is a table",
                                         (*ports)[i].source().begin.line)
                                  : parse_port(file, *port, one, i);
    if (!member) {
      return std::unexpected(member.error());
    }
    one.members.push_back(*std::move(member));
  }
  if (one.members.empty()) {
    return fail(ErrorCode::InvalidArgument, "line {}: switch {} has no [[switch.port]]",
                table.source().begin.line, one.name);
  }
  return one;
}

}  // namespace

Guid guid_of_host(std::string_view name) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a of 64 bits
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01B3;
  }
  return Guid{hash};
}

std::string SwitchesFile::host_of(Guid port) const {
  const auto found =
      std::ranges::find_if(hosts, [&](const auto& host) { return host.second == port; });
  return found == hosts.end() ? std::string{} : found->first;
}

Result<SwitchesFile> parse_switches(std::string_view text) {
  if (text.size() > kLongestFile) {
    return fail(ErrorCode::InvalidArgument, "a file of switches has {} octets at most",
                kLongestFile);
  }
  const auto parsed = toml::parse(text);
  if (!parsed) {
    return fail(ErrorCode::InvalidArgument, "line {}: {}", parsed.error().source().begin.line,
                parsed.error().description());
  }
  const toml::table& table = parsed.table();
  if (auto checked = check_keys(table, {"switch"}); !checked) {
    return std::unexpected(checked.error());
  }
  SwitchesFile file;
  const toml::array* const switches = table["switch"].as_array();
  for (std::size_t i = 0; switches != nullptr && i < switches->size(); ++i) {
    const toml::table* const one = (*switches)[i].as_table();
    auto read = one == nullptr ? fail(ErrorCode::InvalidArgument, "line {}: a switch is a table",
                                      (*switches)[i].source().begin.line)
                               : parse_switch(file, *one);
    if (!read) {
      return std::unexpected(read.error());
    }
    const bool is_twice = std::ranges::any_of(
        file.switches, [&](const SwitchConfig& other) { return other.name == read->name; });
    if (is_twice) {
      return fail(ErrorCode::InvalidArgument, "line {}: switch {} is there twice",
                  one->source().begin.line, read->name);
    }
    file.switches.push_back(*std::move(read));
  }
  if (file.switches.empty()) {
    return fail(ErrorCode::InvalidArgument, "there is no [[switch]] in the file");
  }
  if (auto valid = opa_vnic::validate({.switches = file.switches}); !valid) {
    return std::unexpected(valid.error());
  }
  return file;
}

Result<SwitchesFile> read_switches(const std::string& path) {
  std::ifstream stream{path, std::ios::binary};
  if (!stream) {
    return fail(ErrorCode::NotFound, "{}: {}", path, std::strerror(errno));
  }
  std::string text(kLongestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  auto file = parse_switches(text);
  return file ? std::move(file) : fail(file.error().code, "{}: {}", path, file.error().reason);
}

}  // namespace weft::programs::em
