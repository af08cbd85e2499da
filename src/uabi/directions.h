#pragma once

// Which messages a client of the daemon may send, and which come from the daemon. Lists of types,
// so that a receiver can prove at compile time that it deals with each of them.

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

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
    // a program at the MADs of a node
    ListUmadDevices, DescribeUmadDevice, FindIsSm, OpenUmad, RegisterUmadAgent, UnregisterUmadAgent,
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
    // to the command
    Text, CaptureLive, CaptureSource, FabricWanted, HostWanted, HostKept,
    // to a program at the MADs of a node
    UmadDevices, UmadDevice, IsSm, UmadOpened, UmadAnswer,
    // to a program at the connections of a host
    RdmaCmOpened, RdmaCmAnswer, RdmaCmIdState, RdmaCmQpAttributes, RdmaCmEvent, NoRdmaCmEvent,
    RdmaCmServices>;

/// Both ways, on the socket of an open port alone.
using OnUmadSockets = MessageList<UmadMad, LongUmadMad>;

/// True if the lists above say who sends each message; a new one has to be added to one of them.
template <std::size_t... kIndices>
[[nodiscard]] consteval bool directions_are_known(std::index_sequence<kIndices...> /*all*/) {
  return ((FromClients::kCount<std::variant_alternative_t<kIndices, Message>> +
               FromDaemon::kCount<std::variant_alternative_t<kIndices, Message>> +
               OnUmadSockets::kCount<std::variant_alternative_t<kIndices, Message>> !=
           0) &&
          ...);
}
static_assert(directions_are_known(std::make_index_sequence<std::variant_size_v<Message>>{}));

}  // namespace weft::uabi
