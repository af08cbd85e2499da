#pragma once

// Of one host: "which port and GID has this IP address", asked of the neighbours themselves as a
// kernel does (ARP and neighbour discovery over IPoIB, RFC 4391 §9), and which of the host's own
// ports leads there. It answers the same questions of others. Pure: datagrams and time in,
// datagrams, completions and the next deadline out; SaClients make it a member of the broadcast
// groups. One thread.
//
// Handlers are called from handle_timeout() only, once for each resolve(), and may call everything
// here but destroy the resolver.

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
#include "sa/ipoib_interface.h"
#include "sa/local_port.h"
#include "sa/sa_client.h"

namespace weft::sa {

using ResolutionId = Ordered<struct ResolutionIdTag, std::uint64_t>;

/// What is to be resolved.
struct Question {
  IpAddress source{};  ///< unspecified: any
  IpAddress destination{};
  Duration timeout{};
  std::optional<IpAddress> loopback_means{};  ///< to who asks; none: as the resolver is told
};

/// Where an IP address is.
struct Resolution {
  IpAddress source{};       ///< the host's own, that the destination is spoken to from
  IpAddress destination{};  ///< as it was asked for
  PortKey port{};           ///< of the host
  PKey pkey{};
  Gid source_gid{};
  Gid destination_gid{};
  bool is_own_host{};  ///< the destination is an address of this host: no packet was sent
};

enum class ResolutionFailure : std::uint8_t {
  Cancelled,
  TimedOut,      ///< -ETIMEDOUT: nobody there says that it has the address
  NoRoute,       ///< -ENETUNREACH: no interface is in the destination's subnet
  NoSuchSource,  ///< -EADDRNOTAVAIL: the source is no address of this host
  Down,          ///< -ENETDOWN: the interface's port is not Active, and was not within the timeout
};

struct ResolutionError {
  ResolutionFailure failure{};
  std::string reason;
};

using ResolutionHandler = std::function<void(
    ResolutionId, const std::expected<Resolution, ResolutionError>& resolution, Instant now)>;

/// Bounds (docs/ARCHITECTURE.md, decision 15); policy.
struct ResolverLimits {
  std::size_t interfaces{512};
  std::size_t resolutions{4096};  ///< not completed
  InterfaceLimits interface{};
};

struct ResolverOptions {
  ResolverLimits limits{};
  /// What 127.0.0.0/16 and ::1 mean (docs/ARCHITECTURE.md, decision 16); none: the own host.
  /// WEFT_LOOPBACK=h1.
  std::optional<IpAddress> loopback_means{};
};

class Resolver {
 public:
  /// `on_work`, if any, is called when handle_timeout() or poll_transmit() is due at once.
  explicit Resolver(const ResolverOptions& options = {}, std::function<void()> on_work = {});
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// `sa` is the port's and must outlive the resolver. Refused for addresses that another interface
  /// has, and beyond the limit. The interface's broadcast group is joined when the port is Active.
  [[nodiscard]] Result<void> add_interface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                                           std::vector<InterfaceAddress> addresses, Instant now);
  void remove_interface(const InterfaceKey& key, Instant now);
  /// The port's SaClient was told of a change.
  void port_changed(PortKey port, Instant now);

  /// Finds out where `destination` is; `source`, unless unspecified, says which interface to use.
  /// The host's own addresses, and 127.0.0.1 and ::1, need no packet. `loopback_means` overrides
  /// the resolver's for one question. An IPv4-mapped IPv6 address is its IPv4 address. Refused
  /// beyond the limit and for addresses of no host (multicast, unspecified); whatever else is wrong
  /// the handler is told.
  [[nodiscard]] Result<ResolutionId> resolve(const Question& question, ResolutionHandler handler,
                                             Instant now);
  [[nodiscard]] Result<ResolutionId> resolve(const IpAddress& source, const IpAddress& destination,
                                             Duration timeout, ResolutionHandler handler,
                                             Instant now) {
    return resolve({.source = source, .destination = destination, .timeout = timeout},
                   std::move(handler), now);
  }
  void set_loopback_means(const std::optional<IpAddress>& address) {
    options_.loopback_means = address;
  }
  /// Ends it with Cancelled; nothing happens when it is complete.
  void cancel(ResolutionId resolution, Instant now);

  /// Which interface of this host has the address; none. What a listener or a bind asks for.
  struct Own {
    InterfaceKey interface{};
    InterfaceAddress address{};
  };
  [[nodiscard]] std::optional<Own> find_own(const IpAddress& address) const;
  /// All of the host's addresses, in the order of its interfaces.
  [[nodiscard]] std::vector<Own> own_addresses() const;
  /// Where it would be sent from; none: no interface is in that subnet.
  [[nodiscard]] std::optional<Own> choose_source(const IpAddress& destination) const;

  /// A packet's payload that came to a QP of an interface, or to its groups. Anything may come.
  void handle_datagram(PortKey port, const mad::ReceivedDatagram& datagram, Instant now);
  void handle_timeout(Instant now);
  /// The next datagram to send, from which port.
  [[nodiscard]] std::optional<std::pair<PortKey, mad::Datagram>> poll_transmit();
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] IpoibInterface* interface(const InterfaceKey& key);
  [[nodiscard]] std::size_t resolutions() const { return resolutions_.size(); }

 private:
  /// A question that a neighbour has to answer.
  struct Pending {
    Resolution resolution;
    IpAddress neighbor{};  // the destination as IPv4 or IPv6
    IpoibInterface* interface{};
    Instant end{};
    ResolutionHandler handler;
  };
  using Outcome = std::expected<Resolution, ResolutionError>;
  using WaitingKey = std::pair<IpoibInterface*, IpAddress>;

  [[nodiscard]] bool means_own_host(const IpAddress& address) const;
  [[nodiscard]] IpoibInterface* interface_with(const IpAddress& address) const;
  [[nodiscard]] std::expected<Own, ResolutionError> choose(const IpAddress& source,
                                                           const IpAddress& destination) const;
  [[nodiscard]] std::optional<Own> own_of_family(IpFamily family) const;
  [[nodiscard]] Outcome own_host(const IpAddress& source, const IpAddress& target,
                                 const IpAddress& asked) const;
  void complete(ResolutionId id, ResolutionHandler handler, Outcome outcome);
  void finish(ResolutionId id, Outcome outcome);
  void take_resolved(Instant now);
  void expire(Instant now);

  ResolverOptions options_;
  std::function<void()> on_work_;
  std::vector<std::unique_ptr<IpoibInterface>> interfaces_;
  std::map<ResolutionId, Pending> resolutions_;
  std::set<std::pair<WaitingKey, ResolutionId>> waiting_;  // of all in resolutions_
  std::set<std::pair<Instant, ResolutionId>> ends_;        // likewise
  std::deque<std::function<void(Instant)>> calls_;         // of handlers, in order
  std::size_t next_sender_{};                              // interfaces take turns
  std::uint64_t last_resolution_{};
};

}  // namespace weft::sa
