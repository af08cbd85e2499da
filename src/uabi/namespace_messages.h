#pragma once

// Messages about hosts as namespaces (namespaces/host_namespaces.h). The `weft` command makes them,
// since it runs with the user's rights in the user's session; the daemon keeps their descriptors,
// and with them the namespaces, while the fabric lives. Two commands may make the fabric's
// at once: what comes first is kept. A host is made by one, and others wait until it is kept; if
// one takes too long, another's is kept, and both are told of that.
//
//   AskNamespaces         -> FabricWanted, HostWanted or HostKept
//   KeepFabricNamespaces  -> HostWanted or HostKept
//   KeepHostNamespaces    -> HostKept

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"

namespace weft::uabi {

/// Addresses of a host's interface; policy.
inline constexpr std::size_t kMaxHostAddresses = 32;  // kMost<std::string> of messages.cc

/// For a program on a host. Answered by what is kept, or by what is to be made.
struct AskNamespaces {
  std::uint32_t version{};
  std::string host;
};

/// Descriptors: user namespace, network namespace with the hub.
struct KeepFabricNamespaces {
  std::uint32_t version{};
  std::string host;  // which is wanted next
};

/// Descriptors: mount, network and UTS namespace, the folders that are /sys/class and
/// /dev/infiniband there, and what fills /sys/class/weft: the /dev/fuse of a file system that is
/// mounted there, or a folder that is read-only there.
struct KeepHostNamespaces {
  std::uint32_t version{};
  std::string host;
};
inline constexpr std::size_t kKeepHostDescriptors = 6;

/// How the host is to look (namespaces::HostDescription).
struct HostPlan {
  std::vector<std::string> addresses;  // `127.77.0.1`, or with a prefix: `10.0.0.1/16`
  std::uint32_t hub_port{};            // for this attempt only: numbers are not used twice
  std::string hosts_file;
  std::string fabric_id;
};

/// From a program that carries IP for a port of its host (counted over all its HCAs), as `weft net`
/// does: the addresses of its interface, `10.77.0.1/16`, are the host's for RDMA-CM too, while the
/// program answers for them on the link. They stand until the connection says others or ends.
/// Answered by an empty Text. Who is asked for a neighbour's address is the program, since the
/// table of the interface's neighbours is its own:
///
///   AskNeighbor   -> TellNeighbor, or nothing while nobody has it
struct CarryAddresses {
  std::uint32_t version{};
  std::string host;
  std::uint32_t port_of_host{};
  std::uint16_t pkey{};  // of the interface
  std::vector<std::string> addresses;
};

/// To the program: who has this address, `10.77.0.2`, on the link of its interface? Whoever wants
/// to know waits so long.
struct AskNeighbor {
  std::string neighbor;
  std::uint32_t within_ms{};
};
struct TellNeighbor {
  std::string neighbor;
  Gid gid{};
};

/// From the same program: the groups that its interface sends to without listening, as SA has
/// confirmed. SA hears of those memberships by the program's own MADs, and they end with the
/// connection. All of them each time.
struct HoldGroups {
  std::vector<Gid> mgids;
};
inline constexpr std::size_t kMaxHeldGroups = 1'024;  // as the interface has at most

/// The fabric has no namespaces yet.
struct FabricWanted {};

/// The fabric has, the host has none yet. Descriptors: user namespace, hub.
struct HostWanted {
  HostPlan plan;
};
inline constexpr std::size_t kHostWantedDescriptors = 2;

/// Descriptors: user, mount, network and UTS namespace of the host, to enter.
struct HostKept {};
inline constexpr std::size_t kHostKeptDescriptors = 4;

}  // namespace weft::uabi
