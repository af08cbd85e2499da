// Endpoints: ids that are created, bound or resolved, and given a QP in one call
// (rdma_create_ep(3)).

#include <cerrno>
#include <memory>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

/// Policy, the value of rdma-core: wait limit of each resolution step.
constexpr int kResolveMs = 2'000;

[[nodiscard]] int listen_there(Id& id, const rdma_addrinfo& where, ibv_pd* pd,
                               const ibv_qp_init_attr* qp) {
  if (rdma_bind_addr(&id.cm, where.ai_src_addr) != 0) {
    return -1;
  }
  id.cm.pd = pd == nullptr ? id.cm.pd : pd;
  if (qp != nullptr) {
    id.qp_of_requests = *qp;
    id.qp_of_requests->qp_type = static_cast<ibv_qp_type>(where.ai_qp_type);
  }
  return 0;
}

[[nodiscard]] int find_route(Id& id, const rdma_addrinfo& where) {
  if (where.ai_route_len == 0) {
    return rdma_resolve_route(&id.cm, kResolveMs);
  }
  if (rdma_set_option(&id.cm, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, where.ai_route,
                      where.ai_route_len) != 0) {
    return -1;
  }
  return complete(id);
}

[[nodiscard]] int go_there(Id& id, const rdma_addrinfo& where, ibv_pd* pd, ibv_qp_init_attr* qp) {
  if (rdma_resolve_addr(&id.cm, where.ai_src_addr, where.ai_dst_addr, kResolveMs) != 0 ||
      find_route(id, where) != 0) {
    return -1;
  }
  if (qp != nullptr) {
    qp->qp_type = static_cast<ibv_qp_type>(where.ai_qp_type);
    if (rdma_create_qp(&id.cm, pd, qp) != 0) {
      return -1;
    }
  }
  id.private_data_header = private_data(where.ai_connect, where.ai_connect_len);
  return 0;
}

[[nodiscard]] int ask_for_qp(const Id& listener, rdma_cm_id& cm) {
  if (!listener.qp_of_requests) {
    return 0;
  }
  ibv_qp_init_attr attributes = *listener.qp_of_requests;
  return rdma_create_qp(&cm, listener.cm.pd, &attributes);
}

/// Returns 0 if the event is a connection request, and its id is complete.
[[nodiscard]] int accept_request(const Id& listener, const rdma_cm_event& event) {
  if (event.status != 0) {
    return refuse(event.status < 0 ? -event.status : event.status, "a connection request failed");
  }
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    return refuse(EINVAL, "another event than a connection request came to the listener");
  }
  if (ask_for_qp(listener, *event.id) != 0) {
    const int error = errno;
    rdma_destroy_id(event.id);
    errno = error;
    return -1;
  }
  return 0;
}

}  // namespace
}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_create_ep(rdma_cm_id** out, rdma_addrinfo* where, ibv_pd* pd,
                               ibv_qp_init_attr* qp) {
  auto created = create_id(nullptr, nullptr, static_cast<rdma_port_space>(where->ai_port_space),
                           static_cast<ibv_qp_type>(where->ai_qp_type));
  if (created == nullptr) {
    return -1;
  }
  Id& id = *created.release();
  const bool is_passive = (where->ai_flags & RAI_PASSIVE) != 0;
  if ((is_passive ? listen_there(id, *where, pd, qp) : go_there(id, *where, pd, qp)) != 0) {
    const int error = errno;
    rdma_destroy_ep(&id.cm);
    errno = error;
    return -1;
  }
  *out = &id.cm;
  return 0;
}

WEFT_EXPORT void rdma_destroy_ep(rdma_cm_id* cm) {
  if (cm->qp != nullptr) {
    rdma_destroy_qp(cm);
  }
  if (cm->srq != nullptr) {
    rdma_destroy_srq(cm);
  }
  rdma_destroy_id(cm);
}

WEFT_EXPORT int rdma_get_request(rdma_cm_id* cm, rdma_cm_id** out) {
  Id& listener = id_of(cm);
  if (!listener.is_synchronous) {
    return refuse(EINVAL, "the listener shares a channel: its requests are events there");
  }
  acknowledge_last(listener);
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(cm->channel, &event) != 0) {
    return -1;
  }
  if (accept_request(listener, *event) != 0) {
    cm->event = event;
    return -1;
  }
  *out = event->id;
  (*out)->event = event;  // the listener's, acknowledged with the new id's next event
  return 0;
}

}  // extern "C"
