// Connection establishment and release.

#include <algorithm>
#include <cerrno>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

/// Defaults sent to the peer if the program specifies nothing (rdma_connect(3)).
constexpr std::uint8_t kMaxRetries = 7;
/// REJ reason: vendor option not supported (IBTA vol 1 §12.6.7.2).
constexpr std::uint8_t kVendorOptionNotSupported = 35;

/// Checks the rules of rdma_connect(3) and rdma_accept(3).
[[nodiscard]] int check(const Id& id, const rdma_conn_param* wish) {
  if (id.device == nullptr) {
    return refuse(EINVAL, "the id is bound to no device yet: resolve its address and route first");
  }
  if (wish == nullptr) {
    return id.cm.qp != nullptr || id.cm.ps != RDMA_PS_TCP
               ? 0
               : refuse(EINVAL, "without a QP of the id the parameters must name one");
  }
  if (id.cm.ps != RDMA_PS_TCP) {
    return 0;
  }
  if (wish->responder_resources != RDMA_MAX_RESP_RES &&
      wish->responder_resources > id.device->responder_resources) {
    return refuse(EINVAL, "responder_resources is more than the device's max_qp_rd_atom");
  }
  if (wish->initiator_depth != RDMA_MAX_INIT_DEPTH &&
      wish->initiator_depth > id.device->initiator_depth) {
    return refuse(EINVAL, "initiator_depth is more than the device's max_qp_init_rd_atom");
  }
  return 0;
}

/// What a message says of the id's QP, else of the program's own, and of what the program wishes.
/// Nothing after refuse().
[[nodiscard]] std::optional<verbs::ConnectionParameters> parameters(const Id& id,
                                                                    const rdma_conn_param* wish,
                                                                    verbs::Ece ece) {
  verbs::ConnectionParameters out{.qpn = {},
                                  .qkey = {},
                                  .has_srq = false,
                                  .responder_resources = id.responder_resources,
                                  .initiator_depth = id.initiator_depth,
                                  .flow_control = 0,
                                  .retry_count = kMaxRetries,
                                  .rnr_retry_count = kMaxRetries,
                                  .ece = ece,
                                  .private_data = id.private_data_header};
  if (wish != nullptr) {
    out.flow_control = wish->flow_control;
    out.retry_count = wish->retry_count;
    out.rnr_retry_count = wish->rnr_retry_count;
    const auto more = private_data(wish->private_data, wish->private_data_len);
    out.private_data.insert(out.private_data.end(), more.begin(), more.end());
  }
  if (out.private_data.size() > uabi::kMaxRdmaCmPrivateData) {
    refuse(EINVAL, "with that of the address information there is too much private data");
    return std::nullopt;
  }
  std::uint32_t qpn = 0;
  if (id.cm.qp != nullptr) {
    qpn = id.cm.qp->qp_num;
    out.has_srq = id.cm.qp->srq != nullptr;
  } else if (wish != nullptr) {
    qpn = wish->qp_num;
    out.has_srq = wish->srq != 0;
  }
  if (qpn > kMulticastQpn.value()) {
    refuse(EINVAL, "a QPN has 24 bits");
    return std::nullopt;
  }
  out.qpn = Qpn{qpn};
  return out;
}

[[nodiscard]] int reject(const Id& id, const void* data, std::uint8_t bytes, std::uint8_t reason) {
  return command(
      id, uabi::RejectRdmaCm{
              .id = id.number, .reason = reason, .private_data = {private_data(data, bytes)}});
}

/// Moves the QP to the error state; preserves errno.
int fail_with_qp(Id& id) {
  const int error = errno;
  static_cast<void>(move_to_error(id));
  errno = error;
  return -1;
}

}  // namespace

int establish(Id& id) {
  if (move_to_rts(id) != 0) {
    return fail_with_qp(id);
  }
  const uabi::AcceptRdmaCm ready{
      .id = id.number, .uid = id.uid, .has_parameters = false, .parameters = {}};
  return command(id, ready) == 0 ? 0 : fail_with_qp(id);
}

int establish(Id& id, const verbs::Ece& answer) {
  id.remote_ece = {.vendor_id = answer.vendor_id, .options = answer.options, .comp_mask = 0};
  if (answer.vendor_id != 0 && answer.vendor_id != id.local_ece.vendor_id) {
    refuse(EINVAL, "the passive side answered for another vendor's adapter than this one");
    return fail_with_qp(id);
  }
  ibv_ece ece{.vendor_id = id.local_ece.vendor_id, .options = answer.options, .comp_mask = 0};
  if (const int error = ibv_set_ece(id.cm.qp, &ece); error != 0 && error != EOPNOTSUPP) {
    return result_of_verb(error);
  }
  if (establish(id) != 0) {
    return -1;
  }
  ece = {};
  id.local_ece.options = ibv_query_ece(id.cm.qp, &ece) == 0 ? ece.options : 0;
  return 0;
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_connect(rdma_cm_id* cm, rdma_conn_param* wish) {
  Id& id = id_of(cm);
  if (check(id, wish) != 0) {
    return -1;
  }
  const bool leaves_depth = wish == nullptr || wish->initiator_depth == RDMA_MAX_INIT_DEPTH;
  const bool leaves_resources = wish == nullptr || wish->responder_resources == RDMA_MAX_RESP_RES;
  id.initiator_depth = leaves_depth ? id.device->initiator_depth : wish->initiator_depth;
  id.responder_resources =
      leaves_resources ? id.device->responder_resources : wish->responder_resources;
  const auto told =
      parameters(id, wish, {.vendor_id = id.local_ece.vendor_id, .options = id.local_ece.options});
  if (!told) {
    return -1;
  }
  if (command(id, uabi::ConnectRdmaCm{.id = id.number, .parameters = *told}) != 0) {
    return -1;
  }
  id.private_data_header.clear();
  return complete(id);
}

WEFT_EXPORT int rdma_accept(rdma_cm_id* cm, rdma_conn_param* wish) {
  Id& id = id_of(cm);
  if (check(id, wish) != 0) {
    return -1;
  }
  // The values that the request asked for are set already.
  const bool leaves_depth = wish == nullptr || wish->initiator_depth == RDMA_MAX_INIT_DEPTH;
  const bool leaves_resources = wish == nullptr || wish->responder_resources == RDMA_MAX_RESP_RES;
  id.initiator_depth = leaves_depth ? std::min(id.initiator_depth, id.device->initiator_depth)
                                    : wish->initiator_depth;
  id.responder_resources = leaves_resources
                               ? std::min(id.responder_resources, id.device->responder_resources)
                               : wish->responder_resources;
  const auto told =
      parameters(id, wish, {.vendor_id = id.remote_ece.vendor_id, .options = id.local_ece.options});
  if (!told) {
    return -1;
  }
  if (!id.is_datagram() && move_to_rts(id, id.responder_resources, id.initiator_depth) != 0) {
    return -1;
  }
  const uabi::AcceptRdmaCm question{
      .id = id.number,
      .uid = id.uid,
      .has_parameters = true,
      .parameters = *told,
  };
  if (command(id, question) != 0) {
    return fail_with_qp(id);
  }
  if (!id.is_datagram()) {
    return complete(id);
  }
  if (id.is_synchronous) {
    acknowledge_last(id);  // nothing more follows
  }
  return 0;
}

WEFT_EXPORT int rdma_establish(rdma_cm_id* cm) {
  if (cm->qp != nullptr) {
    return refuse(EINVAL, "the id has a QP, which is connected without this call");
  }
  return establish(id_of(cm));
}

WEFT_EXPORT int rdma_reject(rdma_cm_id* cm, const void* data, std::uint8_t bytes) {
  return reject(id_of(cm), data, bytes, 0);
}

WEFT_EXPORT int rdma_reject_ece(rdma_cm_id* cm, const void* data, std::uint8_t bytes) {
  return reject(id_of(cm), data, bytes, kVendorOptionNotSupported);
}

WEFT_EXPORT int rdma_disconnect(rdma_cm_id* cm) {
  Id& id = id_of(cm);
  if (cm->verbs == nullptr) {
    return refuse(EINVAL, "the id is bound to no device and has no connection");
  }
  if (move_to_error(id) != 0 || command(id, uabi::DisconnectRdmaCm{.id = id.number}) != 0) {
    return -1;
  }
  return complete(id);
}

WEFT_EXPORT int rdma_notify(rdma_cm_id* cm, ibv_event_type event) {
  const Id& id = id_of(cm);
  const auto known = verbs::async_event_of(static_cast<std::uint32_t>(event));
  if (!known) {
    return refuse(EINVAL, "there is no such event; COMM_EST and PATH_MIG concern a connection");
  }
  return command(id, uabi::NotifyRdmaCm{.id = id.number, .event = *known});
}

WEFT_EXPORT int rdma_set_local_ece(rdma_cm_id* cm, ibv_ece* ece) {
  if (cm == nullptr || cm->qp != nullptr || ece == nullptr || ece->vendor_id == 0 ||
      ece->comp_mask != 0) {
    return refuse(EINVAL, "the ECE of an id without a QP has a vendor and no further fields");
  }
  id_of(cm).local_ece = *ece;
  return 0;
}

WEFT_EXPORT int rdma_get_remote_ece(rdma_cm_id* cm, ibv_ece* ece) {
  if (cm == nullptr || cm->qp != nullptr || ece == nullptr) {
    return refuse(EINVAL, "the ECE of an id with a QP is its QP's to ask for");
  }
  *ece = id_of(cm).remote_ece;
  return 0;
}

}  // extern "C"
