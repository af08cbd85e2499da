#pragma once

// Which messages a client of the daemon may send, and which come from the daemon. Lists of types,
// so that a receiver can prove at compile time that it deals with each of them.

#include <cstddef>
#include <type_traits>

#include "uabi/messages.h"

namespace weft::uabi {

template <class... Messages>
struct MessageList {
  static constexpr std::size_t kSize = sizeof...(Messages);
  /// How often the list names the message.
  template <class Message>
  static constexpr std::size_t kCount =
      (std::size_t{0} + ... + (std::is_same_v<Message, Messages> ? 1 : 0));
};

/// On the connection to the daemon's socket.
using FromClients = MessageList<
    // a program at its host
    Hello, OpenLane, JoinGroup, LeaveGroup, TapReady, ReportPeer, BadKeys, CommunicationEstablished,
    OpenXrcDomain, CloseXrcDomain, XrcRelay, XrcTargetRequest, XrcTargetAnswer, XrcTargetEvent,
    ShareDevice, ImportDevice, LeaveDevice, ObjectRequest, ObjectAnswer, ObjectsHeld,
    // the command
    Query, StartCapture, AddFault, ClearFaults, ChangePort, ChangeNode, Down, AskNamespaces,
    KeepFabricNamespaces, KeepHostNamespaces,
    // a program that carries IP for its host
    CarryAddresses, TellNeighbor, HoldGroups,
    // a resolver, and who looks for paths where it shows them
    PublishPaths, AskPublishedPaths,
    // a program at the MADs of a node
    ListUmadDevices, DescribeUmadDevice, FindIsSm, OpenUmad, RegisterUmadAgent, UnregisterUmadAgent,
    // a program at an Omni-Path port, and who looks for such ports
    AskOmniPathPorts, AttachOmniPath, JoinOmniPathGroup, LeaveOmniPathGroup,
    SetOmniPathCapabilities,
    // a program at the connections of a host
    OpenRdmaCm, CreateRdmaCmId, DestroyRdmaCmId, BindRdmaCmId, ResolveRdmaCmAddress,
    ResolveRdmaCmRoute, QueryRdmaCmId, ListenRdmaCm, ConnectRdmaCm, AcceptRdmaCm, RejectRdmaCm,
    DisconnectRdmaCm, InitRdmaCmQp, SetRdmaCmOption, SetRdmaCmPaths, NotifyRdmaCm, JoinRdmaCmGroup,
    LeaveRdmaCmGroup, MigrateRdmaCmId, ResolveRdmaCmService, QueryRdmaCmServices, WriteRdmaCmEvent,
    GetRdmaCmEvent>;

using FromDaemon = MessageList<
    // to a program at its host
    Welcome, InitialStateSent, Refused, Lane, NoSuchProcess, LaneClosed, TablesChanged,
    GroupMembers, GroupJoined, OpenTap, CloseTap, XrcDomainOpened, XrcRelay, XrcTargetRequest,
    XrcTargetAnswer, XrcTargetEvent, DeviceImported, DeviceGone, ObjectRequest, ObjectAnswer,
    ListObjects,
    // to a program that carries IP for its host
    AskNeighbor,
    // to the command
    Text, CaptureLive, CaptureSource, FabricWanted, HostWanted, HostKept,
    // to a program that looks for paths
    PublishedPaths,
    // to a program at the MADs of a node
    UmadDevices, UmadDevice, IsSm, UmadOpened, UmadAnswer,
    // to a program at an Omni-Path port
    OmniPathPorts, OmniPathAttached, OmniPathPortState, OmniPathGroupJoined, OmniPathPortsChanged,
    // to a program at the connections of a host
    RdmaCmOpened, RdmaCmAnswer, RdmaCmIdState, RdmaCmQpAttributes, RdmaCmEvent, NoRdmaCmEvent,
    RdmaCmServices>;

/// Both ways, on the socket of an open port alone.
using OnUmadSockets = MessageList<UmadMad, LongUmadMad>;
/// Likewise, of an Omni-Path port.
using OnOmniPathSockets = MessageList<OmniPathPackets>;

static_assert(Message::all_kinds([]<class Each>(std::type_identity<Each> /*kind*/) {
                return FromClients::kCount<Each> + FromDaemon::kCount<Each> +
                           OnUmadSockets::kCount<Each> + OnOmniPathSockets::kCount<Each> !=
                       0;
              }),
              "the lists above say who sends each message");

}  // namespace weft::uabi
