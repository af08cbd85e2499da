// QPs and SRQs of ids, and their state transitions along a connection: the daemon supplies the
// attributes, verbs modify the QP.

#include <cerrno>
#include <climits>
#include <cstring>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

/// Attributes for moving a QP of the id to a state.
struct Transition {
  ibv_qp_attr attributes{};
  int mask{};
};

[[nodiscard]] std::optional<Transition> transition_to(const Id& id, ibv_qp_state state) {
  const auto answer = ask<uabi::RdmaCmQpAttributes>(
      id, uabi::InitRdmaCmQp{.id = id.number, .state = static_cast<std::uint32_t>(state)});
  if (!answer) {
    return std::nullopt;
  }
  return Transition{.attributes = from_daemon(answer->modification.attributes),
                    .mask = static_cast<int>(answer->modification.mask.bits())};
}

[[nodiscard]] int move(ibv_qp* qp, Transition& to) {
  return result_of_verb(ibv_modify_qp(qp, &to.attributes, to.mask));
}

[[nodiscard]] int move_to(const Id& id, ibv_qp* qp, ibv_qp_state state) {
  auto to = transition_to(id, state);
  return to ? move(qp, *to) : -1;
}

/// UD needs no peer: the QP can be moved to RTS at once.
[[nodiscard]] int prepare_datagrams(const Id& id, ibv_qp* qp) {
  Transition ready{.attributes = {}, .mask = IBV_QP_STATE};
  ready.attributes.qp_state = IBV_QPS_RTR;
  Transition sending{.attributes = {}, .mask = IBV_QP_STATE | IBV_QP_SQ_PSN};
  sending.attributes.qp_state = IBV_QPS_RTS;
  if (move_to(id, qp, IBV_QPS_INIT) != 0 || move(qp, ready) != 0) {
    return -1;
  }
  return move(qp, sending);
}

/// True unless the errno is what a device without ECE support returns.
[[nodiscard]] bool is_failure(int error) { return error != 0 && error != EOPNOTSUPP; }

/// The QP of a passive side adopts the options that the active side's adapter offered, if both are
/// of the same vendor.
[[nodiscard]] int negotiate_ece(Id& id, ibv_qp* qp) {
  ibv_ece ece{};
  if (const int error = ibv_query_ece(qp, &ece); is_failure(error)) {
    return result_of_verb(error);
  }
  id.local_ece = {.vendor_id = ece.vendor_id, .options = ece.options, .comp_mask = 0};
  if (id.remote_ece.vendor_id == 0) {
    return 0;
  }
  ece.options = id.remote_ece.vendor_id == ece.vendor_id ? id.remote_ece.options : 0;
  const int error = ibv_set_ece(qp, &ece);
  return is_failure(error) ? result_of_verb(error) : 0;
}

[[nodiscard]] int prepare(Id& id, ibv_qp* qp) {
  if (negotiate_ece(id, qp) != 0) {
    return -1;
  }
  const int prepared = id.is_datagram() ? prepare_datagrams(id, qp) : move_to(id, qp, IBV_QPS_INIT);
  if (prepared != 0 || id.remote_ece.vendor_id == 0) {
    return prepared;
  }
  ibv_ece ece{};
  const int error = ibv_query_ece(qp, &ece);
  id.local_ece.options = ece.options;
  return is_failure(error) ? result_of_verb(error) : 0;
}

/// Destroys the id's own CQs and channels; those of an XRC receiver live as long as its SRQ.
void destroy_queues(rdma_cm_id& cm) {
  if (cm.qp_type == IBV_QPT_XRC_RECV && cm.srq != nullptr) {
    return;
  }
  // Programs may have assigned one CQ or channel to both sides.
  if (cm.send_cq != nullptr && cm.send_cq != cm.recv_cq) {
    ibv_destroy_cq(cm.send_cq);
  }
  if (cm.recv_cq != nullptr) {
    ibv_destroy_cq(cm.recv_cq);
  }
  if (cm.send_cq_channel != nullptr && cm.send_cq_channel != cm.recv_cq_channel) {
    ibv_destroy_comp_channel(cm.send_cq_channel);
  }
  if (cm.recv_cq_channel != nullptr) {
    ibv_destroy_comp_channel(cm.recv_cq_channel);
  }
  cm.send_cq = cm.recv_cq = nullptr;
  cm.send_cq_channel = cm.recv_cq_channel = nullptr;
}

[[nodiscard]] int create_queue(rdma_cm_id& cm, std::uint32_t size, ibv_comp_channel*& channel,
                               ibv_cq*& cq) {
  if (size == 0) {
    return 0;
  }
  channel = ibv_create_comp_channel(cm.verbs);
  if (channel == nullptr || size > INT_MAX) {
    return -1;
  }
  cq = ibv_create_cq(cm.verbs, static_cast<int>(size), &cm, channel, 0);
  return cq == nullptr ? -1 : 0;
}

/// Creates CQs for this number of work requests; 0 if one exists or is not wanted.
[[nodiscard]] int create_queues(rdma_cm_id& cm, std::uint32_t send, std::uint32_t receive) {
  if (create_queue(cm, receive, cm.recv_cq_channel, cm.recv_cq) == 0 &&
      create_queue(cm, send, cm.send_cq_channel, cm.send_cq) == 0) {
    return 0;
  }
  const int error = errno;
  destroy_queues(cm);
  errno = error;
  return -1;
}

/// The rules of rdma_create_qp(3), checked before anything is created.
[[nodiscard]] int check(const rdma_cm_id& cm, const ibv_qp_init_attr_ex& attributes_wanted) {
  if (cm.verbs == nullptr) {
    return refuse(EINVAL, "the id is bound to no device yet: resolve or bind its address first");
  }
  if (cm.qp != nullptr) {
    return refuse(EINVAL, "the id has a QP already");
  }
  if ((attributes_wanted.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && attributes_wanted.pd != nullptr &&
      attributes_wanted.pd->context != cm.verbs) {
    return refuse(EINVAL, "the PD is not one of the id's device");
  }
  const auto differs = [](const ibv_cq* own, const ibv_cq* wished) {
    return own != nullptr && wished != nullptr && own != wished;
  };
  if (differs(cm.send_cq, attributes_wanted.send_cq) ||
      differs(cm.recv_cq, attributes_wanted.recv_cq)) {
    return refuse(EINVAL, "the id has CQs of its own, and the attributes name others");
  }
  return 0;
}

/// Fills in what the program left to the id.
[[nodiscard]] int complete_attributes(Id& id, ibv_qp_init_attr_ex& attributes_wanted) {
  rdma_cm_id& cm = id.cm;
  if ((attributes_wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes_wanted.pd == nullptr) {
    attributes_wanted.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes_wanted.pd = cm.pd;
  }
  if (cm.qp_type == IBV_QPT_XRC_RECV &&
      ((attributes_wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 ||
       attributes_wanted.xrcd == nullptr)) {
    attributes_wanted.xrcd = shared_xrc_domain(*id.device);
    attributes_wanted.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    if (attributes_wanted.xrcd == nullptr) {
      return -1;
    }
  }
  const bool has_send_cq = attributes_wanted.send_cq != nullptr || cm.send_cq != nullptr;
  const bool has_recv_cq = attributes_wanted.recv_cq != nullptr || cm.recv_cq != nullptr;
  if (create_queues(cm, has_send_cq ? 0 : attributes_wanted.cap.max_send_wr,
                    has_recv_cq ? 0 : attributes_wanted.cap.max_recv_wr) != 0) {
    return -1;
  }
  attributes_wanted.send_cq =
      attributes_wanted.send_cq == nullptr ? cm.send_cq : attributes_wanted.send_cq;
  attributes_wanted.recv_cq =
      attributes_wanted.recv_cq == nullptr ? cm.recv_cq : attributes_wanted.recv_cq;
  attributes_wanted.srq = attributes_wanted.srq == nullptr ? cm.srq : attributes_wanted.srq;
  return 0;
}

/// Undoes what a failed call created; preserves errno.
int give_up(rdma_cm_id& cm, ibv_qp* qp) {
  const int error = errno;
  if (qp != nullptr) {
    ibv_destroy_qp(qp);
  }
  destroy_queues(cm);
  errno = error;
  return -1;
}

}  // namespace

int move_to_rts(Id& id) { return move_to_rts(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH); }

int move_to_rts(Id& id, std::uint8_t responder_resources, std::uint8_t initiator_depth) {
  ibv_qp* const qp = id.cm.qp;
  if (qp == nullptr) {
    return 0;
  }
  // Init again: access and port of the connection may differ from what was known before.
  if (move_to(id, qp, IBV_QPS_INIT) != 0) {
    return -1;
  }
  auto ready = transition_to(id, IBV_QPS_RTR);
  if (!ready) {
    return -1;
  }
  if (responder_resources != RDMA_MAX_RESP_RES) {
    ready->attributes.max_dest_rd_atomic = responder_resources;
  }
  if (move(qp, *ready) != 0) {
    return -1;
  }
  auto sending = transition_to(id, IBV_QPS_RTS);
  if (!sending) {
    return -1;
  }
  if (initiator_depth != RDMA_MAX_INIT_DEPTH) {
    sending->attributes.max_rd_atomic = initiator_depth;
  }
  return move(qp, *sending);
}

int move_to_error(Id& id) {
  if (id.cm.qp == nullptr) {
    return 0;
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return result_of_verb(ibv_modify_qp(id.cm.qp, &attributes, IBV_QP_STATE));
}

}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_init_qp_attr(rdma_cm_id* cm, ibv_qp_attr* attributes, int* mask) {
  auto to = transition_to(id_of(cm), attributes->qp_state);
  if (!to) {
    return -1;
  }
  *attributes = to->attributes;
  *mask = to->mask;
  return 0;
}

WEFT_EXPORT int rdma_create_qp_ex(rdma_cm_id* cm, ibv_qp_init_attr_ex* attributes) {
  Id& id = id_of(cm);
  if (check(*cm, *attributes) != 0 || complete_attributes(id, *attributes) != 0) {
    return -1;
  }
  ibv_qp* const qp = ibv_create_qp_ex(cm->verbs, attributes);
  if (qp == nullptr || prepare(id, qp) != 0) {
    return give_up(*cm, qp);
  }
  cm->pd = qp->pd == nullptr ? cm->pd : qp->pd;  // an XRC target has none
  cm->qp = qp;
  return 0;
}

WEFT_EXPORT int rdma_create_qp(rdma_cm_id* cm, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp_init_attr_ex extended{};  // starts with the same members
  std::memcpy(&extended, attributes, sizeof *attributes);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd == nullptr ? cm->pd : pd;
  const int result = rdma_create_qp_ex(cm, &extended);
  std::memcpy(attributes, &extended, sizeof *attributes);
  return result;
}

/// No effect without a QP: Debian's qperf destroys that of its listener.
WEFT_EXPORT void rdma_destroy_qp(rdma_cm_id* cm) {
  if (cm->qp == nullptr) {
    return;
  }
  ibv_destroy_qp(cm->qp);
  cm->qp = nullptr;
  destroy_queues(*cm);
}

WEFT_EXPORT int rdma_create_srq_ex(rdma_cm_id* cm, ibv_srq_init_attr_ex* attributes) {
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
    return refuse(EINVAL, "the attributes do not say the SRQ's type");
  }
  Id& id = id_of(cm);
  if (id.device == nullptr) {
    return refuse(EINVAL, "the id is bound to no device yet: resolve or bind its address first");
  }
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
    attributes->pd = cm->pd;
    attributes->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  if (attributes->srq_type == IBV_SRQT_XRC) {
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attributes->xrcd == nullptr) {
      attributes->xrcd = shared_xrc_domain(*id.device);
    }
    if (attributes->xrcd == nullptr) {
      return -1;
    }
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attributes->cq == nullptr) {
      if (create_queues(*cm, 0, attributes->attr.max_wr) != 0) {
        return -1;
      }
      attributes->cq = cm->recv_cq;
    }
    attributes->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  }
  ibv_srq* const srq = ibv_create_srq_ex(cm->verbs, attributes);
  if (srq == nullptr) {
    return give_up(*cm, nullptr);
  }
  cm->pd = cm->pd == nullptr ? attributes->pd : cm->pd;
  cm->srq = srq;
  return 0;
}

WEFT_EXPORT int rdma_create_srq(rdma_cm_id* cm, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  ibv_srq_init_attr_ex extended{};  // starts with the same members
  std::memcpy(&extended, attributes, sizeof *attributes);
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  extended.srq_type = cm->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = pd;
  const int result = rdma_create_srq_ex(cm, &extended);
  std::memcpy(attributes, &extended, sizeof *attributes);
  return result;
}

WEFT_EXPORT void rdma_destroy_srq(rdma_cm_id* cm) {
  ibv_destroy_srq(cm->srq);
  cm->srq = nullptr;
  destroy_queues(*cm);
}

}  // extern "C"
