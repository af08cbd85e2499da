// Topology files. The whole format:
//
//   subnet_prefix = "0xfe80000000000000"   # optional
//   time_scale = 0.1                       # of the specification's timeouts, default 1
//   faults = ["drop p=0.01 link=s1:1"]     # rules of fabric/fault_description.h
//
//   [[host]]
//   name = "h1"                            # one HCA, weft0, with one port
//   link = "opa"                           # of its HCAs that say nothing: "infiniband", the
//                                          # default, or "opa" for Omni-Path
//
//   [[host]]
//   name = "h2"
//   addresses = ["10.0.0.2/16"]            # of its first port, besides 127.77.0.2 and fd77::2
//   [[host.hca]]
//   name = "weft0"                         # default: weft and its number
//   ports = 2                              # default 1; or one [[host.hca.port]] each
//   guid = "0x0008f10403960984"            # of the node; ports can have one; default: by position
//   link = "infiniband"                    # of its ports; those of Omni-Path have no lmc and mtu
//   vfs = 2                                # virtual functions of its port 1: hosts h2v1 and h2v2;
//                                          # or their names, as ["web", "store"]; or, in place of a
//                                          # name, { name = "web", pkeys = [0x8001], mads = 100,
//                                          # groups = 8 }: P_Keys of the port, and quotas
//   [[host.hca]]
//   [[host.hca.port]]
//   lmc = 1                                # 0..7, default 0
//   mtu = 2048                             # 256 .. 4096, default 4096
//   pkeys = [0xFFFF, 0x8001]               # default [0xFFFF]
//   addresses = ["10.0.1.2", "fd00::2/64"] # of this port; default prefixes are /24 and /64
//   link_layer = "InfiniBand"              # which that of Omni-Path is, too
//
//   [[switch]]
//   name = "s1"
//   ports = 36                             # 1..254; guid and link are possible, as for an HCA
//
//   [[link]]
//   a = "h1:1"                             # NODE:PORT or HOST/HCA:PORT
//   b = "s1:1"
//   rate_gbps = 100                        # default: no limit
//   link = "infiniband"                    # which its ends are of; default: what they are. Or
//                                          # `type`, as "InfiniBand" or "OmniPath"
//   delay_ns = 500                         # default 0
//
// Unknown keys are refused, since a misspelt one would silently have no effect.

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// Version 3.3 asserts what it then checks and reports itself; "[&" would abort the program.
#define TOML_ASSERT(expr) static_assert(true)
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <unordered_map>
#include <utility>

#include "fabric/topology.h"
#include "fabric/topology_check.h"
#include "fabric/topology_text.h"
#include "verbs/mtu.h"

namespace weft::fabric {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<Topology> read(std::string_view text) {
    if (const auto line = internal::line_of_foreign_octet(text)) {
      return fail(ErrorCode::InvalidArgument,
                  "{}:{}: only ASCII may stand outside of strings and comments", origin_, *line);
    }
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      return fail(ErrorCode::InvalidArgument, "{}:{}: {}", origin_,
                  parsed.error().source().begin.line, parsed.error().description());
    }
    if (!read_table(parsed.table())) {
      return std::unexpected(std::move(error_));
    }
    if (auto valid = validate(topology_); !valid) {
      return fail(valid.error().code, "{}: {}", origin_, valid.error().reason);
    }
    return std::move(topology_);
  }

 private:
  // Each of these returns false after recording the first error.
  template <class... Arguments>
  bool refuse(const toml::node& at, fmt::format_string<Arguments...> format,
              Arguments&&... arguments) {
    error_.code = ErrorCode::InvalidArgument;
    error_.reason = fmt::format("{}:{}: {}", origin_, at.source().begin.line,
                                fmt::format(format, std::forward<Arguments>(arguments)...));
    return false;
  }

  bool check_keys(const toml::table& table, std::string_view what,
                  std::span<const std::string_view> known) {
    for (const auto& [key, value] : table) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        return refuse(value, "{} has no key '{}'; did you mean '{}'? (known: {})", what, key.str(),
                      internal::nearest(key.str(), known), fmt::join(known, ", "));
      }
    }
    return true;
  }

  /// Reads an integer in lowest..highest if the key is present.
  template <class T>
  bool read_number(const toml::table& table, std::string_view key, std::int64_t lowest,
                   std::int64_t highest, T& target) {
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      return true;
    }
    const auto* integer = node->as_integer();
    if (integer == nullptr || integer->get() < lowest || integer->get() > highest) {
      return refuse(*node, "'{}' must be a whole number in {}..{}", key, lowest, highest);
    }
    target = static_cast<T>(integer->get());
    return true;
  }

  bool read_bool(const toml::table& table, std::string_view key, bool& target) {
    const auto* node = table.get(key);
    if (node == nullptr) {
      return true;
    }
    const auto* value = node->as_boolean();
    if (value == nullptr) {
      return refuse(*node, "'{}' must be true or false", key);
    }
    target = value->get();
    return true;
  }

  bool read_string(const toml::table& table, std::string_view key, std::string& target) {
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      return true;
    }
    const auto* string = node->as_string();
    if (string == nullptr) {
      return refuse(*node, "'{}' must be a string, in quotes", key);
    }
    target = string->get();
    return true;
  }

  /// Calls `read(table)` for each table of an array of tables, if present.
  template <class Read>
  bool read_each(const toml::table& parent, std::string_view key, Read read) {
    const toml::node* node = parent.get(key);
    if (node == nullptr) {
      return true;
    }
    const auto* array = node->as_array();
    if (array == nullptr) {
      return refuse(*node, "'{}' must be an array of tables: [[{}]]", key, key);
    }
    for (const toml::node& element : *array) {
      const auto* table = element.as_table();
      if (table == nullptr) {
        return refuse(element, "'{}' must be an array of tables: [[{}]]", key, key);
      }
      if (!read(*table)) {
        return false;
      }
    }
    return true;
  }

  bool read_guid(const toml::table& table, std::optional<Guid>& guid) {
    std::string text;
    if (table.get("guid") == nullptr) {
      return true;
    }
    if (!read_string(table, "guid", text)) {
      return false;
    }
    const auto number = internal::read_integer(text);
    if (!number || *number == 0) {
      return refuse(*table.get("guid"),
                    "'{}' is no GUID: 64 bits in hex, not all 0, as in \"0x0008f10403960984\"",
                    text);
    }
    guid = Guid{*number};
    return true;
  }

  bool read_name(const toml::table& table, std::string_view what, std::string& name) {
    if (!read_string(table, "name", name)) {
      return false;
    }
    if (name.empty()) {
      return refuse(table, "a {} needs a name, as in name = \"{}1\"", what, what.substr(0, 1));
    }
    if (const auto checked = internal::check_name(what, name); !checked) {
      return refuse(*table.get("name"), "{}", checked.error().reason);
    }
    return true;
  }

  bool remember_node(const toml::table& table, const std::string& name, NodeKind kind,
                     std::size_t position) {
    const auto [found, is_new] =
        nodes_.try_emplace(name, kind, static_cast<std::uint32_t>(position));
    return is_new || refuse(table, "a second node is named '{}'", name);
  }

  bool read_table(const toml::table& root) {
    static constexpr std::array<std::string_view, 6> kKnown = {
        "subnet_prefix", "time_scale", "faults", "host", "switch", "link"};
    return check_keys(root, "a topology", kKnown) && read_prefix(root) && read_time_scale(root) &&
           read_faults(root) &&
           read_each(root, "host", [&](const auto& table) { return read_host(table); }) &&
           read_each(root, "switch", [&](const auto& table) { return read_switch(table); }) &&
           read_each(root, "link", [&](const auto& table) { return read_link(table); });
  }

  bool read_prefix(const toml::table& root) {
    std::string text;
    if (!read_string(root, "subnet_prefix", text)) {
      return false;
    }
    if (text.empty() && root.get("subnet_prefix") == nullptr) {
      return true;
    }
    const auto prefix = internal::read_integer(text);
    if (!prefix) {
      return refuse(*root.get("subnet_prefix"),
                    "'{}' is no subnet prefix: 64 bits in hex, as in \"0xfe80000000000000\"", text);
    }
    topology_.subnet_prefix = *prefix;
    return true;
  }

  bool read_time_scale(const toml::table& root) {
    const toml::node* node = root.get("time_scale");
    if (node == nullptr) {
      return true;
    }
    const auto scale = time_scale_of(node->value<double>().value_or(0));
    if (!scale) {
      return refuse(*node, "{}", scale.error().reason);
    }
    topology_.time_scale = *scale;
    return true;
  }

  bool read_faults(const toml::table& root) {
    const toml::node* node = root.get("faults");
    const auto* array = node != nullptr ? node->as_array() : nullptr;
    if (node != nullptr && array == nullptr) {
      return refuse(*node, "'faults' must be an array of strings, as [\"drop p=0.01\"]");
    }
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      const auto fault = read_fault((*array)[i].value_or(std::string_view{}));
      if (!fault) {
        return refuse((*array)[i], "{}", fault.error().reason);
      }
      topology_.faults.push_back(*fault);
    }
    return true;
  }

  bool read_host(const toml::table& table) {
    static constexpr std::array<std::string_view, 4> kKnown = {"name", "addresses", "hca", "link"};
    HostDescription host;
    LinkType usual = LinkType::InfiniBand;
    if (!check_keys(table, "a host", kKnown) || !read_name(table, "host", host.name) ||
        !remember_node(table, host.name, NodeKind::Host, topology_.hosts.size()) ||
        !read_addresses(table, host.addresses) || !read_link_type(table, "link", usual) ||
        !read_each(table, "hca", [&](const auto& hca) { return read_hca(hca, usual, host); })) {
      return false;
    }
    if (host.hcas.empty()) {
      host.hcas = make_host(host.name).hcas;
      host.hcas.front().link_type = usual;
    }
    topology_.hosts.push_back(std::move(host));
    return true;
  }

  bool read_addresses(const toml::table& table, std::vector<InterfaceAddress>& addresses) {
    const toml::node* node = table.get("addresses");
    if (node == nullptr) {
      return true;
    }
    const auto* array = node->as_array();
    if (array == nullptr || array->size() > kMaxAddressesPerPort) {
      return refuse(*node, "'addresses' must be an array of strings, at most {}",
                    kMaxAddressesPerPort);
    }
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      if (text == nullptr) {
        return refuse(element, "'addresses' must be an array of strings");
      }
      const auto address = parse_interface_address(text->get());
      if (!address) {
        return refuse(element, "{}", address.error().reason);
      }
      if (const auto checked = internal::check_address(address->address); !checked) {
        return refuse(element, "{}", checked.error().reason);
      }
      addresses.push_back(*address);
    }
    return true;
  }

  bool read_link_type(const toml::table& table, std::string_view key, LinkType& type) {
    std::string name{key_of(type)};
    if (!read_string(table, key, name)) {
      return false;
    }
    const auto known = find_link_type(name);
    if (!known) {
      return refuse(*table.get(key), "no link is of type '{}'; \"{}\" and \"{}\" are possible",
                    name, key_of(LinkType::InfiniBand), key_of(LinkType::OmniPath));
    }
    type = *known;
    return true;
  }

  bool read_hca(const toml::table& table, LinkType usual, HostDescription& host) {
    static constexpr std::array<std::string_view, 6> kKnown = {"name", "ports", "port",
                                                               "guid", "vfs",   "link"};
    if (host.hcas.size() == kMaxHcasPerHost) {
      return refuse(table, "a host has at most {} HCAs", kMaxHcasPerHost);
    }
    HcaDescription hca;
    hca.name = fmt::format("weft{}", host.hcas.size());
    hca.link_type = usual;
    std::uint32_t count = 1;
    if (!check_keys(table, "an HCA", kKnown) || !read_name(table, "HCA", hca.name) ||
        !read_guid(table, hca.guid) || !read_link_type(table, "link", hca.link_type) ||
        !read_functions(table, host, hca) ||
        !read_number(table, "ports", 1, kMaxPortsPerHca, count) ||
        !read_each(table, "port", [&](const auto& port) { return read_port(port, hca); })) {
      return false;
    }
    for (const HcaDescription& other : host.hcas) {
      if (other.name == hca.name) {
        return refuse(table, "a second HCA of host {} is named '{}'", host.name, hca.name);
      }
    }
    if (hca.ports.empty()) {
      hca.ports.resize(count);
    } else if (table.get("ports") != nullptr) {
      return refuse(*table.get("ports"), "give either 'ports' or [[host.hca.port]], not both");
    } else if (hca.ports.size() > kMaxPortsPerHca) {
      return refuse(table, "an HCA has at most {} ports", kMaxPortsPerHca);
    }
    host.hcas.push_back(std::move(hca));
    return true;
  }

  /// A number of virtual functions, which are named after the host, or an array of them.
  bool read_functions(const toml::table& table, const HostDescription& host, HcaDescription& hca) {
    if (const auto* functions = table["vfs"].as_array(); functions != nullptr) {
      return std::ranges::all_of(*functions, [&](const toml::node& element) {
        return read_function(element, hca.functions.emplace_back());
      });
    }
    std::size_t last = 0;  // those of the host's other HCAs
    for (const HcaDescription& other : host.hcas) {
      last += other.functions.size();
    }
    std::uint32_t count = 0;
    const bool is_read = read_number(table, "vfs", 0, kMaxFunctionsPerHost, count);
    for (; count != 0; --count) {
      hca.functions.push_back({.name = fmt::format("{}v{}", host.name, ++last)});
    }
    return is_read;
  }

  /// The name of a virtual function's host, or a table of what the function is given.
  bool read_function(const toml::node& element, PlannedFunction& function) {
    static constexpr std::array<std::string_view, 5> kKnown = {"name", "pkeys", "mads", "groups",
                                                               "trust"};
    constexpr std::int64_t kMost = 0xFFFF'FFFF;
    if (const auto* name = element.as_string(); name != nullptr) {
      function.name = name->get();
      return true;
    }
    const auto* table = element.as_table();
    if (table == nullptr) {
      return refuse(element,
                    "'vfs' is a number of virtual functions, or an array of names in quotes and of "
                    "tables, as {{ name = \"v1\", pkeys = [0x8001], mads = 100, groups = 8 }}");
    }
    return check_keys(*table, "a virtual function", kKnown) &&
           read_name(*table, "virtual function", function.name) &&
           read_pkeys(*table, function.pkeys) &&
           read_number(*table, "mads", 0, kMost, function.quotas.mads_per_second) &&
           read_number(*table, "groups", 0, kMost, function.quotas.groups) &&
           read_bool(*table, "trust", function.is_trusted);
  }

  bool read_port(const toml::table& table, HcaDescription& hca) {
    static constexpr std::array<std::string_view, 6> kKnown = {"lmc",        "mtu",  "pkeys",
                                                               "link_layer", "guid", "addresses"};
    HcaPortDescription port;
    std::string link_layer = "InfiniBand";
    if (!check_keys(table, "a port", kKnown) || !read_number(table, "lmc", 0, kMaxLmc, port.lmc) ||
        !read_mtu(table, port) || !read_pkeys(table, port.pkeys) || !read_guid(table, port.guid) ||
        !read_addresses(table, port.addresses) || !read_string(table, "link_layer", link_layer)) {
      return false;
    }
    if (link_layer != "InfiniBand") {
      return refuse(*table.get("link_layer"),
                    "link layer '{}' is not possible yet; \"InfiniBand\" is", link_layer);
    }
    hca.ports.push_back(std::move(port));
    return true;
  }

  bool read_mtu(const toml::table& table, HcaPortDescription& port) {
    std::uint32_t mtu = bytes(port.max_mtu);
    if (!read_number(table, "mtu", 256, 4096, mtu)) {
      return false;
    }
    if (!std::has_single_bit(mtu)) {
      return refuse(*table.get("mtu"), "'mtu' must be 256, 512, 1024, 2048 or 4096");
    }
    port.max_mtu = static_cast<verbs::Mtu>(std::countr_zero(mtu) - 7);
    return true;
  }

  bool read_pkeys(const toml::table& table, std::vector<PKey>& pkeys) {
    const toml::node* node = table.get("pkeys");
    if (node == nullptr) {
      return true;
    }
    const auto* array = node->as_array();
    if (array == nullptr || array->empty() || array->size() > kMaxPKeysPerPort) {
      return refuse(*node, "'pkeys' must be an array of 1 to {} numbers", kMaxPKeysPerPort);
    }
    pkeys.clear();
    for (const toml::node& element : *array) {
      const auto* integer = element.as_integer();
      if (integer == nullptr || integer->get() < 1 || integer->get() > 0xFFFF ||
          integer->get() == 0x8000) {
        return refuse(element,
                      "a P_Key is in 0x0001..0xFFFF and not 0x8000; bit 15 is full membership");
      }
      pkeys.emplace_back(static_cast<std::uint16_t>(integer->get()));
    }
    return true;
  }

  bool read_switch(const toml::table& table) {
    static constexpr std::array<std::string_view, 4> kKnown = {"name", "ports", "guid", "link"};
    SwitchDescription description;
    if (!check_keys(table, "a switch", kKnown) || !read_name(table, "switch", description.name) ||
        !remember_node(table, description.name, NodeKind::Switch, topology_.switches.size()) ||
        !read_guid(table, description.guid) ||
        !read_link_type(table, "link", description.link_type) ||
        !read_number(table, "ports", 1, kMaxPortsPerSwitch, description.port_count)) {
      return false;
    }
    if (description.port_count == 0) {
      return refuse(table, "switch {} needs its count of ports, as in ports = 36",
                    description.name);
    }
    topology_.switches.push_back(std::move(description));
    return true;
  }

  bool read_link(const toml::table& table) {
    static constexpr std::array<std::string_view, 6> kKnown = {"a",        "b",    "rate_gbps",
                                                               "delay_ns", "link", "type"};
    LinkDescription link;
    std::int64_t delay_ns = 0;
    if (!check_keys(table, "a link", kKnown) || !read_end(table, "a", link.a) ||
        !read_end(table, "b", link.b) ||
        !read_number(table, "delay_ns", 0, 1'000'000'000, delay_ns)) {
      return false;
    }
    link.delay = Duration::nanoseconds(delay_ns);
    link.type = link_type_of(topology_, link.a);
    if (!read_link_type(table, "link", link.type) || !read_link_type(table, "type", link.type)) {
      return false;
    }
    if (const toml::node* node = table.get("rate_gbps")) {
      link.rate_gbps = node->value<double>();
      if (!link.rate_gbps || !std::isfinite(*link.rate_gbps) || *link.rate_gbps <= 0) {
        return refuse(*node, "'rate_gbps' must be a number above 0; leave it out for no limit");
      }
    }
    topology_.links.push_back(link);
    return true;
  }

  bool read_end(const toml::table& table, std::string_view key, EndPoint& end) {
    std::string text;
    if (!read_string(table, key, text)) {
      return false;
    }
    const toml::node* node = table.get(key);
    if (node == nullptr) {
      return refuse(table, "a link needs both ends, as in a = \"h1:1\" and b = \"s1:1\"");
    }
    const std::size_t colon = text.rfind(':');
    const std::size_t slash = text.find('/');
    const auto number = colon == std::string::npos
                            ? std::nullopt
                            : internal::read_integer(std::string_view{text}.substr(colon + 1));
    if (!number || (slash != std::string::npos && slash > colon)) {
      return refuse(*node, "'{}' is no end of a link: NODE:PORT or HOST/HCA:PORT is", text);
    }
    const std::string name = text.substr(0, std::min(colon, slash));
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) {
      return refuse(*node, "no host or switch is named '{}'", name);
    }
    end.kind = found->second.first;
    end.node = found->second.second;
    if (slash != std::string::npos &&
        !find_hca(*node, std::string_view{text}.substr(slash + 1, colon - slash - 1), end)) {
      return false;
    }
    return take_port(*node, *number, end);
  }

  bool find_hca(const toml::node& at, std::string_view name, EndPoint& end) {
    if (end.kind == NodeKind::Switch) {
      return refuse(at, "a switch has no HCAs: NODE:PORT names its ports");
    }
    const HostDescription& host = topology_.hosts[end.node];
    for (std::size_t i = 0; i < host.hcas.size(); ++i) {
      if (host.hcas[i].name == name) {
        end.hca = static_cast<std::uint8_t>(i);
        return true;
      }
    }
    return refuse(at, "host {} has no HCA named '{}'", host.name, name);
  }

  bool take_port(const toml::node& at, std::uint64_t number, EndPoint& end) {
    const std::size_t ports = end.kind == NodeKind::Switch
                                  ? topology_.switches[end.node].port_count
                                  : topology_.hosts[end.node].hcas[end.hca].ports.size();
    if (number == 0 || number > ports) {
      return refuse(at, "there is no port {} there: the ports are 1..{}", number, ports);
    }
    end.port = PortNumber{static_cast<std::uint8_t>(number)};
    const std::string text = to_string(topology_, end);
    const auto [used, is_free] = cables_.try_emplace(text, at.source().begin.line);
    return is_free ||
           refuse(at, "{} has a cable already, in line {}", text, std::as_const(used->second));
  }

  std::string_view origin_;
  Error error_;
  Topology topology_;
  std::unordered_map<std::string, std::pair<NodeKind, std::uint32_t>> nodes_;
  std::unordered_map<std::string, std::uint32_t> cables_;  // end point and its line
};

}  // namespace

Result<Topology> read_topology(std::string_view toml, std::string_view origin) {
  return Reader{origin}.read(toml);
}

}  // namespace weft::fabric
