#pragma once

// The control protocol between a program (or the `weft` command) and the fabric daemon: one message
// per datagram of an AF_UNIX SOCK_SEQPACKET connection, in native byte order, since both ends are
// on one machine. The first message decides the kind of connection: Hello (a verbs program on a
// simulated host), a message of umad_messages.h (a program using umad), one of
// omni_path_messages.h (a program at an Omni-Path port), OpenRdmaCm (an RDMA-CM channel), or Query,
// StartCapture, AddFault, ClearFaults or Down (a command). File descriptors are passed as ancillary
// data; each message defines how many.
//
// Neither side trusts the other: decode() validates lengths, counts, enumerators and text before a
// message is used.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/one_of.h"
#include "base/result.h"
#include "base/time.h"
#include "uabi/held_object_messages.h"
#include "uabi/namespace_messages.h"
#include "uabi/omni_path_messages.h"
#include "uabi/process_address.h"
#include "uabi/rdma_cm_messages.h"
#include "uabi/resolver_messages.h"
#include "uabi/shared_object_messages.h"
#include "uabi/umad_messages.h"
#include "verbs/mtu.h"

namespace weft::uabi {

/// Raised with every change of a message; both ends refuse any other.
inline constexpr std::uint32_t kVersion = 20;

/// Limits; policy, not from the specification.
inline constexpr std::size_t kMaxMessageBytes = 32'768;
inline constexpr std::size_t kMaxTextBytes = kMaxMessageBytes - 64;
inline constexpr std::size_t kMaxDescriptors = 6;
inline constexpr std::size_t kMaxGroupMembers = 2'048;

// --- program to daemon

/// First message of a program. The daemon identifies the process by its socket credentials.
struct Hello {
  std::uint32_t version{kVersion};
  std::string host;
};

/// Requests a lane to a process; answered by Lane or NoSuchProcess.
struct OpenLane {
  ProcessAddress peer;
};

/// A QP of this program was attached to or detached from a multicast group on a port of its host
/// (index in the tables). The port stays a member as long as any QP is attached. JoinGroup is
/// answered by GroupJoined.
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

/// The program now copies its packets to this capture.
struct TapReady {
  std::uint32_t capture{};
};

/// Reason why a process refused a record from a lane (docs/ARCHITECTURE.md, decision 11).
enum class RecordFault : std::uint8_t {
  CorruptRing = 1,     // lengths that no producer writes
  MalformedRecord,     // not a packet
  ForgedSource,        // SLID or SGID does not belong to the sender's host
  ForgedPKey,          // P_Key is not in the sender's table
  ForgedQpn,           // source QPN of a datagram does not belong to the sender
  WrongDestination,    // DLID does not belong to the receiver
  ManagementQpn,       // sent to QP0 or QP1, which rings do not serve
  ConnectedElsewhere,  // sent to a QP connected to another process
  NoSuchQp,            // sent to a QP that does not exist
};
inline constexpr std::size_t kRecordFaultCount = 9;

/// Wording for use as in "400 records ...".
[[nodiscard]] std::string_view words(RecordFault what);

/// Reports records refused on a lane; `count` is the total so far. It is a claim, not a proof: the
/// daemon logs it with the reporter's name.
struct ReportPeer {
  ProcessAddress peer;
  RecordFault what{RecordFault::CorruptRing};
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

/// Opens the XRC domain of a file on an HCA of the host (counted from 0); answered by
/// XrcDomainOpened with the same `request`. Descriptor: the file, which the daemon keeps open.
struct OpenXrcDomain {
  std::uint32_t request{};
  std::uint32_t hca{};
  bool creates{};       // O_CREAT
  bool is_exclusive{};  // O_EXCL
};

/// Result of OpenXrcDomain; `domain` is 0 on failure.
struct XrcDomainOpened {
  std::uint32_t request{};
  std::uint32_t domain{};
  bool may_retry{};  // does not exist yet (EAGAIN)
  std::string reason;
};
struct CloseXrcDomain {
  std::uint32_t domain{};
};

/// Messages between processes that share an XRC domain, relayed by the daemon.
enum class XrcMessage : std::uint8_t {
  RequestProxy = 1,  // requests a proxy QP for `target`, a QP of the sender
  Proxy,             // positive answer
  NoProxy,           // negative answer
  ProxiesReleased,   // to all: the proxies of the sender's `target` are no longer needed
  PeerGone,          // from the daemon: `peer` has closed the domain
};
struct XrcRelay {
  ProcessAddress peer;  // destination; replaced by the source when relayed
  std::uint32_t domain{};
  XrcMessage action{XrcMessage::PeerGone};
  std::uint32_t serial{};  // of the request
  Qpn target;
  Qpn proxy;
  bool is_for_reads{};  // a target has one proxy for READs and one for all other requests
  // For RequestProxy: the initiator, and the target's attributes.
  Qpn source;
  Lid slid;
  ServiceLevel sl;
  PortNumber port;
  std::uint16_t pkey_index{};
  verbs::Mtu path_mtu{verbs::Mtu::Mtu256};
  std::uint8_t min_rnr_timer{};
};

// --- daemon to program

/// Answer to Hello, followed by the initial state and Briefed. Descriptors: tables image, counter
/// page, attention page, departure clocks of the fabric's links, counters of its fault rules.
struct Welcome {
  std::uint32_t version{kVersion};
  ProcessAddress self;
  TimeScale time_scale;
};
inline constexpr std::size_t kWelcomeDescriptors = 5;

/// End of the initial state: all captures and groups that existed at Hello have been sent.
struct InitialStateSent {};

/// Negative answer to any request, with the reason in words.
struct Refused {
  std::string reason;
};

/// Connects a lane; sent to both of its processes, requested or not. Descriptors: lane memory, the
/// peer's attention page.
struct Lane {
  ProcessAddress peer;
  std::uint8_t side{};  // 0 or 1: ring::LaneSide
  // Process numbers as the daemon sees them, where the two may place into each other's memory by
  // themselves (docs/ARCHITECTURE.md, decision 18); else 0.
  std::uint32_t self_pid{};
  std::uint32_t peer_pid{};
};
inline constexpr std::size_t kLaneDescriptors = 2;

/// Negative answer to OpenLane.
struct NoSuchProcess {
  ProcessAddress peer;
};

/// The peer is gone. Records it sent before remain readable in the rings.
struct LaneClosed {
  ProcessAddress peer;
};

/// A new generation of the tables was published. Descriptor: its image.
struct TablesChanged {};

/// All processes with members in a group; sent whenever the set changes.
struct GroupMembers {
  Lid mlid;
  std::vector<ProcessAddress> members;
};

/// Answer to JoinGroup, sent after all senders were notified of the new member.
struct GroupJoined {};

/// Copy each packet that crosses the port to a capture. Descriptor: the capture ring, filled by
/// this process.
struct OpenTap {
  std::uint32_t capture{};
  std::uint32_t port{};
};
/// Stop copying packets to the capture.
struct CloseTap {
  std::uint32_t capture{};
};

// --- command to daemon

/// Kind of data requested by Query. Functions: of the virtual functions of all ports. Decisions:
/// what became of the MADs of these lately.
enum class QueryKind : std::uint8_t {
  Status = 1,
  Counters = 2,
  Faults = 3,
  Functions = 4,
  Decisions = 5,
  Qps = 6
};
struct Query {
  std::uint32_t version{kVersion};
  QueryKind kind{QueryKind::Status};
};

/// Starts a capture. `port` in command syntax: `h1`, `h1:1`, `s1:3`. `tunnels`: also of what passes
/// the tunnels of its virtual functions.
struct StartCapture {
  std::uint32_t version{kVersion};
  std::string port;
  bool tunnels{};
};

/// Adds a fault rule in command syntax (fabric/fault_description.h); answered by its number as
/// Text.
struct AddFault {
  std::uint32_t version{kVersion};
  std::string rule;
};

/// Removes one rule, or all for number 0; answered by an empty Text.
struct ClearFaults {
  std::uint32_t version{kVersion};
  std::uint32_t number{};
};

/// Changes a port, in command syntax (node/port_change.h); answered by an empty Text.
struct ChangePort {
  std::uint32_t version{kVersion};
  std::string port;
  std::string change;
};

/// Adds or removes a node, in command syntax (node/node_change.h); answered by an empty Text.
struct ChangeNode {
  std::uint32_t version{kVersion};
  std::string change;
};

/// Shuts the fabric down.
struct Down {
  std::uint32_t version{kVersion};
};

// --- daemon to command

/// Part of a text answer.
struct Text {
  bool is_last{};
  std::string text;
};

/// All running programs now copy their packets to the capture.
struct CaptureLive {
  std::uint32_t port{};
};

/// A further ring to read: of a program, or of the daemon for MADs (no process). Descriptor: its
/// memory.
struct CaptureSource {
  ProcessAddress process;
};

using Message = OneOf<
    Hello, OpenLane, JoinGroup, LeaveGroup, TapReady, ReportPeer, Welcome, Refused, Lane,
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

    XrcTargetRequest, XrcTargetAnswer, XrcTargetEvent, ShareDevice, ImportDevice, DeviceImported,
    LeaveDevice, DeviceGone, ObjectRequest, ObjectAnswer, GroupJoined, InitialStateSent, BadKeys,

    ResolveRdmaCmService, QueryRdmaCmServices, WriteRdmaCmEvent, RdmaCmServices,

    ListObjects, ObjectsHeld,

    AskNamespaces, KeepFabricNamespaces, KeepHostNamespaces, FabricWanted, HostWanted, HostKept,

    CarryAddresses, AskNeighbor, TellNeighbor, HoldGroups,

    PublishPaths, AskPublishedPaths, PublishedPaths,

    AskOmniPathPorts, AttachOmniPath, JoinOmniPathGroup, LeaveOmniPathGroup,
    SetOmniPathCapabilities, OmniPathPorts, OmniPathAttached, OmniPathPortState,
    OmniPathGroupJoined, OmniPathPortsChanged, OmniPathPackets>;

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
template <>
inline constexpr std::size_t kDescriptorsOf<KeepFabricNamespaces> = 2;
template <>
inline constexpr std::size_t kDescriptorsOf<KeepHostNamespaces> = kKeepHostDescriptors;
template <>
inline constexpr std::size_t kDescriptorsOf<HostWanted> = kHostWantedDescriptors;
template <>
inline constexpr std::size_t kDescriptorsOf<HostKept> = kHostKeptDescriptors;
template <>
inline constexpr std::size_t kDescriptorsOf<PublishPaths> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<PublishedPaths> = 1;
template <>
inline constexpr std::size_t kDescriptorsOf<OmniPathAttached> = 1;

[[nodiscard]] std::size_t descriptors_of(const Message& message);

/// Serializes a message, to at most kMaxMessageBytes (asserted).
[[nodiscard]] std::vector<std::byte> encode(const Message& message);

/// Parses and validates a message.
[[nodiscard]] Result<Message> decode(ByteSpan bytes);

}  // namespace weft::uabi
