#pragma once

// What RDMA-CM's users say and hear (librdmacm's interface, IBTA vol 1 annex A11). Values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/keys.h"
#include "base/strong.h"
#include "cm/qp_attributes.h"
#include "cm/rdma/socket_address.h"
#include "cm/types.h"

namespace weft::cm {

/// An rdma_cm_id. Never used twice by one manager; 0 is none.
using RdmaCmId = Ordered<struct RdmaCmIdTag, std::uint32_t>;
/// A multicast group that an id has joined. Never used twice; 0 is none.
using GroupId = Ordered<struct GroupIdTag, std::uint32_t>;

/// Where an id is in its life.
enum class RdmaCmState : std::uint8_t {
  Idle,
  AddressBound,
  AddressQuery,
  AddressResolved,
  RouteQuery,
  RouteResolved,
  Listen,
  Connect,  ///< from a request, sent or received, on
  Disconnect,
  ServiceQuery,  ///< bound to an address, and SA is asked where a service is
};
inline constexpr unsigned kRdmaCmStateCount = 10;
[[nodiscard]] std::string_view name_of(RdmaCmState state);

/// In the order and with the numbers of librdmacm's enum rdma_cm_event_type.
enum class RdmaCmEventType : std::uint8_t {
  AddressResolved,
  AddressError,
  RouteResolved,
  RouteError,
  ConnectRequest,
  ConnectResponse,
  ConnectError,
  Unreachable,
  Rejected,
  Established,
  Disconnected,
  DeviceRemoval,
  MulticastJoin,
  MulticastError,
  AddressChange,
  TimewaitExit,
  AddrinfoResolved,
  AddrinfoError,
  User,  ///< of the id's program itself
};

/// Parameters of a connection, or of a datagram service (UD has QPN and Q_Key only).
struct ConnectionParameters {
  Qpn qpn{};
  QKey qkey{};
  bool has_srq{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t flow_control{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry_count{};
  Ece ece{};
  std::vector<std::byte> private_data{};
};

/// Why something ended in an error, as users are told it.
enum class RdmaCmFailure : std::uint8_t {
  None,
  TimedOut,            ///< ETIMEDOUT
  NetworkUnreachable,  ///< ENETUNREACH: no port leads there
  NoSuchAddress,       ///< EADDRNOTAVAIL: the source is no address of this host
  NetworkDown,         ///< ENETDOWN
  HostUnreachable,     ///< EHOSTUNREACH: SA knows no path
  InvalidArgument,     ///< EINVAL
  Cancelled,           ///< EINTR
  NoSuchService,       ///< ENOENT: SA knows none
};

struct RdmaCmEvent {
  RdmaCmEventType type{};
  std::uint64_t context{};  ///< the id's; of a request its listener's, of a group the group's
  RdmaCmId id{};            ///< of a request the new id
  RdmaCmId listener{};      ///< of a request
  GroupId group{};          ///< of MulticastJoin and MulticastError
  RdmaCmFailure failure{};
  /// Of Rejected the reason, of Unreachable the status of SIDR_REP, of what a program wrote what it
  /// said; else 0.
  std::int32_t status{};
  std::uint64_t argument{};  ///< of User
  ConnectionParameters parameters{};
  QpAddress address{};  ///< of UD and groups: how to send there
};

/// Takes what ids tell. It must not call the manager.
class RdmaCmSink {
 public:
  RdmaCmSink() = default;
  virtual ~RdmaCmSink() = default;
  RdmaCmSink(const RdmaCmSink&) = delete;
  RdmaCmSink& operator=(const RdmaCmSink&) = delete;

  /// False: there is no room for a connection request, which is then forgotten and may come again.
  [[nodiscard]] virtual bool take(const RdmaCmEvent& event) = 0;
};

/// What users may set of an id.
enum class RdmaCmOption : std::uint8_t { TypeOfService, ReuseAddress, AfOnly, AckTimeout };

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
  std::string device{};  ///< its verbs name; empty while the id is bound to none
  PortNumber port{};
  PKey pkey{};
  SocketAddress source{};
  SocketAddress destination{};
  Gid sgid{};
  Gid dgid{};
  std::vector<Path> paths{};  ///< the first is the primary one
};

}  // namespace weft::cm
