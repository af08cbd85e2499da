#pragma once

// What `weft net addr`, `neigh` and `stats` show of a host's interface, as text or as JSON: what a
// TUN cannot have, the 20-octet address, the neighbours and the counters of IPoIB. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "sa/neighbors.h"
#include "ulp/ipoib/connection_table.h"
#include "wire/ipoib/hardware_address.h"

namespace weft::programs::net {

struct InterfaceView {
  std::string_view name;
  bool is_up{};
  std::vector<std::uint32_t> ports{};  ///< of the host, from 1
  std::uint32_t active_port{};         ///< which of them carries it
  std::uint32_t mtu{};
  ipoib::ConnectedMode mode{};
  wire::IpoibHardwareAddress hardware{};
  PKey pkey{};
  Gid broadcast{};                             ///< zero: not a member of the group
  std::optional<QKey> qkey{};                  ///< of the group
  std::vector<std::byte> client_identifier{};  ///< of DHCP (RFC 4390 §2.1)
  std::span<const InterfaceAddress> addresses{};
};

struct NamedCount {
  std::string_view name;
  std::uint64_t count{};
};

/// The 20 octets as RFC 4391 §9.1.1 orders them, with colons, as `ip` prints them.
[[nodiscard]] std::string link_address_text(const wire::IpoibHardwareAddress& hardware);

[[nodiscard]] std::string show_addresses(const InterfaceView& view, bool is_json);
[[nodiscard]] std::string show_neighbors(std::span<const sa::NeighborTable::Entry> neighbors,
                                         bool is_json);
[[nodiscard]] std::string show_counts(std::span<const NamedCount> counts, bool is_json);

}  // namespace weft::programs::net
