#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/time.h"
#include "sa/local_port.h"

namespace weft::sa {

/// Identifies an interface, such as `ib0`, by its port and partition.
struct InterfaceKey {
  PortKey port{};
  PKey pkey{kDefaultPKey};
  friend constexpr bool operator==(const InterfaceKey&, const InterfaceKey&) = default;
};

/// An IP interface of a host as the resolver of its addresses sees it: what addresses it has, and
/// by whom its neighbours are found. Pure, not thread-safe.
class IpInterface {
 public:
  /// The GID of a neighbour that was solicited.
  struct Found {
    IpAddress address{};
    Gid gid{};
  };

  IpInterface() = default;
  virtual ~IpInterface() = default;
  IpInterface(const IpInterface&) = delete;
  IpInterface& operator=(const IpInterface&) = delete;

  [[nodiscard]] virtual const InterfaceKey& key() const = 0;
  [[nodiscard]] virtual std::span<const InterfaceAddress> addresses() const = 0;
  [[nodiscard]] bool has(const IpAddress& address) const {
    return std::ranges::any_of(addresses(),
                               [&](const InterfaceAddress& own) { return own.address == address; });
  }
  /// Datagrams can be exchanged.
  [[nodiscard]] virtual bool is_up() const = 0;
  /// The port's; zero until it has one.
  [[nodiscard]] virtual Gid gid() const = 0;

  /// The GID of the neighbour that has the address, if known here.
  [[nodiscard]] virtual std::optional<Gid> find(const IpAddress& address, Instant now) const = 0;
  /// Solicits the address until `until`, starting when the interface is up. Returns false if too
  /// many addresses are being solicited.
  [[nodiscard]] virtual bool solicit(const IpAddress& address, Instant until, Instant now) = 0;
  virtual void stop_soliciting(const IpAddress& address) = 0;
  /// Returns and clears the list of neighbours found since the last call.
  [[nodiscard]] virtual std::vector<Found> take_found() = 0;
};

}  // namespace weft::sa
