#pragma once

// RDMA-CM messages between programs and the daemon: channels, ids and events with the semantics of
// librdmacm (IBTA vol 1 annex A11). Included by messages.h.
//
// A channel consists of two sockets: the connection that opened it, for requests, and a socket
// passed in the answer, which programs poll. No data is exchanged on the latter; the daemon keeps
// one octet readable in it exactly while an event is queued. The daemon both writes and removes the
// octet, through a duplicate of the program's end (with MSG_DONTWAIT, because the program may set
// its end to blocking). This allows any number of queued events, lets ids migrate between channels
// with their events, and keeps threads of the program from consuming each other's signal. Closing
// the channel's connection destroys its ids.
//
// Each request is answered at once and in order: by RdmaCmAnswer unless stated otherwise; a refused
// request is always answered by RdmaCmAnswer. Asynchronous results are events. A request may name
// any id on any channel of the same process; libraries use the channel of the id.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/address_vector.h"
#include "verbs/async_event.h"
#include "verbs/connection_parameters.h"
#include "verbs/path.h"
#include "verbs/qp_attributes.h"
#include "verbs/rdma_cm.h"

namespace weft::uabi {

/// As in librdmacm: the maximum of an 8-bit length.
inline constexpr std::size_t kMaxRdmaCmPrivateData = 255;
/// Forward, return and alternate paths, as in the kernel's ABI.
inline constexpr std::size_t kMaxRdmaCmPaths = 6;
/// Places of one service that a program is told; policy.
inline constexpr std::size_t kMaxRdmaCmServices = 256;

// --- parts of messages

/// Kind of an RdmaCmAddress.
enum class RdmaCmFamily : std::uint8_t { None = 0, Ip4, Ip6, Ib };

/// Contents of a sockaddr_in, sockaddr_in6 or sockaddr_ib, in host byte order.
struct RdmaCmAddress {
  RdmaCmFamily family{RdmaCmFamily::None};
  /// IPv4: in the first four octets, the rest zero. IPv6: all octets. IB: the GID.
  std::array<std::byte, 16> octets{};
  std::uint16_t port{};        // IP only
  std::uint32_t flow_info{};   // IPv6 and IB only
  std::uint64_t scope{};       // IPv6 and IB only
  PKey pkey{};                 // IB only, as the next two
  std::uint64_t service_id{};  // bits 16 to 31: port space; bits 0 to 15: port number
  std::uint64_t service_mask{};
  bool operator==(const RdmaCmAddress&) const = default;
};

/// Private data of a CM message.
struct RdmaCmPrivateData {
  std::vector<std::byte> octets{};  // up to kMaxRdmaCmPrivateData
  bool operator==(const RdmaCmPrivateData&) const = default;
};

/// Where SA says that a service is (ServiceRecord, IBTA vol 1 §15.2.5.14).
struct RdmaCmService {
  std::uint64_t service_id{};
  Gid gid{};
  PKey pkey{};
  bool operator==(const RdmaCmService&) const = default;
};

// --- program to daemon

/// First message of a channel: the host, and the host that the destinations 127.0.0.1 and ::1 stand
/// for (empty: the program's own). Answered by RdmaCmOpened or Refused.
struct OpenRdmaCm {
  std::uint32_t version{};
  std::string host{};
  std::string loopback{};
};

/// Answered by the id's number, unique within the daemon during the id's lifetime.
struct CreateRdmaCmId {
  std::uint16_t port_space{};  // RDMA_PS_...
  std::uint8_t qp_type{};      // IBV_QPT_...
  std::uint64_t uid{};         // the program's own handle, included in events
};

/// Answered by the number of events reported for this id so far, including its connection requests
/// and multicast events. Queued events are dropped, and connection requests not yet fetched are
/// rejected.
struct DestroyRdmaCmId {
  std::uint32_t id{};
};

/// rdma_bind_addr.
struct BindRdmaCmId {
  std::uint32_t id{};
  RdmaCmAddress address{};
};

/// rdma_resolve_addr. Completes with AddressResolved or AddressError.
struct ResolveRdmaCmAddress {
  std::uint32_t id{};
  RdmaCmAddress source{};  // family None: selected by the daemon
  RdmaCmAddress destination{};
  std::uint32_t timeout_ms{};
};

/// rdma_resolve_route. Completes with RouteResolved or RouteError.
struct ResolveRdmaCmRoute {
  std::uint32_t id{};
  std::uint32_t timeout_ms{};
};

/// Answered by RdmaCmIdState.
struct QueryRdmaCmId {
  std::uint32_t id{};
};

/// rdma_listen.
struct ListenRdmaCm {
  std::uint32_t id{};
  std::uint32_t backlog{};  // 0: the daemon's maximum
};

/// rdma_connect. Completes with ConnectResponse (the program moves its QP to RTS and then sends
/// AcceptRdmaCm; no Established follows), Established (UD), Rejected, Unreachable or ConnectError.
struct ConnectRdmaCm {
  std::uint32_t id{};
  verbs::ConnectionParameters parameters{};
};

/// rdma_accept. On the passive side, with parameters: answers a ConnectRequest. On the active side,
/// without: the QP is ready to send after ConnectResponse. An id created by a connection request
/// has no uid before; its further events carry this one.
struct AcceptRdmaCm {
  std::uint32_t id{};
  std::uint64_t uid{};
  bool has_parameters{};
  verbs::ConnectionParameters parameters{};
};

/// rdma_reject.
struct RejectRdmaCm {
  std::uint32_t id{};
  std::uint8_t reason{};  // of the REJ; 0: consumer reject (28)
  RdmaCmPrivateData private_data{};
};

/// rdma_disconnect.
struct DisconnectRdmaCm {
  std::uint32_t id{};
};

/// rdma_init_qp_attr. Answered by RdmaCmQpAttributes: attributes for ibv_modify_qp() to the given
/// state.
struct InitRdmaCmQp {
  std::uint32_t id{};
  std::uint32_t state{};  // IBV_QPS_INIT, RTR, RTS
};

/// rdma_set_option.
struct SetRdmaCmOption {
  std::uint32_t id{};
  verbs::RdmaCmOption option{verbs::RdmaCmOption::TypeOfService};
  std::uint32_t value{};
};

/// RDMA_OPTION_IB_PATH: the program supplies the paths. Completes with RouteResolved, as a query
/// would.
struct SetRdmaCmPaths {
  std::uint32_t id{};
  std::vector<verbs::Path> paths{};
};

/// rdma_notify: an asynchronous event of the id's QP. CommunicationEstablished and PathMigrated
/// concern a connection; others are refused.
struct NotifyRdmaCm {
  std::uint32_t id{};
  verbs::AsyncEventType event{};
};

/// rdma_join_multicast. Answered by the number of the membership, from another number space than
/// ids. Completes with MulticastJoin or MulticastError, which carry this uid.
struct JoinRdmaCmGroup {
  std::uint32_t id{};
  std::uint64_t uid{};
  bool is_send_only{};
  RdmaCmAddress address{};
};

/// rdma_leave_multicast. Answered by the number of events reported for this membership; queued
/// events are dropped.
struct LeaveRdmaCmGroup {
  std::uint32_t membership{};
};

/// rdma_migrate_id: moves an id with its queued events to this channel from another channel of the
/// same process (numbered as in RdmaCmOpened). Answered by the number of events reported for the id
/// so far.
struct MigrateRdmaCmId {
  std::uint32_t from{};
  std::uint32_t id{};
};

/// rdma_get_cm_event. Answered by RdmaCmEvent or NoRdmaCmEvent.
struct GetRdmaCmEvent {};

/// Asks SA, from the port that the id is bound to, for a service: the one of that name or, if there
/// is no name, of that ServiceID. Ends in AddrinfoResolved, and then QueryRdmaCmServices has the
/// answer, or in AddrinfoError.
struct ResolveRdmaCmService {
  std::uint32_t id{};
  std::uint64_t service_id{};
  std::string name{};  // up to 64 octets
};

/// Answered by RdmaCmServices.
struct QueryRdmaCmServices {
  std::uint32_t id{};
};

/// An event of an id that its program makes itself: User with whatever the program says, or how a
/// resolution of addresses ended that the program's own process did (AddrinfoResolved and
/// AddrinfoError). Of other types none are.
struct WriteRdmaCmEvent {
  std::uint32_t id{};
  std::uint64_t uid{};
  verbs::RdmaCmEventType type{verbs::RdmaCmEventType::AddressResolved};
  std::int32_t status{};
  std::uint64_t argument{};
};

/// On the connection of a verbs program: a QP of it received something before it was in RTS
/// (IBV_EVENT_COMM_EST), which is as good as an RTU (R-RVT-16). Not answered.
struct CommunicationEstablished {
  Qpn qpn{};
};

// --- daemon to program

/// Answer to OpenRdmaCm. Descriptor: the socket to poll.
struct RdmaCmOpened {
  std::uint32_t channel{};
};

/// General answer. `error` is an errno, or 0 for success; then `value` is defined by the request.
struct RdmaCmAnswer {
  std::uint32_t error{};
  std::uint32_t value{};
  std::string reason{};
};

/// Snapshot of an id; unknown fields are zero or empty.
struct RdmaCmIdState {
  std::string device{};  // verbs name; empty while the id is not bound to a device
  PortNumber port{};
  PKey pkey{};
  RdmaCmAddress source{};
  RdmaCmAddress destination{};
  Gid sgid{};
  Gid dgid{};
  std::vector<verbs::Path> paths{};  // the primary path first
};

/// What SA answered last to ResolveRdmaCmService; empty before.
struct RdmaCmServices {
  std::vector<RdmaCmService> services{};
};

/// Answer to InitRdmaCmQp: what the QP's transition sets.
struct RdmaCmQpAttributes {
  verbs::QpModification modification{};
};

struct RdmaCmEvent {
  verbs::RdmaCmEventType type{verbs::RdmaCmEventType::AddressResolved};
  std::uint64_t uid{};       // of the id; of a request the listener's, of a group the membership's
  std::uint32_t id{};        // of a request the new id
  std::int32_t status{};     // below 0 an errno; above what REJ or SIDR_REP said; of User any
  std::uint64_t argument{};  // of User
  /// Of connection events; of UD's requests and establishments and of groups QPN, Q_Key and
  /// private data.
  verbs::ConnectionParameters parameters{};
  verbs::AddressVector address_vector{};  // UD and multicast: how to reach the destination
};

/// The queue is empty: another thread fetched the event.
struct NoRdmaCmEvent {};

}  // namespace weft::uabi
