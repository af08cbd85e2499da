#include "node/node_change.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::node {
namespace {

[[nodiscard]] std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

[[nodiscard]] std::optional<std::uint32_t> number(std::string_view text, int base = 10) {
  std::uint32_t value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

[[nodiscard]] std::unexpected<Error> refuse(std::string_view text) {
  return fail(ErrorCode::InvalidArgument, "'{}' is not one of: {}", text, kNodeChangeGrammar);
}

/// An index, as 2, or a P_Key, as 0x8005.
[[nodiscard]] std::optional<PKeyChoice> read_entry(std::string_view text) {
  constexpr int kHexadecimal = 16;
  const bool is_key = text.starts_with("0x");
  const auto value = is_key ? number(text.substr(2), kHexadecimal) : number(text);
  if (!value || *value > 0xFFFF) {
    return std::nullopt;
  }
  const auto word = static_cast<std::uint16_t>(*value);
  if (!is_key) {
    return PKeyChoice{.index = word};
  }
  return PKey{word}.is_valid() ? std::optional{PKeyChoice{.key = PKey{word}}} : std::nullopt;
}

/// Entries, as 0,0x8005; none if it is not a list of different ones.
[[nodiscard]] std::optional<std::vector<PKeyChoice>> read_entries(std::string_view text) {
  std::vector<PKeyChoice> found;
  for (;;) {
    const std::size_t comma = text.find(',');
    const auto entry = read_entry(text.substr(0, comma));
    if (!entry || std::ranges::find(found, *entry) != found.end()) {
      return std::nullopt;
    }
    found.push_back(*entry);
    if (comma == std::string_view::npos) {
      return found;
    }
    text.remove_prefix(comma + 1);
  }
}

/// As `down`, the way of other words here.
[[nodiscard]] std::optional<verbs::PortPolicy> read_policy(std::string_view text) {
  using Row = std::pair<std::string_view, verbs::PortPolicy>;
  static constexpr auto kWords = std::to_array<Row>({
      {"down",   verbs::PortPolicy::Down  },
      {"up",     verbs::PortPolicy::Up    },
      {"follow", verbs::PortPolicy::Follow},
  });
  const auto found = std::ranges::find(kWords, text, &Row::first);
  return found == kWords.end() ? std::nullopt : std::optional{found->second};
}

/// As 0x0002c90300000001; not 0 or all ones, which are no GUIDs.
[[nodiscard]] std::optional<Guid> read_guid(std::string_view text) {
  constexpr int kHexadecimal = 16;
  if (!text.starts_with("0x")) {
    return std::nullopt;
  }
  std::uint64_t value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + 2, last, value, kHexadecimal);
  const bool is_guid =
      error == std::errc{} && end == last && value != 0 && value != ~std::uint64_t{0};
  return is_guid ? std::optional{Guid{value}} : std::nullopt;
}

/// Parses a GUID of a virtual function. Returns false if it is none.
[[nodiscard]] bool read_guids(std::string_view key, std::string_view value, FunctionGuids& guids) {
  if (key != "node_guid" && key != "port_guid") {
    return false;
  }
  auto& guid = key == "node_guid" ? guids.node : guids.port;
  guid = read_guid(value);
  return guid.has_value();
}

/// Parses an option of a virtual function. Returns false if it is none.
[[nodiscard]] bool read_quota(std::string_view key, std::string_view value,
                              FunctionChange& change) {
  if (key == "policy") {
    change.policy = read_policy(value);
    return change.policy.has_value();
  }
  if (key == "trust") {
    change.is_trusted =
        value == "on" || value == "off" ? std::optional{value == "on"} : std::nullopt;
    return change.is_trusted.has_value();
  }
  if (key == "pkeys") {
    change.pkeys = read_entries(value);
    return change.pkeys.has_value();
  }
  if (key != "mads" && key != "groups") {
    return false;
  }
  auto& count = key == "mads" ? change.mads_per_second : change.groups;
  count = number(value);
  return count.has_value();
}

[[nodiscard]] bool is_quota(std::string_view word) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"pkeys=", "mads=", "groups=", "policy=", "trust=", "node_guid=", "port_guid="});
  return std::ranges::any_of(kKeys, [&](std::string_view key) { return word.starts_with(key); });
}

[[nodiscard]] std::unexpected<Error> refuse_quota(std::string_view word) {
  return fail(
      ErrorCode::InvalidArgument,
      "'{}' will not do: a function has pkeys=ENTRY,..., each an index of the port's P_Key "
      "table or a key as 0x8005 and none twice, mads=N a second and groups=N, where 0 is no "
      "limit, policy=down, up or follow, trust=on or off, and, once it is there, node_guid=GUID "
      "and "
      "port_guid=GUID, not 0 and not all ones",
      word);
}

/// Parses one option. Returns false if it is unknown.
[[nodiscard]] bool read_word(std::string_view word, bool is_virtual, NodeChange& change) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    return change.action == NodeChange::Action::Remove && word == "force" &&
           (change.is_forced = true);
  }
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  if (change.action == NodeChange::Action::Remove ||
      change.action == NodeChange::Action::Unassign || value.empty()) {
    return false;
  }
  const bool is_move =
      change.action == NodeChange::Action::Move || change.action == NodeChange::Action::Assign;
  if (is_virtual && !is_move && read_quota(key, value, change.function)) {
    return true;
  }
  if (change.action == NodeChange::Action::Set) {
    return read_guids(key, value, change.guids);
  }
  if (key == "of") {
    change.of = value;
    return true;
  }
  if (is_move) {
    return false;
  }
  if (key == "link") {
    change.links.emplace_back(value);
    return true;
  }
  const auto count = number(value);
  if (!count || *count == 0) {
    return false;
  }
  if (key == "ports") {
    change.ports = *count;
    return true;
  }
  if (key == "hcas" && change.kind == fabric::NodeKind::Host) {
    change.hcas = *count;
    return true;
  }
  return false;
}

/// Checks counts against the limits of the node's kind.
[[nodiscard]] Result<void> check(const NodeChange& change, bool is_virtual) {
  if (is_virtual || !change.of.empty()) {
    const bool is_whole =
        is_virtual && change.links.empty() && change.ports == 1 && change.hcas == 1;
    return is_whole ? Result<void>{}
                    : fail(ErrorCode::InvalidArgument,
                           "a virtual function has one port, of=h1:1 says whose it shares, if any "
                           "yet, and no cable: add vf v1 of=h1:1");
  }
  const bool is_switch = change.kind == fabric::NodeKind::Switch;
  const std::uint32_t most = is_switch ? fabric::kMaxPortsPerSwitch : fabric::kMaxPortsPerHca;
  if (change.ports < 1 || change.ports > most) {
    return fail(ErrorCode::InvalidArgument, "{} has 1 to {} ports, not {}: ports=N says how many",
                is_switch ? "a switch" : "an HCA", most, change.ports);
  }
  if (change.hcas > fabric::kMaxHcasPerHost) {
    return fail(ErrorCode::InvalidArgument, "a host has 1 to {} HCAs, not {}",
                fabric::kMaxHcasPerHost, change.hcas);
  }
  const std::uint32_t ports = is_switch ? change.ports : change.ports * change.hcas;
  if (change.links.empty() || change.links.size() > ports) {
    return fail(ErrorCode::InvalidArgument,
                "{} has {} ports and {} cables: one to {} are possible, as link=s1:7", change.name,
                ports, change.links.size(), ports);
  }
  return {};
}

/// What changes a virtual function, by the word that asks for it.
[[nodiscard]] std::optional<NodeChange::Action> action_on_function(std::string_view word) {
  using enum NodeChange::Action;
  if (word == "set") {
    return Set;
  }
  if (word == "move") {
    return Move;
  }
  if (word == "assign") {
    return Assign;
  }
  return word == "unassign" ? std::optional{Unassign} : std::nullopt;
}

}  // namespace

Result<NodeChange> read_node_change(std::string_view text) {
  std::string_view rest = text;
  NodeChange change;
  bool is_virtual = false;
  const std::string_view action = next_word(rest);
  if (action == "remove") {
    change.action = NodeChange::Action::Remove;
  } else if (const auto about_function = action_on_function(action)) {
    change.action = *about_function;
    is_virtual = true;
    if (next_word(rest) != "vf") {
      return refuse(text);
    }
  } else if (action == "add") {
    const std::string_view kind = next_word(rest);
    if (kind != "host" && kind != "switch" && kind != "vf") {
      return refuse(text);
    }
    is_virtual = kind == "vf";
    change.kind = kind == "switch" ? fabric::NodeKind::Switch : fabric::NodeKind::Host;
    change.ports = kind == "switch" ? 0 : 1;
  } else {
    return refuse(text);
  }
  change.name = next_word(rest);
  if (change.name.empty()) {
    return refuse(text);
  }
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    if (!read_word(word, is_virtual, change)) {
      const bool has_quotas = is_virtual && (change.action == NodeChange::Action::Add ||
                                             change.action == NodeChange::Action::Set);
      return has_quotas && is_quota(word) ? refuse_quota(word) : refuse(text);
    }
  }
  const bool needs_port =
      change.action == NodeChange::Action::Move || change.action == NodeChange::Action::Assign;
  if (needs_port && change.of.empty()) {
    return refuse(text);
  }
  change.is_function = is_virtual;
  if (change.action == NodeChange::Action::Add) {
    if (auto checked = check(change, is_virtual); !checked) {
      return std::unexpected(checked.error());
    }
  }
  return change;
}

}  // namespace weft::node
