#pragma once

// Parameters and events of RDMA-CM's users, with the semantics of librdmacm (IBTA vol 1 annex A11).
// Value types.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/keys.h"
#include "base/strong.h"
#include "cm/rdma/socket_address.h"
#include "cm/types.h"
#include "verbs/connection_parameters.h"
#include "verbs/rdma_cm.h"

namespace weft::cm {

/// An rdma_cm_id of one manager. Never reused; 0 means none.
using RdmaCmId = Ordered<struct RdmaCmIdTag, std::uint32_t>;
/// A multicast group joined by an id. Never reused; 0 means none.
using GroupId = Ordered<struct GroupIdTag, std::uint32_t>;

/// The state of an id; a call checks it before anything else.
enum class RdmaCmState : std::uint8_t {
  Idle,
  AddressBound,
  AddressQuery,
  AddressResolved,
  RouteQuery,
  RouteResolved,
  Listen,
  Connect,  ///< from the time a request was sent or received
  Disconnect,
  ServiceQuery,  ///< bound to an address, and SA is asked where a service is
};
inline constexpr unsigned kRdmaCmStateCount = 10;
[[nodiscard]] std::string_view name_of(RdmaCmState state);

using verbs::ConnectionParameters;
using verbs::RdmaCmEventType;
using verbs::RdmaCmOption;

/// Reason for an error event, as reported to the user.
enum class RdmaCmFailure : std::uint8_t {
  None,
  TimedOut,            ///< ETIMEDOUT
  NetworkUnreachable,  ///< ENETUNREACH: no port has a route to the address
  NoSuchAddress,       ///< EADDRNOTAVAIL: the source is not an address of this host
  NetworkDown,         ///< ENETDOWN
  HostUnreachable,     ///< EHOSTUNREACH: SA has no path record
  InvalidArgument,     ///< EINVAL
  Cancelled,           ///< EINTR
  NoSuchService,       ///< ENOENT: SA knows none
};

/// One event of one id.
struct RdmaCmEvent {
  RdmaCmEventType type{};
  /// of the id; for a request, of its listener; for a multicast event, of the group
  std::uint64_t context{};
  RdmaCmId id{};        ///< for a request, the new id
  RdmaCmId listener{};  ///< for a request only
  GroupId group{};      ///< for MulticastJoin and MulticastError only
  RdmaCmFailure failure{};
  /// Of Rejected the reason, of Unreachable the status of SIDR_REP, of what a program wrote what it
  /// said; else 0.
  std::int32_t status{};
  std::uint64_t argument{};  ///< of User
  ConnectionParameters parameters{};
  AddressVector address{};  ///< for UD and multicast: how to reach the destination
};

/// Receives the events of ids. It must not call the manager.
class RdmaCmSink {
 public:
  RdmaCmSink() = default;
  virtual ~RdmaCmSink() = default;
  RdmaCmSink(const RdmaCmSink&) = delete;
  RdmaCmSink& operator=(const RdmaCmSink&) = delete;

  /// Returns false if there is no room for a connection request, which is then dropped; the peer
  /// may retry.
  [[nodiscard]] virtual bool take(const RdmaCmEvent& event) = 0;
};

/// A service as its users know it: its name or, without one, its ServiceID (ServiceRecord, IBTA vol
/// 1 §15.2.5.14).
struct ServiceWish {
  std::uint64_t service_id{};
  std::string name{};
};

/// Where one is.
struct ServicePlace {
  std::uint64_t service_id{};
  Gid gid{};
  PKey pkey{};
  friend bool operator==(const ServicePlace&, const ServicePlace&) = default;
};

/// All that is known of an id by now.
struct RdmaCmIdInfo {
  RdmaCmState state{};
  PortSpace space{};
  QpType qp_type{};
  std::string device{};  ///< verbs name; empty while the id is not bound to a device
  PortNumber port{};
  PKey pkey{};
  SocketAddress source{};
  SocketAddress destination{};
  Gid sgid{};
  Gid dgid{};
  std::vector<Path> paths{};  ///< the primary path first
};

}  // namespace weft::cm
