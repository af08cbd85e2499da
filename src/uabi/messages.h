#pragma once

// The control protocol between a program (or the command) and the fabric daemon: one message per
// datagram of an AF_UNIX SOCK_SEQPACKET connection, native-endian, both ends on one machine. A
// connection begins with Hello (a program on a simulated host), with one of umad_messages.h (a
// program at the MADs of a node), OpenRdmaCm (a program at the connections of a host) or Query /
// StartCapture / AddFault / ClearFaults / Down (a command). Descriptors travel beside the bytes;
// each message says how many belong to it.
//
// Both sides take the other's bytes as foreign: decode() checks lengths, counts, enumerators and
// text before anybody looks at them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "uabi/process_address.h"
#include "uabi/rdma_cm_messages.h"
#include "uabi/shared_object_messages.h"
#include "uabi/umad_messages.h"

namespace weft::uabi {

/// Raised with every change of a message; both ends refuse any other.
inline constexpr std::uint32_t kVersion = 13;

/// All policy, not from any specification.
inline constexpr std::size_t kMaxMessageBytes = 32'768;
inline constexpr std::size_t kMaxTextBytes = kMaxMessageBytes - 64;
inline constexpr std::size_t kMaxDescriptors = 5;
inline constexpr std::size_t kMaxGroupMembers = 2'048;

// --- program to daemon

/// First message of a program. The daemon knows the process by its credentials.
struct Hello {
  std::uint32_t version{kVersion};
  std::string host;
};

/// Asks for the lane to a process; answered by Lane or NoSuchProcess.
struct OpenLane {
  ProcessAddress peer;
};

/// A QP of this program joined or left a multicast group on a port of its host (an index in the
/// tables). Counted: the port leaves with its last QP. Each JoinGroup is answered by GroupJoined.
struct JoinGroup {
  std::uint32_t port{};
  Lid mlid;
  Gid mgid;
};
struct LeaveGroup {
  std::uint32_t port{};
  Lid mlid;
  Gid mgid;
};

/// The program shows what it sends to this capture from now on.
struct TapReady {
  std::uint32_t capture{};
};

/// What is wrong with a record that a process refused (docs/ARCHITECTURE.md, decision 11).
enum class Misbehaviour : std::uint8_t {
  CorruptRing = 1,   // lengths that no producer writes
  MalformedRecord,   // not a packet
  ForgedSource,      // an SLID or SGID that the sender's host does not have
  ForgedPKey,        // a P_Key that the sender's port does not have
  ForgedQpn,         // a datagram of a QPN that is not the sender's
  WrongDestination,  // a DLID that is not the receiver's
  ManagementQpn,     // to QP0 or QP1, which no ring leads to
  OthersConnection,  // to a QP that is connected to another process
  NobodyThere,       // to a QP that does not exist
};
inline constexpr std::size_t kMisbehaviourCount = 9;

/// As in "400 records ...".
[[nodiscard]] std::string_view words(Misbehaviour what);

/// A process that shares a lane with this program put records there that were refused. `count` is
/// how many so far. A statement, no proof: the daemon says whose it is.
struct PeerMisbehaves {
  ProcessAddress peer;
  Misbehaviour what{Misbehaviour::CorruptRing};
  std::uint64_t count{};
};

/// Packets that this program dropped for their key at a port of its host (an index in the tables):
/// how many since it last said so, and whose the last was (hca::BadKey). PortInfo counts them.
struct BadKeys {
  std::uint32_t port{};
  bool is_qkey{};
  std::uint32_t count{};
  Lid source;
  Lid destination;
  std::uint8_t sl{};
  Qpn source_qp;
  Qpn destination_qp;
  Gid source_gid;
  std::uint32_t key{};
};

// --- XRC domains of several processes (hca/xrc_relay.h)

/// Opens the XRC domain of a file on an HCA of the host, counted from 0; answered by
/// XrcDomainOpened with the same `request`. Descriptor: the file, which the daemon keeps.
struct OpenXrcDomain {
  std::uint32_t request{};
  std::uint32_t hca{};
  bool creates{};       // O_CREAT
  bool is_exclusive{};  // O_EXCL
};

/// `domain` 0: refused, for the reason in words.
struct XrcDomainOpened {
  std::uint32_t request{};
  std::uint32_t domain{};
  bool may_come{};  // there is none yet (EAGAIN)
  std::string reason;
};
struct CloseXrcDomain {
  std::uint32_t domain{};
};

/// What processes that have one domain open say to each other, through the daemon.
enum class XrcWord : std::uint8_t {
  WantDeputy = 1,  // of `target`, which is the sender's
  Deputy,          // there it is
  NoDeputy,
  Dismissed,  // the deputies of `target`, which is the sender's; to all
  Gone,       // the daemon's: `peer` has the domain open no more
};
struct XrcRelay {
  ProcessAddress peer;  // to whom; the daemon makes it from whom
  std::uint32_t domain{};
  XrcWord word{XrcWord::Gone};
  std::uint32_t serial{};  // of the question
  Qpn target;
  Qpn deputy;
  bool is_for_reads{};  // a target has one for them, and one for all else
  // Of a deputy that is wanted: the initiator, and the target's attributes.
  Qpn source;
  Lid slid;
  std::uint8_t sl{};
  std::uint8_t port{};
  std::uint16_t pkey_index{};
  std::uint8_t path_mtu{};
  std::uint8_t min_rnr_timer{};
};

// --- daemon to program

/// Answer to Hello; what else a program must know before it sends follows it, and then Briefed.
/// Descriptors: tables image, counter page, attention page, the departure clocks of the fabric's
/// links, the counters of its faults.
struct Welcome {
  std::uint32_t version{kVersion};
  ProcessAddress self;
  TimeScale time_scale;
};
inline constexpr std::size_t kWelcomeDescriptors = 5;

/// All captures and groups that were there when the program came have been told.
struct Briefed {};

/// Answer instead of any other: the reason in words.
struct Refused {
  std::string reason;
};

/// A lane, to both of its processes, asked for or not. Descriptors: lane memory, the peer's
/// attention page.
struct Lane {
  ProcessAddress peer;
  std::uint8_t side{};  // 0 or 1: ring::LaneSide
};
inline constexpr std::size_t kLaneDescriptors = 2;

struct NoSuchProcess {
  ProcessAddress peer;
};

/// The peer is gone; what it sent before lies in the rings still.
struct LaneClosed {
  ProcessAddress peer;
};

/// A new generation of the tables. Descriptor: the image.
struct TablesChanged {};

/// The processes with members in a group now: all of them, each time one comes or goes.
struct GroupMembers {
  Lid mlid;
  std::vector<ProcessAddress> members;
};

/// A JoinGroup is dealt with: those who send have been told of the member before.
struct GroupJoined {};

/// Show each packet that crosses the tapped port. Descriptor: a capture ring that this process
/// fills.
struct OpenTap {
  std::uint32_t capture{};
  std::uint32_t port{};
};
struct CloseTap {
  std::uint32_t capture{};
};

// --- command to daemon

enum class QueryKind : std::uint8_t { Status = 1, Counters = 2, Faults = 3 };
struct Query {
  std::uint32_t version{kVersion};
  QueryKind kind{QueryKind::Status};
};

/// `port` as people write it: `h1`, `h1:1`, `s1:3`.
struct StartCapture {
  std::uint32_t version{kVersion};
  std::string port;
};

/// A rule as people write it (fabric/fault_description.h); answered by its number as Text.
struct AddFault {
  std::uint32_t version{kVersion};
  std::string rule;
};

/// One rule, or all for number 0; answered by an empty Text.
struct ClearFaults {
  std::uint32_t version{kVersion};
  std::uint32_t number{};
};

/// A change of one port as people write it (node/port_change.h); answered by an empty Text.
struct ChangePort {
  std::uint32_t version{kVersion};
  std::string port;
  std::string change;
};

/// A node that comes or goes, as people write it (node/node_change.h); answered by an empty Text.
struct ChangeNode {
  std::uint32_t version{kVersion};
  std::string change;
};

struct Down {
  std::uint32_t version{kVersion};
};

// --- daemon to command

/// A piece of a long answer.
struct Text {
  bool is_last{};
  std::string text;
};

/// Every program that was there shows its packets by now.
struct CaptureLive {
  std::uint32_t port{};
};

/// One more ring to read: a program's, or MADs (of no process). Descriptor: its memory.
struct CaptureSource {
  ProcessAddress process;
};

using Message = std::variant<
    Hello, OpenLane, JoinGroup, LeaveGroup, TapReady, PeerMisbehaves, Welcome, Refused, Lane,
    NoSuchProcess, LaneClosed, TablesChanged, GroupMembers, OpenTap, CloseTap, Query, StartCapture,
    AddFault, ClearFaults, Down, Text, CaptureLive, CaptureSource, ListUmadDevices,
    DescribeUmadDevice, FindIsSm, OpenUmad, RegisterUmadAgent, UnregisterUmadAgent, UmadDevices,
    UmadDevice, IsSm, UmadOpened, UmadAnswer, UmadMad, LongUmadMad, ChangePort,

    OpenXrcDomain, XrcDomainOpened, CloseXrcDomain, XrcRelay, ChangeNode,

    OpenRdmaCm, CreateRdmaCmId, DestroyRdmaCmId, BindRdmaCmId, ResolveRdmaCmAddress,
    ResolveRdmaCmRoute, QueryRdmaCmId, ListenRdmaCm, ConnectRdmaCm, AcceptRdmaCm, RejectRdmaCm,
    DisconnectRdmaCm, InitRdmaCmQp, SetRdmaCmOption, SetRdmaCmPaths, NotifyRdmaCm, JoinRdmaCmGroup,
    LeaveRdmaCmGroup, MigrateRdmaCmId, GetRdmaCmEvent, CommunicationEstablished, RdmaCmOpened,
    RdmaCmAnswer, RdmaCmIdState, RdmaCmQpAttributes, RdmaCmEvent, NoRdmaCmEvent,

    AskXrcTarget, XrcTargetAnswer, XrcTargetEvent, ShareDevice, ImportDevice, DeviceImported,
    LeaveDevice, DeviceGone, AskForObject, ObjectAnswer, GroupJoined, Briefed, BadKeys,

    ResolveRdmaCmService, QueryRdmaCmServices, WriteRdmaCmEvent, RdmaCmServices>;

/// How many descriptors come with a message; a receiver refuses any other number.
template <class OneMessage>
inline constexpr std::size_t kDescriptorsOf = 0;
template <>
inline constexpr std::size_t kDescriptorsOf<Welcome> = kWelcomeDescriptors;
template <>
inline constexpr std::size_t kDescriptorsOf<Lane> = kLaneDescriptors;
template <>
inline constexpr std::size_t kDescriptorsOf<TablesChanged> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<OpenTap> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<CaptureSource> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<UmadOpened> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<LongUmadMad> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<OpenXrcDomain> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<ShareDevice> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<ImportDevice> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<RdmaCmOpened> = 1;

[[nodiscard]] std::size_t descriptors_of(const Message& message);

/// The bytes of a message; at most kMaxMessageBytes (asserted).
[[nodiscard]] std::vector<std::byte> encode(const Message& message);

[[nodiscard]] Result<Message> decode(ByteSpan bytes);

}  // namespace weft::uabi
