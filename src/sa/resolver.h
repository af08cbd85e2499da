#pragma once

// IP address resolution of one host: finds the local interface and the GID for an IP address by
// asking the neighbours (ARP and neighbour discovery over IPoIB, RFC 4391 §9), and answers the same
// requests of others. Pure: datagrams and time go in; datagrams, completions and the next deadline
// come out. The SaClients of its ports join the broadcast groups. Not thread-safe.
//
// Handlers are called from handle_timeout() only, once for each resolve(). They may call any
// member, but must not destroy the resolver.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/strong.h"
#include "base/time.h"
#include "mad/datagram.h"
#include "sa/address_source.h"
#include "sa/carried_interface.h"
#include "sa/ip_interface.h"
#include "sa/ipoib_interface.h"
#include "sa/local_port.h"
#include "sa/sa_client.h"

namespace weft::sa {

/// Identifies a pending resolution. Never reused.
using ResolutionId = Ordered<struct ResolutionIdTag, std::uint64_t>;

/// Parameters of `resolve`.
struct ResolutionRequest {
  IpAddress source{};  ///< unspecified: any
  IpAddress destination{};
  Duration timeout{};
  /// target of loopback addresses for this request; none: as configured
  std::optional<IpAddress> loopback_target{};
};

/// Result of a resolution.
struct Resolution {
  IpAddress source{};       ///< local address to use for the destination
  IpAddress destination{};  ///< as requested
  PortKey port{};           ///< local port
  PKey pkey{};
  Gid source_gid{};
  Gid destination_gid{};
  bool is_own_host{};  ///< the destination is an address of this host; nothing was sent
};

/// Reason why a resolution failed, with the errno that users see.
enum class ResolutionFailure : std::uint8_t {
  Cancelled,
  TimedOut,      ///< -ETIMEDOUT: no neighbour answered for the address
  NoRoute,       ///< -ENETUNREACH: the destination is in no interface's subnet
  NoSuchSource,  ///< -EADDRNOTAVAIL: the source is not an address of this host
  Down,          ///< -ENETDOWN: the interface's port did not become Active within the timeout
};

/// A failure with its reason in words.
struct ResolutionError {
  ResolutionFailure failure{};
  std::string reason;
};

using ResolutionHandler = std::function<void(
    ResolutionId, const std::expected<Resolution, ResolutionError>& resolution, Instant now)>;

/// Upper bounds (docs/ARCHITECTURE.md, decision 15); policy, not from the specification.
struct ResolverLimits {
  std::size_t interfaces{512};
  std::size_t resolutions{4096};  ///< pending
  InterfaceLimits interface{};
};

/// Configuration of a Resolver.
struct ResolverOptions {
  ResolverLimits limits{};
  /// The host that 127.0.0.0/16 and ::1 stand for (docs/ARCHITECTURE.md, decision 16), as set by
  /// WEFT_LOOPBACK=h1; none: this host.
  std::optional<IpAddress> loopback_target{};
};

/// Resolves IP addresses over all interfaces of one host.
class Resolver {
 public:
  /// `on_due`, if any, is called when handle_timeout() or poll_transmit() is due at once.
  explicit Resolver(const ResolverOptions& options = {}, std::function<void()> on_due = {});
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Adds an interface, whose broadcast group is joined as soon as the port is Active. `sa` is the
  /// port's client and must outlive the resolver. Fails if another interface has one of the
  /// addresses, and above the limit.
  [[nodiscard]] Result<void> add_interface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                                           std::vector<InterfaceAddress> addresses, Instant now);
  void remove_interface(const InterfaceKey& key, Instant now);
  /// An interface that a program of the host carries has these addresses from now on; without any
  /// it is gone. One that another interface has stays that one's. `sa` as of add_interface().
  void set_carried(const InterfaceKey& key, const SaClient& sa,
                   std::span<const InterfaceAddress> addresses);
  /// The next neighbour that a program is to find, for which of its interfaces, and what it says.
  [[nodiscard]] std::optional<std::pair<InterfaceKey, CarriedInterface::Question>> poll_question();
  void take_neighbor(const InterfaceKey& key, const IpAddress& address, const Gid& gid);
  /// Call after the port's SaClient was updated by set_port.
  void port_changed(PortKey port, Instant now);
  /// The port has another LID than before: its interfaces announce their addresses.
  void announce(PortKey port, Instant now);

  /// Resolves `destination`. `source`, unless unspecified, selects the interface. Addresses of this
  /// host, 127.0.0.1 and ::1 need no packet. `loopback_target` overrides the configured one. An
  /// IPv4-mapped IPv6 address is treated as IPv4. Fails above the limit and for addresses that no
  /// host can have (multicast, unspecified); all other errors are reported to the handler.
  [[nodiscard]] Result<ResolutionId> resolve(const ResolutionRequest& resolution_request,
                                             ResolutionHandler handler, Instant now);
  [[nodiscard]] Result<ResolutionId> resolve(const IpAddress& source, const IpAddress& destination,
                                             Duration timeout, ResolutionHandler handler,
                                             Instant now) {
    return resolve({.source = source, .destination = destination, .timeout = timeout},
                   std::move(handler), now);
  }
  /// Whom resolve() asks for addresses that are in no interface's subnet, from now on; null:
  /// nobody. Outlives this, or the next call.
  void set_address_source(AddressSource* source);
  void set_loopback_target(const std::optional<IpAddress>& address) {
    options_.loopback_target = address;
  }
  /// Completes the resolution with Cancelled; does nothing if it is already complete.
  void cancel(ResolutionId resolution, Instant now);

  /// One of the host's own addresses and its interface, as needed for bind and listen.
  struct Own {
    InterfaceKey interface{};
    InterfaceAddress address{};
  };
  [[nodiscard]] std::optional<Own> find_own(const IpAddress& address) const;
  /// All of the host's addresses, in the order of its interfaces.
  [[nodiscard]] std::vector<Own> own_addresses() const;
  /// The source address for a destination; none if it is in no interface's subnet.
  [[nodiscard]] std::optional<Own> choose_source(const IpAddress& destination) const;

  /// Processes a datagram that a QP of an interface received, directly or by multicast. The content
  /// is not trusted.
  void handle_datagram(PortKey port, const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  /// The next datagram to send, and its port.
  [[nodiscard]] std::optional<std::pair<PortKey, mad::Datagram>> poll_transmit();
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] IpoibInterface* interface(const InterfaceKey& key);
  [[nodiscard]] std::size_t resolutions() const { return resolutions_.size() + asked_.size(); }

 private:
  /// A resolution that waits for a neighbour's answer.
  struct Pending {
    Resolution resolution;
    IpAddress neighbor{};  // the destination, as IPv4 or IPv6
    IpInterface* interface{};
    Instant end{};
    ResolutionHandler handler;
  };
  /// One that waits for the address source's answer.
  struct Asked {
    AddressSource::QuestionId question{};
    Resolution resolution;
    ResolutionError otherwise;
    ResolutionHandler handler;
  };
  using Outcome = std::expected<Resolution, ResolutionError>;
  using WaitingKey = std::pair<IpInterface*, IpAddress>;

  [[nodiscard]] bool is_local_address(const IpAddress& address) const;
  [[nodiscard]] std::vector<IpInterface*> all() const;
  [[nodiscard]] IpInterface* interface_with(const IpAddress& address) const;
  [[nodiscard]] CarriedInterface* carried(const InterfaceKey& key) const;
  void forget_waiting_for(const IpInterface& interface);
  [[nodiscard]] IpInterface& with(const Own& own) const;
  [[nodiscard]] std::expected<Own, ResolutionError> choose(const IpAddress& source,
                                                           const IpAddress& destination) const;
  [[nodiscard]] std::optional<Own> own_of_family(IpFamily family) const;
  [[nodiscard]] Outcome own_host(const IpAddress& source, const IpAddress& target,
                                 const IpAddress& asked) const;
  [[nodiscard]] bool ask_source(ResolutionId id, const IpAddress& target,
                                const IpAddress& destination, const ResolutionError& otherwise,
                                ResolutionHandler& handler, Instant now);
  void finish_asked(ResolutionId id, const std::optional<Gid>& dgid);
  void complete(ResolutionId id, ResolutionHandler handler, Outcome outcome);
  void finish(ResolutionId id, Outcome outcome);
  void take_found();
  void expire(Instant now);

  ResolverOptions options_;
  std::function<void()> on_due_;
  std::vector<std::unique_ptr<IpoibInterface>> interfaces_;
  std::vector<std::unique_ptr<CarriedInterface>> carried_;
  AddressSource* address_source_{};  // null: nobody
  std::map<ResolutionId, Asked> asked_;
  std::map<ResolutionId, Pending> resolutions_;
  std::set<std::pair<WaitingKey, ResolutionId>> waiting_;  // all of resolutions_
  std::set<std::pair<Instant, ResolutionId>> ends_;        // all of resolutions_
  std::deque<std::function<void(Instant)>> calls_;         // pending calls of handlers, in order
  std::size_t next_sender_{};                              // round-robin over interfaces
  std::uint64_t last_resolution_{};
};

}  // namespace weft::sa
