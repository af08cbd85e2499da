// Events: fetched from the daemon, acted upon where that is the library's task (QP states, new ids,
// groups), and delivered to the program.

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "compat/rdmacm/address_request.h"
#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/later.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

using Arrived = uabi::RdmaCmEvent;

/// Whether the program gets an event.
enum class FaultEffect : std::uint8_t {
  Deliver,
  Keep,  // it tells the program nothing new; counts as acknowledged
};

/// Replaces an event that could not be handled by another one, with errno as its status.
void turn_into(Event& event, int type) {
  set_number(event.front.event, type);
  event.front.status = -errno;
}

void keep_private_data(Event& event, const Arrived& arrived, const void*& data,
                       std::uint8_t& bytes) {
  const auto& octets = arrived.parameters.private_data;
  bytes = static_cast<std::uint8_t>(octets.size());
  data = octets.empty() ? nullptr : event.private_data;
  if (!octets.empty()) {
    std::memcpy(event.private_data, octets.data(), octets.size());
  }
}

void take_connection(Event& event, const Arrived& arrived) {
  rdma_conn_param& out = event.front.param.conn;
  const verbs::ConnectionParameters& in = arrived.parameters;
  keep_private_data(event, arrived, out.private_data, out.private_data_len);
  out.responder_resources = in.responder_resources;
  out.initiator_depth = in.initiator_depth;
  out.flow_control = in.flow_control;
  out.retry_count = in.retry_count;
  out.rnr_retry_count = in.rnr_retry_count;
  out.srq = in.has_srq ? 1 : 0;
  out.qp_num = in.qpn.value();
}

void take_datagram(Event& event, const Arrived& arrived) {
  rdma_ud_param& out = event.front.param.ud;
  keep_private_data(event, arrived, out.private_data, out.private_data_len);
  out.ah_attr = from_daemon(arrived.address_vector);
  out.qp_num = arrived.parameters.qpn.value();
  out.qkey = arrived.parameters.qkey.value();
}

void take_parameters(Event& event, const Arrived& arrived) {
  event.id->is_datagram() ? take_datagram(event, arrived) : take_connection(event, arrived);
}

FaultEffect on_any(Event& event, const Arrived& arrived) {
  take_parameters(event, arrived);
  return FaultEffect::Deliver;
}

FaultEffect on_address_resolved(Event& event, const Arrived&) {
  if (refresh(*event.id) != 0) {
    turn_into(event, RDMA_CM_EVENT_ADDR_ERROR);
  }
  return FaultEffect::Deliver;
}

FaultEffect on_route_resolved(Event& event, const Arrived&) {
  if (refresh(*event.id, true) != 0) {
    turn_into(event, RDMA_CM_EVENT_ROUTE_ERROR);
  }
  return FaultEffect::Deliver;
}

/// An id for a connection request; null if the program cannot have one.
[[nodiscard]] std::unique_ptr<Id> id_of_request(const Id& listener, const Arrived& arrived) {
  const rdma_cm_id& model = listener.cm;
  auto id = new_id(model.channel, model.context, model.ps, model.qp_type);
  id->number = arrived.id;
  id->initiator_depth = arrived.parameters.initiator_depth;
  id->responder_resources = arrived.parameters.responder_resources;
  id->remote_ece = {.vendor_id = arrived.parameters.ece.vendor_id,
                    .options = arrived.parameters.ece.options,
                    .comp_mask = 0};
  if ((listener.is_synchronous && rdma_migrate_id(&id->cm, nullptr) != 0) ||
      refresh(*id, true) != 0) {
    static_cast<void>(command(*id, uabi::DestroyRdmaCmId{.id = id->number}));
    release_id(std::move(id));
  }
  return id;
}

FaultEffect on_request(Event& event, const Arrived& arrived) {
  take_parameters(event, arrived);
  auto id = id_of_request(*event.id, arrived);
  if (id == nullptr) {
    return FaultEffect::Keep;
  }
  event.front.listen_id = &event.id->cm;
  event.front.id = &id.release()->cm;
  return FaultEffect::Deliver;
}

/// An id with a QP reports that it is connected; a program with a QP of its own moves the QP itself
/// and calls rdma_establish().
FaultEffect on_response(Event& event, const Arrived& arrived) {
  take_connection(event, arrived);
  Id& id = *event.id;
  if (id.cm.qp == nullptr) {
    id.remote_ece = {.vendor_id = arrived.parameters.ece.vendor_id,
                     .options = arrived.parameters.ece.options,
                     .comp_mask = 0};
    return FaultEffect::Deliver;
  }
  if (establish(id, arrived.parameters.ece) == 0) {
    event.front.event = RDMA_CM_EVENT_ESTABLISHED;
  } else {
    turn_into(event, RDMA_CM_EVENT_CONNECT_ERROR);
    id.failed_to_establish = true;
  }
  return FaultEffect::Deliver;
}

FaultEffect on_rejected(Event& event, const Arrived& arrived) {
  if (event.id->failed_to_establish) {
    return FaultEffect::Keep;
  }
  take_connection(event, arrived);
  static_cast<void>(move_to_error(*event.id));
  return FaultEffect::Deliver;
}

FaultEffect on_disconnected(Event& event, const Arrived& arrived) {
  if (event.id->failed_to_establish) {
    return FaultEffect::Keep;
  }
  take_connection(event, arrived);
  return FaultEffect::Deliver;
}

/// Attaches the QP for full members, which receive the group's packets; send-only members do not.
[[nodiscard]] int attach(Membership& membership) {
  ibv_qp* const qp = membership.id->cm.qp;
  if (qp == nullptr || membership.is_send_only) {
    return 0;
  }
  const int error = ibv_attach_mcast(qp, &membership.mgid, membership.mlid);
  membership.is_attached = error == 0;
  return result_of_verb(error);
}

FaultEffect on_group(Event& event, const Arrived& arrived) {
  take_datagram(event, arrived);
  Membership& membership = *event.membership;
  event.front.param.ud.private_data = membership.context;
  if (arrived.type == verbs::RdmaCmEventType::MulticastJoin && arrived.status == 0) {
    membership.mgid = event.front.param.ud.ah_attr.grh.dgid;
    membership.mlid = event.front.param.ud.ah_attr.dlid;
    if (attach(membership) != 0) {
      turn_into(event, RDMA_CM_EVENT_MULTICAST_ERROR);
    }
  }
  return FaultEffect::Deliver;
}

FaultEffect on_addresses(Event& event, const Arrived& arrived) {
  if (take_addresses(*event.id, arrived.argument != 0) != 0) {
    turn_into(event, kAddrinfoError);
  }
  return FaultEffect::Deliver;
}

FaultEffect on_no_addresses(Event& event, const Arrived&) {
  give_up_addresses(*event.id);
  return FaultEffect::Deliver;
}

/// The program's value, param.arg in newer headers.
FaultEffect on_written(Event& event, const Arrived& arrived) {
  static_assert(sizeof event.front.param >= sizeof arrived.argument);
  std::memcpy(&event.front.param, &arrived.argument, sizeof arrived.argument);
  return FaultEffect::Deliver;
}

/// One row per event, in the order of their numbers.
struct Row {
  int type;
  const char* name;
  FaultEffect (*handle)(Event& event, const Arrived& arrived);
};
#define WEFT_EVENT(NAME, HANDLE) {RDMA_CM_EVENT_##NAME, "RDMA_CM_EVENT_" #NAME, HANDLE}
constexpr std::array kRows{
    Row WEFT_EVENT(ADDR_RESOLVED, on_address_resolved),
    Row WEFT_EVENT(ADDR_ERROR, on_any),
    Row WEFT_EVENT(ROUTE_RESOLVED, on_route_resolved),
    Row WEFT_EVENT(ROUTE_ERROR, on_any),
    Row WEFT_EVENT(CONNECT_REQUEST, on_request),
    Row WEFT_EVENT(CONNECT_RESPONSE, on_response),
    Row WEFT_EVENT(CONNECT_ERROR, on_any),
    Row WEFT_EVENT(UNREACHABLE, on_any),
    Row WEFT_EVENT(REJECTED, on_rejected),
    Row WEFT_EVENT(ESTABLISHED, on_any),
    Row WEFT_EVENT(DISCONNECTED, on_disconnected),
    Row WEFT_EVENT(DEVICE_REMOVAL, on_any),
    Row WEFT_EVENT(MULTICAST_JOIN, on_group),
    Row WEFT_EVENT(MULTICAST_ERROR, on_group),
    Row WEFT_EVENT(ADDR_CHANGE, on_any),
    Row WEFT_EVENT(TIMEWAIT_EXIT, on_any),
    Row{kAddrinfoResolved, "RDMA_CM_EVENT_ADDRINFO_RESOLVED", on_addresses   },
    Row{kAddrinfoError,    "RDMA_CM_EVENT_ADDRINFO_ERROR",    on_no_addresses},
    Row{kUserEvent,        "RDMA_CM_EVENT_USER",              on_written     },
};
#undef WEFT_EVENT

consteval bool rows_are_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].type) != i) {
      return false;
    }
  }
  return kRows.size() == static_cast<std::size_t>(verbs::RdmaCmEventType::User) + 1;
}
static_assert(rows_are_in_order());

[[nodiscard]] const Row& row_of(verbs::RdmaCmEventType type) {
  return kRows.at(static_cast<std::size_t>(type));
}

/// Finds the recipient of an event; null if it no longer exists.
[[nodiscard]] std::unique_ptr<Event> address(const Arrived& arrived) {
  auto event = std::make_unique<Event>();
  if (row_of(arrived.type).handle == on_group) {
    event->membership = find_membership(arrived.uid);
    event->id = event->membership == nullptr ? nullptr : event->membership->id;
  } else {
    event->id = find_id(arrived.uid);
  }
  if (event->id == nullptr) {
    return nullptr;
  }
  event->front.id = &event->id->cm;
  set_number(event->front.event, row_of(arrived.type).type);
  event->front.status = arrived.status;
  return event;
}

/// Handles an event of an id that a request created and the program has not accepted: the program
/// notices the end when it accepts. The daemon has counted the event, so it is counted here.
void pass_over(const Arrived& arrived) {
  if (Id* const id = arrived.uid == 0 ? find_numbered_id(arrived.id) : nullptr) {
    id->acknowledged.add();
  }
}

void acknowledge(const Event& event) {
  if (event.membership != nullptr) {
    event.membership->acknowledged.add();
  }
  event.id->acknowledged.add();
}

}  // namespace

const char* name_of_event(int number) {
  const auto place = static_cast<std::size_t>(number);
  return place < kRows.size() ? kRows[place].name : "UNKNOWN EVENT";
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_get_cm_event(rdma_event_channel* front, rdma_cm_event** out) {
  if (out == nullptr) {
    return refuse(EINVAL, "there is no place for the event");
  }
  const auto channel = channel_of(front);
  if (channel == nullptr) {
    return -1;
  }
  while (const auto arrived = channel->next_event()) {
    auto event = address(*arrived);
    if (event == nullptr) {
      pass_over(*arrived);
      continue;
    }
    if (row_of(arrived->type).handle(*event, *arrived) == FaultEffect::Deliver) {
      *out = &event.release()->front;
      return 0;
    }
    acknowledge(*event);
  }
  return -1;
}

WEFT_EXPORT int rdma_ack_cm_event(rdma_cm_event* front) {
  if (front == nullptr) {
    return refuse(EINVAL, "there is no event");
  }
  const std::unique_ptr<Event> event{static_cast<Event*>(static_cast<void*>(front))};
  acknowledge(*event);
  return 0;
}

WEFT_EXPORT int rdma_write_cm_event(rdma_cm_id* cm, rdma_cm_event_type type, int status,
                                    std::uint64_t argument) {
  if (cm == nullptr || number_of(type) != kUserEvent) {
    return refuse(EINVAL, "programs write RDMA_CM_EVENT_USER, of one of their ids");
  }
  const Id& id = id_of(cm);
  return command(id, uabi::WriteRdmaCmEvent{.id = id.number,
                                            .uid = id.uid,
                                            .type = verbs::RdmaCmEventType::User,
                                            .status = status,
                                            .argument = argument});
}

WEFT_EXPORT const char* rdma_event_str(rdma_cm_event_type type) {
  return name_of_event(number_of(type));
}

}  // extern "C"
