// Net files. The whole format that is read:
//
//   # a comment
//   vendid=0x2c9                     # ignored; also devid, sysimgguid, width, speed, extspeed
//   switchguid=0x5442ba00003080(...) # of the next switch; caguid or hcaguids of the next HCA
//   Switch 24 "S-005442ba00003080"   # "leaf 1" base port 0 lid 6 lmc 0
//   [22] "H-0008f10403961354"[1](8f10403961355)  # "h1 mlx5_0" lid 4 4xSDR
//
//   Ca 2 "H-0008f10403961354"                    # "h1 mlx5_0"; also Hca
//   [1](8f10403961355) "S-005442ba00003080"[22]  # lid 4 lmc 1 "leaf 1" lid 6 4xSDR
//
// A cable may be listed at one end or at both. The peer's port defaults to 1. A node without a GUID
// gets the one that ibsim would assign.
//
// A node is named by its description if that is a valid name that no other node has, else by its
// quoted id. The description "HOST HCA", as Linux writes it, makes the HCA part of that host.

#include "fabric/topology_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fabric/topology_check.h"

namespace weft::fabric {
namespace {

constexpr std::array<std::string_view, 6> kPassedOver = {"vendid", "devid", "sysimgguid",
                                                         "width",  "speed", "extspeed"};
constexpr std::array<std::string_view, 3> kGuidKeys = {"switchguid", "caguid", "hcaguids"};
constexpr std::array<std::string_view, 3> kNodeKinds = {"Switch", "Ca", "Hca"};

struct NetPort {
  std::uint32_t line{};
  std::uint32_t number{};
  std::optional<Guid> guid;
  std::uint8_t lmc{};
  std::string_view peer;
  std::uint32_t peer_port{1};
};

struct NetNode {
  std::uint32_t line{};
  bool is_switch{};
  std::uint32_t port_count{};
  std::string_view id;
  std::string_view description;  // empty: none
  Guid guid;
  std::vector<NetPort> ports;
};

bool is_space(char character) { return character == ' ' || character == '\t' || character == '\r'; }

/// The rest of a line, consumed token by token.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { skip_spaces(); }

  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  [[nodiscard]] char front() const { return rest_.empty() ? '\0' : rest_.front(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  bool take(char wanted) {
    if (front() != wanted) {
      return false;
    }
    rest_.remove_prefix(1);
    skip_spaces();
    return true;
  }

  /// Takes letters and digits.
  std::string_view take_word() {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    const auto end = std::ranges::find_if_not(rest_, is_letter);
    return take_bytes(static_cast<std::size_t>(end - rest_.begin()));
  }

  std::optional<std::uint64_t> take_number(int base) {
    if (base == 16 && rest_.starts_with("0x")) {
      rest_.remove_prefix(2);
    }
    std::uint64_t number = 0;
    const auto [end, failure] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), number, base);
    if (failure != std::errc{}) {
      return std::nullopt;
    }
    take_bytes(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  /// Takes a quoted string, without the quotes.
  std::optional<std::string_view> take_quoted() {
    const std::size_t end = front() == '"' ? rest_.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view quoted = rest_.substr(1, end - 1);
    take_bytes(end + 1);
    return quoted;
  }

  /// Takes `(HEX)` if present.
  std::optional<Guid> take_guid() {
    if (!take('(')) {
      return std::nullopt;
    }
    const auto number = take_number(16);
    return take(')') && number ? std::optional{Guid{*number}} : std::nullopt;
  }

 private:
  std::string_view take_bytes(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    skip_spaces();
    return taken;
  }

  void skip_spaces() {
    while (!rest_.empty() && is_space(rest_.front())) {
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
};

template <std::size_t kCount>
bool is_one_of(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_valid_name(std::string_view name) { return internal::check_name("node", name).has_value(); }

/// Splits a description of the form "HOST HCA".
std::optional<std::pair<std::string_view, std::string_view>> host_and_hca(
    std::string_view description) {
  const std::size_t space = description.find(' ');
  if (space == std::string_view::npos || !is_valid_name(description.substr(0, space)) ||
      !is_valid_name(description.substr(space + 1))) {
    return std::nullopt;
  }
  return std::pair{description.substr(0, space), description.substr(space + 1)};
}

class NetReader {
 public:
  explicit NetReader(std::string_view origin) : origin_(origin) {}

  Result<Topology> read(std::string_view text) {
    if (!read_lines(text) || !make_nodes() || !make_cables()) {
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
  bool refuse(std::uint32_t line, fmt::format_string<Arguments...> format,
              Arguments&&... arguments) {
    error_.code = ErrorCode::InvalidArgument;
    error_.reason = fmt::format("{}:{}: {}", origin_, line,
                                fmt::format(format, std::forward<Arguments>(arguments)...));
    return false;
  }

  bool read_lines(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      if (!read_line(Line{text.substr(0, end)})) {
        return false;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return true;
  }

  bool read_line(Line line) {
    if (line.is_empty() || line.front() == '#') {
      is_in_record_ = is_in_record_ && !line.is_empty();
      return true;
    }
    if (line.front() == '[') {
      return is_in_record_ ? read_port(line)
                           : refuse(line_,
                                    "a port stands under the line of its node, with no "
                                    "empty line between");
    }
    is_in_record_ = false;
    const std::string_view word = line.take_word();
    if (is_one_of(word, kNodeKinds)) {
      return read_node(line, word == "Switch");
    }
    if (is_one_of(word, kGuidKeys)) {
      return read_guid(line, word == "switchguid");
    }
    if (is_one_of(word, kPassedOver)) {
      return true;
    }
    if (word == "Rt") {
      return refuse(line_, "routers are not possible; Switch, Ca and Hca are");
    }
    return refuse(line_,
                  "neither a node (Switch 36 \"id\", Ca 1 \"id\"), nor a port under one "
                  "([1] \"peer\"[2]), nor a GUID (switchguid=0x.., caguid=0x..)");
  }

  bool read_guid(Line line, bool is_switch) {
    const auto number = line.take('=') ? line.take_number(16) : std::nullopt;
    if (!number || *number == 0) {
      return refuse(line_, "a GUID is 64 bits in hex and not 0, as in caguid=0x8f10403960984");
    }
    next_guid_[is_switch ? 1 : 0] = *number;
    return true;
  }

  bool read_node(Line line, bool is_switch) {
    const auto count = line.take_number(10);
    const auto id = line.take_quoted();
    const std::uint32_t most = is_switch ? kMaxPortsPerSwitch : kMaxPortsPerHca;
    if (!count || !id || id->empty()) {
      return refuse(line_,
                    "a node is its kind, its count of ports and its id in quotes, as in "
                    "Switch 36 \"s1\"");
    }
    if (*count == 0 || *count > most) {
      return refuse(line_, "{} ports are not possible: a {} has 1 to {}", *count,
                    is_switch ? "switch" : "Ca", most);
    }
    if (!by_id_.try_emplace(*id, nodes_.size()).second) {
      return refuse(line_, "a second node has the id \"{}\"", *id);
    }
    NetNode& node = nodes_.emplace_back();
    node.line = line_;
    node.is_switch = is_switch;
    node.port_count = static_cast<std::uint32_t>(*count);
    node.id = *id;
    node.description = line.take('#') ? line.take_quoted().value_or("") : "";
    std::uint64_t& next = next_guid_[is_switch ? 1 : 0];
    node.guid = Guid{next};
    next += is_switch ? 1 : node.port_count + 1;  // as ibsim counts
    is_in_record_ = true;
    return true;
  }

  bool read_port(Line line) {
    NetNode& node = nodes_.back();
    NetPort port;
    port.line = line_;
    line.take('[');
    const auto number = line.take_number(10);
    if (!number || !line.take(']') || *number == 0 || *number > node.port_count) {
      return refuse(line_, "a port is its number in brackets, and \"{}\" has 1 to {}", node.id,
                    node.port_count);
    }
    port.number = static_cast<std::uint32_t>(*number);
    port.guid = line.take_guid();
    const auto peer = line.take_quoted();
    if (!peer) {
      return refuse(line_, "behind a port stands its peer, as in [1] \"s1\"[2]");
    }
    port.peer = *peer;
    if (line.take('[')) {
      const auto peer_port = line.take_number(10);
      if (!peer_port || !line.take(']') || *peer_port > kMaxPortsPerSwitch) {
        return refuse(line_, "the peer's port is a number in brackets, as in [1] \"s1\"[2]");
      }
      port.peer_port = static_cast<std::uint32_t>(*peer_port);
    }
    return read_lmc(line, port) && keep_port(node, port);
  }

  /// Parses the comment of a port line in an HCA's record: `# lid 4 lmc 1 "peer" ...`
  bool read_lmc(Line line, NetPort& port) {
    constexpr std::string_view kLmc = " lmc ";
    const std::string_view comment = line.rest().substr(0, line.rest().find('"'));
    const std::size_t at = comment.find(kLmc);
    if (nodes_.back().is_switch || at == std::string_view::npos) {
      return true;
    }
    const auto lmc = Line{comment.substr(at + kLmc.size())}.take_number(10);
    if (!lmc || *lmc > kMaxLmc) {
      return refuse(line_, "an LMC is in 0..{}", kMaxLmc);
    }
    port.lmc = static_cast<std::uint8_t>(*lmc);
    return true;
  }

  bool keep_port(NetNode& node, const NetPort& port) {
    for (const NetPort& other : node.ports) {
      if (other.number == port.number) {
        return refuse(line_, "port {} has a line already, {}", port.number, other.line);
      }
    }
    node.ports.push_back(port);
    return true;
  }

  bool make_nodes() {
    if (nodes_.empty()) {
      return refuse(std::max(line_, 1U), "there is no node");
    }
    std::unordered_map<std::string_view, std::size_t> uses;  // of each description
    for (const NetNode& node : nodes_) {
      ++uses[node.description];
    }
    for (const NetNode& node : nodes_) {
      const bool is_own = is_valid_name(node.description) && uses[node.description] == 1;
      const std::string_view name = is_own ? node.description : node.id;
      if (!(node.is_switch ? make_switch(node, name) : make_hca(node, name))) {
        return false;
      }
    }
    return true;
  }

  bool take_name(const NetNode& node, std::string_view name) {
    if (!is_valid_name(name)) {
      return refuse(node.line,
                    "\"{}\" will not do as a name: 1 to {} letters, digits, '-', '_' or '.'; a "
                    "comment behind it may give a better one: # \"name\"",
                    name, kMaxNameBytes);
    }
    return names_.insert(name).second || refuse(node.line, "a second node is called \"{}\"", name);
  }

  bool make_switch(const NetNode& node, std::string_view name) {
    if (!take_name(node, name)) {
      return false;
    }
    ends_.push_back({NodeKind::Switch, static_cast<std::uint32_t>(topology_.switches.size()), 0,
                     PortNumber{0}});
    SwitchDescription& description = topology_.switches.emplace_back();
    description.name = name;
    description.port_count = static_cast<std::uint8_t>(node.port_count);
    description.guid = node.guid;
    return true;
  }

  bool make_hca(const NetNode& node, std::string_view name) {
    const auto both = host_and_hca(node.description);
    const std::string_view host_name = both ? both->first : name;
    const auto [found, is_new] = hosts_.try_emplace(host_name, topology_.hosts.size());
    if (is_new) {
      if (!take_name(node, host_name)) {
        return false;
      }
      topology_.hosts.emplace_back().name = host_name;
    }
    HostDescription& host = topology_.hosts[found->second];
    if (host.hcas.size() == kMaxHcasPerHost) {
      return refuse(node.line, "a host has at most {} HCAs", kMaxHcasPerHost);
    }
    ends_.push_back({NodeKind::Host, static_cast<std::uint32_t>(found->second),
                     static_cast<std::uint8_t>(host.hcas.size()), PortNumber{0}});
    HcaDescription& hca = host.hcas.emplace_back();
    hca.name = both ? std::string{both->second} : fmt::format("weft{}", host.hcas.size() - 1);
    hca.ports.resize(node.port_count);
    hca.guid = node.guid;
    for (const NetPort& port : node.ports) {
      hca.ports[port.number - 1].lmc = port.lmc;
      hca.ports[port.number - 1].guid = port.guid;
    }
    return true;
  }

  /// Creates each cable once, whether the file lists it at one end or at both.
  bool make_cables() {
    for (std::size_t position = 0; position < nodes_.size(); ++position) {
      for (const NetPort& port : nodes_[position].ports) {
        const auto found = by_id_.find(port.peer);
        if (found == by_id_.end()) {
          return refuse(port.line, "no node has the id \"{}\"", port.peer);
        }
        const NetNode& peer = nodes_[found->second];
        if (port.peer_port == 0 || port.peer_port > peer.port_count) {
          return refuse(port.line, "\"{}\" has no port {}: its ports are 1..{}", port.peer,
                        port.peer_port, peer.port_count);
        }
        const auto back = std::ranges::find(peer.ports, port.peer_port, &NetPort::number);
        const bool is_listed = back != peer.ports.end();
        if (is_listed && (back->peer != nodes_[position].id || back->peer_port != port.number)) {
          return refuse(port.line, "its peer's port has another cable, in line {}", back->line);
        }
        if (!is_listed ||
            std::pair{position, port.number} < std::pair{found->second, port.peer_port}) {
          topology_.links.push_back({end(position, port.number), end(found->second, port.peer_port),
                                     std::nullopt, Duration{}});
        }
      }
    }
    return true;
  }

  [[nodiscard]] EndPoint end(std::size_t position, std::uint32_t port) const {
    EndPoint end = ends_[position];
    end.port = PortNumber{static_cast<std::uint8_t>(port)};
    return end;
  }

  std::string_view origin_;
  Error error_;
  std::uint32_t line_{};
  bool is_in_record_{};  // port lines may follow
  std::array<std::uint64_t, 2> next_guid_{0x10'0000,
                                          0x20'0000};  // ibsim's, for HCAs and for switches
  std::vector<NetNode> nodes_;
  std::unordered_map<std::string_view, std::size_t> by_id_;
  std::vector<EndPoint> ends_;  // of nodes_, with port 0
  std::unordered_map<std::string_view, std::size_t> hosts_;
  std::unordered_set<std::string_view> names_;
  Topology topology_;
};

}  // namespace

bool looks_like_net(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Line line{text.substr(0, end)};
    if (!line.is_empty() && line.front() != '#') {
      const std::string_view word = line.take_word();
      return is_one_of(word, kNodeKinds) || is_one_of(word, kGuidKeys) ||
             is_one_of(word, kPassedOver) || word == "Rt";
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

Result<Topology> read_net(std::string_view text, std::string_view origin) {
  return NetReader{origin}.read(text);
}

}  // namespace weft::fabric
