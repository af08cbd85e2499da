#pragma once

// What programs and the daemon say about connections: the channels, ids and events of RDMA-CM
// (IBTA vol 1 annex A11), as a program knows them by librdmacm. Included by messages.h.
//
// A channel is two connections: the one that asked for it, for requests, and the socket that came
// with the answer, which programs poll. Nothing is ever said on that socket: the daemon keeps one
// octet in it exactly while an event waits on the channel. The daemon puts the octet there and
// takes it back, for which it keeps a descriptor of the program's end as well (MSG_DONTWAIT, since
// the program chooses whether its end waits), so that any number of events may wait, ids move
// between channels with their events, and threads of a program cannot take an event's sign away
// from each other. When the channel's connection is closed, its ids are destroyed.
//
// Requests on a channel are answered one by one, at once and in order, by RdmaCmAnswer where
// nothing else is said; a request that others answer is answered by RdmaCmAnswer when it is
// refused. What takes time ends in an event. A request may name any id of the channels of the same
// process: libraries ask on the channel that the id is on.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::uabi {

/// As the C interface has it: what a length of one octet can say.
inline constexpr std::size_t kMaxRdmaCmPrivateData = 255;
/// Forward, return and alternate paths; as the kernel's interface has it.
inline constexpr std::size_t kMaxRdmaCmPaths = 6;
/// Places of one service that a program is told; policy.
inline constexpr std::size_t kMaxRdmaCmServices = 256;

// --- parts of messages

enum class RdmaCmFamily : std::uint8_t { None = 0, Ip4, Ip6, Ib };

/// An address as sockaddr_in, sockaddr_in6 or sockaddr_ib have it, numbers in this machine's order.
struct RdmaCmAddress {
  RdmaCmFamily family{RdmaCmFamily::None};
  /// Of IPv4 the first four, else zero; of IPv6 all; of IB the GID.
  std::array<std::byte, 16> octets{};
  std::uint16_t port{};        // of IP
  std::uint32_t flow_info{};   // of IPv6 and IB
  std::uint64_t scope{};       // of IPv6 and IB
  PKey pkey{};                 // of IB, and the two below
  std::uint64_t service_id{};  // the port space in bits 16 to 31, the port in 0 to 15
  std::uint64_t service_mask{};
  bool operator==(const RdmaCmAddress&) const = default;
};

struct RdmaCmPrivateData {
  std::vector<std::byte> octets{};  // up to kMaxRdmaCmPrivateData
  bool operator==(const RdmaCmPrivateData&) const = default;
};

/// Enhanced connection establishment: what two adapters of one vendor agree on.
struct RdmaCmEce {
  std::uint32_t vendor_id{};
  std::uint32_t options{};
  bool operator==(const RdmaCmEce&) const = default;
};

struct RdmaCmParameters {
  Qpn qpn{};
  QKey qkey{};  // of UD
  bool has_srq{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t flow_control{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry_count{};
  RdmaCmPrivateData private_data{};
  bool operator==(const RdmaCmParameters&) const = default;
};

/// An address vector, as ibv_ah_attr has it.
struct RdmaCmAddressVector {
  Lid dlid{};
  ServiceLevel sl{};
  std::uint8_t source_path_bits{};
  std::uint8_t static_rate{};
  std::uint8_t port{};
  bool is_global{};  // then the rest is the GRH's
  Gid dgid{};
  std::uint32_t flow_label{};
  std::uint8_t sgid_index{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  bool operator==(const RdmaCmAddressVector&) const = default;
};

/// A path as a PathRecord has it, MTU, rate and lifetime by their codes and exact.
struct RdmaCmPath {
  std::uint32_t flags{};  // IBV_PATH_FLAG_...: for what it may be used
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

/// First message of a channel: on which host, and the host that the loopback addresses 127.0.0.1
/// and ::1 mean as destinations; empty for the program's own. Answered by RdmaCmOpened or Refused.
struct OpenRdmaCm {
  std::uint32_t version{};
  std::string host{};
  std::string loopback{};
};

/// Answered by the id's number, which no other id of the daemon has while it lives.
struct CreateRdmaCmId {
  std::uint16_t port_space{};  // RDMA_PS_...
  std::uint8_t qp_type{};      // IBV_QPT_...
  std::uint64_t uid{};         // the program's own name for it, which its events carry
};

/// Answered by the number of events that the program was ever told of this id, its connection
/// requests and its groups' events among them. Those that still wait are forgotten, and connection
/// requests that nobody fetched are rejected.
struct DestroyRdmaCmId {
  std::uint32_t id{};
};

struct BindRdmaCmId {
  std::uint32_t id{};
  RdmaCmAddress address{};
};

/// Ends in AddrResolved or AddrError.
struct ResolveRdmaCmAddress {
  std::uint32_t id{};
  RdmaCmAddress source{};  // of no family: the daemon chooses
  RdmaCmAddress destination{};
  std::uint32_t timeout_ms{};
};

/// Ends in RouteResolved or RouteError.
struct ResolveRdmaCmRoute {
  std::uint32_t id{};
  std::uint32_t timeout_ms{};
};

/// Answered by RdmaCmIdState.
struct QueryRdmaCmId {
  std::uint32_t id{};
};

struct ListenRdmaCm {
  std::uint32_t id{};
  std::uint32_t backlog{};  // 0: as many as the daemon allows
};

/// Ends in ConnectResponse (the program brings its QP to RTS and accepts, and hears no more of it),
/// Established (UD), Rejected, Unreachable or ConnectError.
struct ConnectRdmaCm {
  std::uint32_t id{};
  RdmaCmParameters parameters{};
  RdmaCmEce ece{};
};

/// On the passive side the answer to a ConnectRequest, with parameters; on the active side, without
/// them, that its QP is ready to send after a ConnectResponse. An id that a connection request made
/// has no uid and no events before; they carry this one from now on.
struct AcceptRdmaCm {
  std::uint32_t id{};
  std::uint64_t uid{};
  bool has_parameters{};
  RdmaCmParameters parameters{};
  RdmaCmEce ece{};
};

struct RejectRdmaCm {
  std::uint32_t id{};
  std::uint8_t reason{};  // as REJ has it; 0: consumer reject (28)
  RdmaCmPrivateData private_data{};
};

struct DisconnectRdmaCm {
  std::uint32_t id{};
};

/// Answered by RdmaCmQpAttributes: what ibv_modify_qp() needs to bring a QP of this id to the
/// state.
struct InitRdmaCmQp {
  std::uint32_t id{};
  std::uint32_t state{};  // IBV_QPS_INIT, RTR, RTS
};

enum class RdmaCmOption : std::uint8_t {
  TypeOfService = 1,  // 0 to 255
  ReuseAddress,       // 0 or 1
  AfOnly,             // 0 or 1: of IPv6, not IPv4 too
  AckTimeout,         // 0 to 31: as QPs have it
};

struct SetRdmaCmOption {
  std::uint32_t id{};
  RdmaCmOption option{RdmaCmOption::TypeOfService};
  std::uint32_t value{};
};

/// The program knows the paths (RDMA_OPTION_IB_PATH); ends in RouteResolved as if they were asked
/// for.
struct SetRdmaCmPaths {
  std::uint32_t id{};
  std::vector<RdmaCmPath> paths{};
};

/// An asynchronous event of the id's QP: IBV_EVENT_COMM_EST, IBV_EVENT_PATH_MIG.
struct NotifyRdmaCm {
  std::uint32_t id{};
  std::uint32_t event{};
};

/// Answered by the number of the membership, another kind of number than ids. Ends in
/// MulticastJoin or MulticastError with this uid.
struct JoinRdmaCmGroup {
  std::uint32_t id{};
  std::uint64_t uid{};
  bool is_send_only{};
  RdmaCmAddress address{};
};

/// Answered by the number of events that the program was told of this membership; those that wait
/// are forgotten.
struct LeaveRdmaCmGroup {
  std::uint32_t membership{};
};

/// Moves an id and its events here from another channel of the same process, whose number
/// RdmaCmOpened said. Answered by the number of events that the program was told of this id so far.
struct MigrateRdmaCmId {
  std::uint32_t from{};
  std::uint32_t id{};
};

/// Answered by RdmaCmEvent or NoRdmaCmEvent.
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

/// Descriptor: the socket to poll.
struct RdmaCmOpened {
  std::uint32_t channel{};
};

/// `error` is an errno, 0 for none, and then `value` what the request says.
struct RdmaCmAnswer {
  std::uint32_t error{};
  std::uint32_t value{};
  std::string reason{};
};

/// All that is known of an id by now; of what is not, nothing (zero, no path, no family).
struct RdmaCmIdState {
  std::string device{};  // by its verbs name; empty while the id is bound to none
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
  RdmaCmAddressVector address_vector{};  // of UD and of groups: how to send there
  RdmaCmEce ece{};
};

/// None waits: another thread was quicker.
struct NoRdmaCmEvent {};

}  // namespace weft::uabi
