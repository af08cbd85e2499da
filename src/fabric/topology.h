#pragma once

// The description of a fabric as a user writes it: hosts with their HCAs, switches, cables. An HCA,
// a switch and a cable are of one kind of link, and a cable joins what is of its kind, so that a
// fabric can have an Omni-Path part beside an InfiniBand part. It says what exists, not its state:
// LIDs, routes and port states are in fabric/tables.h. Values without behaviour or threading rule.
// Text goes in and out as strings; files are left to the caller.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/fault_description.h"
#include "fabric/function_description.h"
#include "fabric/link_address.h"
#include "verbs/mtu.h"

namespace weft::fabric {

enum class NodeKind : std::uint8_t { Host = 1, Switch = 2 };

/// Limits. All but the last three are policy, not from the specification.
inline constexpr std::uint32_t kMaxNodes = 0xF'FFFF;  // hosts and switches each
inline constexpr std::uint32_t kMaxHcasPerHost = 254;
inline constexpr std::uint32_t kMaxPortsPerHca = 2;
inline constexpr std::uint32_t kMaxPKeysPerPort = 128;
inline constexpr std::uint32_t kMaxAddressesPerPort = 64;
inline constexpr std::uint32_t kMaxFunctionsPerHost = 247;  // kMostVirtualFunctions of a port
inline constexpr std::uint32_t kMaxNameBytes = 63;
inline constexpr std::uint32_t kMaxPortsPerSwitch = 254;  // IBTA vol 1 §14.2.5.3: 255 is reserved
inline constexpr std::uint8_t kMaxLmc = 7;                // IBTA vol 1 §4.1.3: three bits
/// Omni-Path's largest MTU, of what a packet has behind its link header: that of all its links.
inline constexpr std::uint32_t kOmniPathMtuBytes = 10'240;

struct HcaPortDescription {
  std::uint8_t lmc{};  // the port answers to 2^lmc LIDs
  verbs::Mtu max_mtu{verbs::Mtu::Mtu4096};
  std::vector<PKey> pkeys{kDefaultPKey};      // never empty
  std::optional<Guid> guid{};                 // nothing: see guid_of()
  std::vector<InterfaceAddress> addresses{};  // besides those by position (fabric/addresses.h)
  bool operator==(const HcaPortDescription&) const = default;
};

struct HcaDescription {
  std::string name;  // weft0, weft1, ... within its host
  std::vector<HcaPortDescription> ports;
  std::optional<Guid> guid{};                // node GUID; nullopt: see guid_of()
  std::vector<PlannedFunction> functions{};  // virtual functions that share its port 1
  LinkType link_type{LinkType::InfiniBand};  // of all its ports
  bool operator==(const HcaDescription&) const = default;
};

struct HostDescription {
  std::string name;
  std::vector<InterfaceAddress> addresses;  // of the first port, in addition to its own
  std::vector<HcaDescription> hcas;
  bool operator==(const HostDescription&) const = default;
};

/// A switch.
struct SwitchDescription {
  std::string name;
  std::uint8_t port_count{};   // external ports, 1..port_count; port 0 always exists
  std::optional<Guid> guid{};  // nullopt: see guid_of()
  LinkType link_type{LinkType::InfiniBand};
  bool operator==(const SwitchDescription&) const = default;
};

/// An end of a cable: an index into Topology::hosts or Topology::switches. `hca` counts from 0 and
/// is 0 for a switch; `port` counts from 1.
struct EndPoint {
  NodeKind kind{NodeKind::Host};
  std::uint32_t node{};
  std::uint8_t hca{};
  PortNumber port;
  bool operator==(const EndPoint&) const = default;
};

struct LinkDescription {
  EndPoint a;
  EndPoint b;
  std::optional<double> rate_gbps;      // nullopt: no limit
  Duration delay;                       // one way
  LinkType type{LinkType::InfiniBand};  // that of both ends
  bool operator==(const LinkDescription&) const = default;
};

struct Topology {
  std::uint64_t subnet_prefix{kDefaultGidPrefix};
  TimeScale time_scale;  // applies to the specification's timeouts, not to links
  std::vector<HostDescription> hosts;
  std::vector<SwitchDescription> switches;
  std::vector<LinkDescription> links;
  std::vector<FaultDescription> faults;  // active from the start, until they expire if they do
  bool operator==(const Topology&) const = default;
};

/// A host with `hca_count` HCAs (weft0, weft1, ...) with `ports_per_hca` ports each.
[[nodiscard]] HostDescription make_host(std::string name, std::uint32_t hca_count = 1,
                                        std::uint32_t ports_per_hca = 1);

/// Checks that names are unique and well-formed, numbers within limits, and ports cabled at most
/// once, to ports of their kind.
[[nodiscard]] Result<void> validate(const Topology& topology);

/// Parses the TOML form, which topology_toml.cc describes. `origin` names the text in errors, which
/// give the line and a remedy. The result is valid.
[[nodiscard]] Result<Topology> read_topology(std::string_view toml,
                                             std::string_view origin = "topology");

/// TOML that read_topology() parses to an equal value.
[[nodiscard]] std::string write_topology(const Topology& topology);

/// The scale for a factor given by a user, such as 0.1 for timeouts of a tenth.
[[nodiscard]] Result<TimeScale> time_scale_of(double factor);

/// Settings for all links that have none of their own.
struct LinkDefaults {
  std::optional<double> rate_gbps;
  Duration delay;
};

/// Applies `defaults`. Refuses what validate() refuses.
[[nodiscard]] Result<void> apply(const LinkDefaults& defaults, Topology& topology);

/// The kind of an end point's HCA or switch.
[[nodiscard]] LinkType link_type_of(const Topology& topology, const EndPoint& end_point);

/// Makes all HCAs, switches and links those of a kind.
void set_link_type(Topology& topology, LinkType type);

/// h1 and h2 connected back to back.
[[nodiscard]] Topology generate_pair();

/// h1 .. hN on switch s1, 2 <= N <= 254; hN is on port N.
[[nodiscard]] Result<Topology> generate_star(std::uint32_t hosts);

/// k-ary fat tree, k even. Two levels: k leaves s1 .. sk with k/2 hosts each (ports 1 .. k/2), k/2
/// spines with k ports; port k/2+S of leaf L connects to port L of spine S. Three levels: k pods of
/// k/2 leaves and k/2 aggregation switches, k^2/4 core switches, k^3/4 hosts. Switches are numbered
/// leaves first, then aggregation by pod, then core; hosts by leaf.
[[nodiscard]] Result<Topology> generate_fat_tree(std::uint32_t k, std::uint32_t levels = 2);

/// Torus of one to five dimensions of `sizes` switches, with `hosts` each (ports 1 .. hosts). The
/// first dimension varies fastest in switch numbers. In dimension d (from 0), port hosts+2d+1
/// connects to the next switch and hosts+2d+2 to the previous one; a dimension of size 2 has a
/// single cable.
[[nodiscard]] Result<Topology> generate_torus(const std::vector<std::uint32_t>& sizes,
                                              std::uint32_t hosts = 1);

/// Dragonfly, with the parameters of Kim, Dally, Scott and Abts (ISCA 2008): groups of `a`
/// switches, fully connected, each with `p` hosts (ports 1 .. p), a-1 cables within its group and
/// `h` to other groups. `groups` is 2 .. a*h+1, by default the maximum; with fewer, each pair of
/// groups has the same number of cables, as many as fit.
[[nodiscard]] Result<Topology> generate_dragonfly(std::uint32_t a, std::uint32_t p, std::uint32_t h,
                                                  std::optional<std::uint32_t> groups = {});

inline constexpr std::string_view kGeneratorForms =
    "pair, star:N, fat-tree:K[:LEVELS], torus:AxBxC[:HOSTS] or dragonfly:A:P:H[:GROUPS], each with "
    "opa: before it for Omni-Path links";

/// Parses one of kGeneratorForms, with spaces or colons, as on a command line.
[[nodiscard]] Result<Topology> generate(std::string_view description);

/// True if generate() recognises the kind, which distinguishes it from a file name.
[[nodiscard]] bool names_a_generator(std::string_view description);

/// The cabled ports that a name denotes: one for `h1:1`, `h1/weft1:2`, `s1:3`, all of the node for
/// `h1` or `s1`. Never empty.
[[nodiscard]] Result<std::vector<EndPoint>> cabled_ports(const Topology& topology,
                                                         std::string_view name);

/// The text of `weft topology show`: nodes, HCAs, ports, GUIDs and cables.
[[nodiscard]] std::string show(const Topology& topology);

/// An end point as files and messages write it: `h1:1`, `h1/weft1:2`, `s1:36`. The host's first HCA
/// is omitted.
[[nodiscard]] std::string to_string(const Topology& topology, const EndPoint& end_point);

/// A GUID from kind and position (policy, not from the specification): 24 bits locally administered
/// prefix, 4 bits kind, 20 bits position counted from 1, 8 bits HCA, 8 bits port, where 0 is the
/// node itself. Stable as long as nodes are only appended.
[[nodiscard]] constexpr Guid make_guid(NodeKind kind, std::uint32_t node, std::uint32_t hca,
                                       std::uint32_t port) {
  constexpr std::uint64_t kPrefix = 0x02'5746;
  return Guid{kPrefix << 40 | std::uint64_t{static_cast<std::uint8_t>(kind)} << 36 |
              std::uint64_t{node + 1} << 16 | std::uint64_t{hca} << 8 | port};
}

/// The GUID of a port, or for port 0 that of the HCA or switch as a node: the one in the
/// description, else an HCA's own GUID plus the port number, else make_guid().
[[nodiscard]] Guid guid_of(const Topology& topology, const EndPoint& end_point);

}  // namespace weft::fabric
