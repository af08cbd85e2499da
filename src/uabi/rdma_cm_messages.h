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
// process: libraries ask on the channel that the id is on.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

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

/// Enhanced connection establishment (ECE): vendor options negotiated by both sides.
struct RdmaCmEce {
  std::uint32_t vendor_id{};
  std::uint32_t options{};
  bool operator==(const RdmaCmEce&) const = default;
};

/// Contents of an rdma_conn_param, with QPN and Q_Key.
struct RdmaCmParameters {
  Qpn qpn{};
  QKey qkey{};  // UD only
  bool has_srq{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t flow_control{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry_count{};
  RdmaCmPrivateData private_data{};
  bool operator==(const RdmaCmParameters&) const = default;
};

/// Contents of an ibv_ah_attr.
struct RdmaCmAddressVector {
  Lid dlid{};
  ServiceLevel sl{};
  std::uint8_t source_path_bits{};
  std::uint8_t static_rate{};
  std::uint8_t port{};
  bool is_global{};  // the fields below are valid
  Gid dgid{};
  std::uint32_t flow_label{};
  std::uint8_t sgid_index{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  bool operator==(const RdmaCmAddressVector&) const = default;
};

/// A PathRecord with encoded MTU, rate and packet lifetime, without selectors.
struct RdmaCmPath {
  std::uint32_t flags{};  // IBV_PATH_FLAG_...: intended use
  Gid dgid{};
  Gid sgid{};
  Lid dlid{};
  Lid slid{};
  std::uint64_t service_id{};
  std::uint32_t flow_label{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  bool is_reversible{};
  PKey pkey{};
  std::uint16_t qos_class{};
  ServiceLevel sl{};
  std::uint8_t mtu{};
  std::uint8_t rate{};
  std::uint8_t packet_life_time{};
  bool operator==(const RdmaCmPath&) const = default;
};

/// In the order and with the numbers of enum rdma_cm_event_type.
enum class RdmaCmEventType : std::uint8_t {
  AddrResolved = 0,
  AddrError,
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
  AddrChange,
  TimewaitExit,
  AddrinfoResolved,  // this and those below: of rdma-core 61 and later
  AddrinfoError,
  User,
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

/// rdma_resolve_addr. Completes with AddrResolved or AddrError.
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
  RdmaCmParameters parameters{};
  RdmaCmEce ece{};
};

/// rdma_accept. On the passive side, with parameters: answers a ConnectRequest. On the active side,
/// without: the QP is ready to send after ConnectResponse. An id created by a connection request
/// has no uid before; its further events carry this one.
struct AcceptRdmaCm {
  std::uint32_t id{};
  std::uint64_t uid{};
  bool has_parameters{};
  RdmaCmParameters parameters{};
  RdmaCmEce ece{};
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

/// Options of SetRdmaCmOption, with their range.
enum class RdmaCmOption : std::uint8_t {
  TypeOfService = 1,  // 0 to 255
  ReuseAddress,       // 0 or 1
  AfOnly,             // 0 or 1: IPv6 only
  AckTimeout,         // 0 to 31: Local ACK Timeout of the QP, an exponent
};

/// rdma_set_option.
struct SetRdmaCmOption {
  std::uint32_t id{};
  RdmaCmOption option{RdmaCmOption::TypeOfService};
  std::uint32_t value{};
};

/// RDMA_OPTION_IB_PATH: the program supplies the paths. Completes with RouteResolved, as a query
/// would.
struct SetRdmaCmPaths {
  std::uint32_t id{};
  std::vector<RdmaCmPath> paths{};
};

/// rdma_notify: an asynchronous event of the id's QP, IBV_EVENT_COMM_EST or IBV_EVENT_PATH_MIG.
struct NotifyRdmaCm {
  std::uint32_t id{};
  std::uint32_t event{};
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
  RdmaCmEventType type{RdmaCmEventType::AddrResolved};
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
  std::uint8_t port{};
  PKey pkey{};
  RdmaCmAddress source{};
  RdmaCmAddress destination{};
  Gid sgid{};
  Gid dgid{};
  std::vector<RdmaCmPath> paths{};
};

/// What SA answered last to ResolveRdmaCmService; empty before.
struct RdmaCmServices {
  std::vector<RdmaCmService> services{};
};

/// Numbers of verbs (enum ibv_qp_state, ibv_mtu, ibv_qp_attr_mask ...).
struct RdmaCmQpAttributes {
  std::uint32_t mask{};
  std::uint32_t state{};
  std::uint32_t path_mtu{};
  std::uint32_t path_mig_state{};
  QKey qkey{};
  std::uint32_t rq_psn{};
  std::uint32_t sq_psn{};
  Qpn destination{};
  std::uint32_t access_flags{};
  RdmaCmAddressVector path{};
  RdmaCmAddressVector alternate_path{};
  std::uint16_t pkey_index{};
  std::uint16_t alternate_pkey_index{};
  std::uint8_t port{};
  std::uint8_t alternate_port{};
  std::uint8_t max_rd_atomic{};
  std::uint8_t max_dest_rd_atomic{};
  std::uint8_t min_rnr_timer{};
  std::uint8_t timeout{};
  std::uint8_t alternate_timeout{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry{};
};

struct RdmaCmEvent {
  RdmaCmEventType type{RdmaCmEventType::AddrResolved};
  std::uint64_t uid{};       // of the id; of a request the listener's, of a group the membership's
  std::uint32_t id{};        // of a request the new id
  std::int32_t status{};     // below 0 an errno; above what REJ or SIDR_REP said; of User any
  std::uint64_t argument{};  // of User
  /// Of connection events; of UD's requests and establishments and of groups QPN, Q_Key and
  /// private data.
  RdmaCmParameters parameters{};
  RdmaCmAddressVector address_vector{};  // UD and multicast: how to reach the destination
  RdmaCmEce ece{};
};

/// The queue is empty: another thread fetched the event.
struct NoRdmaCmEvent {};

}  // namespace weft::uabi
