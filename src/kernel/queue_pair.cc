#include <rdma/ib_verbs.h>

#include <memory>

#include "core/device.h"
#include "core/drain.h"
#include "core/qp.h"
#include "core/srq.h"
#include "kernel/device_face.h"
#include "kernel/gid_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/rdma_cm_face.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

void handle_qp_event(const core::Event& event, void* context) {
  auto* const face = static_cast<ib_qp*>(context);
  if (face->event_handler != nullptr) {
    ib_event made = event_of(event);
    face->event_handler(&made, face->qp_context);
  }
}

void handle_srq_event(const core::Event& event, void* context) {
  auto* const face = static_cast<ib_srq*>(context);
  if (face->event_handler != nullptr) {
    ib_event made = event_of(event);
    face->event_handler(&made, face->srq_context);
  }
}

/// What a caller may have put into an attribute that has fewer values than its type.
Result<void> check_ranges(const ib_qp_attr& attributes, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  const auto is_state = [](ib_qp_state state) {
    return state >= IB_QPS_RESET && state <= IB_QPS_ERR;
  };
  if ((has(IB_QP_STATE) && !is_state(attributes.qp_state)) ||
      (has(IB_QP_CUR_STATE) && !is_state(attributes.cur_qp_state))) {
    return fail(ErrorCode::InvalidArgument, "there is no such QP state");
  }
  if (has(IB_QP_PATH_MTU) &&
      (attributes.path_mtu < IB_MTU_256 || attributes.path_mtu > IB_MTU_4096)) {
    return fail(ErrorCode::InvalidArgument, "path MTU {} is not in 1..5 (256 to 4096 bytes)",
                static_cast<int>(attributes.path_mtu));
  }
  if (has(IB_QP_PATH_MIG_STATE) &&
      (attributes.path_mig_state < IB_MIG_MIGRATED || attributes.path_mig_state > IB_MIG_ARMED)) {
    return fail(ErrorCode::InvalidArgument, "there is no such migration state");
  }
  if ((has(IB_QP_TIMEOUT) && attributes.timeout > TimeoutExponent::kMax) ||
      (has(IB_QP_ALT_PATH) && attributes.alt_timeout > TimeoutExponent::kMax)) {
    return fail(ErrorCode::InvalidArgument, "a timeout exponent is in 0..31");
  }
  return {};
}

void log_failure(const Result<void>& result) {
  if (!result) {
    static_cast<void>(refuse(result.error()));
  }
}

}  // namespace

core::QpInit qp_init_of(const ib_qp_init_attr& attributes, ib_qp& face, const Call& call) {
  core::QpInit init;
  init.type = static_cast<verbs::QpType>(attributes.qp_type);
  init.send_cq = attributes.send_cq != nullptr ? &core_of(*attributes.send_cq, call) : nullptr;
  init.recv_cq = attributes.recv_cq != nullptr ? &core_of(*attributes.recv_cq, call) : nullptr;
  init.srq = attributes.srq != nullptr ? &core_of(*attributes.srq, call) : nullptr;
  init.capabilities = capabilities_of(attributes.cap);
  init.max_rdma_contexts = attributes.cap.max_rdma_ctxs;
  init.signal_all = attributes.sq_sig_type == IB_SIGNAL_ALL_WR;
  if ((attributes.create_flags & IB_QP_CREATE_INTEGRITY_EN) != 0) {
    init.flags |= core::QpCreateFlag::IntegrityEnabled;
  }
  if ((attributes.create_flags & IB_QP_CREATE_NETDEV_USE) != 0) {
    init.flags |= core::QpCreateFlag::NetDeviceUse;
  }
  if ((attributes.create_flags & IB_QP_CREATE_SOURCE_QPN) != 0) {
    init.external_number = Qpn{attributes.source_qpn};
  }
  init.port = PortNumber{attributes.port_num};
  init.event_handler = handle_qp_event;
  init.context = &face;
  return init;
}

void fill_qp_face(ib_qp& face, core::Qp& qp, const core::QpInit& init, ib_pd* pd,
                  ib_qp_init_attr& attributes) {
  note_made(&face);
  face.device = kernel::face_of(qp.device());
  face.pd = pd;
  face.send_cq = attributes.send_cq;
  face.recv_cq = attributes.recv_cq;
  face.srq = attributes.srq;
  face.event_handler = attributes.event_handler;
  face.qp_context = attributes.qp_context;
  face.qp_num = qp.number().value();
  face.qp_type = attributes.qp_type;
  face.integrity_en = qp.is_integrity_enabled();
  face.max_write_sge = init.capabilities.max_send_sge;
  face.max_read_sge = qp.device().attributes().max_sge_read;
  face.weft = &qp;
  set_capabilities(attributes.cap, init.capabilities);
}

}  // namespace weft::kernel

using weft::kernel::core_of;

ib_qp* ib_create_qp(ib_pd* pd, ib_qp_init_attr* qp_init_attr) {
  return ib_create_qp_user(pd, qp_init_attr, nullptr);
}

ib_qp* ib_create_qp_user(ib_pd* pd, ib_qp_init_attr* qp_init_attr, ib_udata* /*udata*/) {
  auto face = std::make_unique<ib_qp>();
  weft::core::QpInit init =
      weft::kernel::qp_init_of(*qp_init_attr, *face, weft::kernel::Call::current());
  const auto made = weft::core::create_qp(core_of(*pd), init);
  if (!made) {
    return weft::kernel::refuse_pointer<ib_qp>(made.error());
  }
  weft::kernel::fill_qp_face(*face, **made, init, pd, *qp_init_attr);
  return face.release();
}

int ib_modify_qp_with_udata(ib_qp* ib_qp, ib_qp_attr* attr, int attr_mask, ib_udata* /*udata*/) {
  if (const auto checked = weft::kernel::check_ranges(*attr, attr_mask); !checked) {
    return weft::kernel::refuse(checked.error());
  }
  weft::core::QpModify modify;
  modify.mask = weft::verbs::QpAttributeMask::from_bits(static_cast<std::uint32_t>(attr_mask));
  modify.attributes = weft::kernel::attributes_of(*attr);
  if ((attr_mask & IB_QP_AV) != 0) {
    modify.sgid = weft::kernel::ah_attributes_of(attr->ah_attr).sgid;
  }
  if ((attr_mask & IB_QP_ALT_PATH) != 0) {
    modify.alternate_sgid = weft::kernel::ah_attributes_of(attr->alt_ah_attr).sgid;
  }
  const auto modified = weft::core::modify_qp(core_of(*ib_qp), modify);
  if (modified && (attr_mask & IB_QP_PORT) != 0) {
    ib_qp->port = attr->port_num;
  }
  return weft::kernel::returned(modified);
}

int ib_modify_qp(ib_qp* qp, ib_qp_attr* qp_attr, int qp_attr_mask) {
  return ib_modify_qp_with_udata(qp, qp_attr, qp_attr_mask, nullptr);
}

int ib_query_qp(ib_qp* qp, ib_qp_attr* qp_attr, int qp_attr_mask, ib_qp_init_attr* qp_init_attr) {
  const auto found = weft::core::query_qp(
      core_of(*qp),
      weft::verbs::QpAttributeMask::from_bits(static_cast<std::uint32_t>(qp_attr_mask)));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *qp_attr = weft::kernel::to_c(found->attributes);
  *qp_init_attr = {};
  qp_init_attr->event_handler = qp->event_handler;
  qp_init_attr->qp_context = qp->qp_context;
  qp_init_attr->send_cq = qp->send_cq;
  qp_init_attr->recv_cq = qp->recv_cq;
  qp_init_attr->srq = qp->srq;
  weft::kernel::set_capabilities(qp_init_attr->cap, found->init.capabilities);
  qp_init_attr->cap.max_rdma_ctxs = found->init.max_rdma_contexts;
  qp_init_attr->sq_sig_type = found->init.signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
  qp_init_attr->qp_type = qp->qp_type;
  qp_init_attr->port_num = found->init.port.value();
  return 0;
}

int ib_destroy_qp_user(ib_qp* qp, ib_udata* /*udata*/) {
  weft::kernel::require_alive(qp);
  if (qp->weft_id != nullptr) {
    weft::kernel::forget_qp_of_id(*qp->weft_id);
    qp->weft_id = nullptr;
  }
  const auto destroyed = weft::core::destroy_qp(core_of(*qp));
  if (destroyed) {
    weft::kernel::note_destroyed(qp, "QP", qp->qp_num);
    const std::unique_ptr<ib_qp> gone{qp};
  }
  return weft::kernel::returned(destroyed);
}

int ib_attach_mcast(ib_qp* qp, ib_gid* gid, std::uint16_t lid) {
  return weft::kernel::returned(
      weft::core::attach_multicast(core_of(*qp), weft::kernel::gid_of(*gid), weft::Lid{lid}));
}

int ib_detach_mcast(ib_qp* qp, ib_gid* gid, std::uint16_t lid) {
  return weft::kernel::returned(
      weft::core::detach_multicast(core_of(*qp), weft::kernel::gid_of(*gid), weft::Lid{lid}));
}

void ib_drain_sq(ib_qp* qp) { weft::kernel::log_failure(weft::core::drain_sq(core_of(*qp))); }
void ib_drain_rq(ib_qp* qp) { weft::kernel::log_failure(weft::core::drain_rq(core_of(*qp))); }
void ib_drain_qp(ib_qp* qp) { weft::kernel::log_failure(weft::core::drain_qp(core_of(*qp))); }

ib_srq* ib_create_srq(ib_pd* pd, ib_srq_init_attr* srq_init_attr) {
  weft::kernel::require_alive(pd);
  auto face = std::make_unique<ib_srq>();
  face->device = pd->device;
  face->pd = pd;
  face->event_handler = srq_init_attr->event_handler;
  face->srq_context = srq_init_attr->srq_context;
  face->srq_type = srq_init_attr->srq_type;
  if (srq_init_attr->srq_type != IB_SRQT_BASIC) {
    return weft::kernel::refuse_pointer<ib_srq>(
        {weft::ErrorCode::NotSupported, "only SRQs of IB_SRQT_BASIC are made by this call"});
  }
  weft::core::SrqInit init;
  init.attributes = {.max_wr = srq_init_attr->attr.max_wr,
                     .max_sge = srq_init_attr->attr.max_sge,
                     .limit = srq_init_attr->attr.srq_limit};
  init.event_handler = weft::kernel::handle_srq_event;
  init.context = face.get();
  const auto made = weft::core::create_srq(core_of(*pd), init);
  if (!made) {
    return weft::kernel::refuse_pointer<ib_srq>(made.error());
  }
  srq_init_attr->attr.max_wr = init.attributes.max_wr;
  srq_init_attr->attr.max_sge = init.attributes.max_sge;
  face->weft = *made;
  weft::kernel::note_made(face.get());
  return face.release();
}

int ib_modify_srq(ib_srq* srq, ib_srq_attr* srq_attr, ib_srq_attr_mask srq_attr_mask) {
  return weft::kernel::returned(weft::core::modify_srq(
      core_of(*srq),
      (srq_attr_mask & IB_SRQ_MAX_WR) != 0 ? std::optional{srq_attr->max_wr} : std::nullopt,
      (srq_attr_mask & IB_SRQ_LIMIT) != 0 ? std::optional{srq_attr->srq_limit} : std::nullopt));
}

int ib_query_srq(ib_srq* srq, ib_srq_attr* srq_attr) {
  const auto found = weft::core::query_srq(core_of(*srq));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *srq_attr = {.max_wr = found->max_wr, .max_sge = found->max_sge, .srq_limit = found->limit};
  return 0;
}

int ib_destroy_srq_user(ib_srq* srq, ib_udata* /*udata*/) {
  const auto destroyed = weft::core::destroy_srq(core_of(*srq));
  if (destroyed) {
    weft::kernel::note_destroyed(srq, "SRQ", 0);
    const std::unique_ptr<ib_srq> gone{srq};
  }
  return weft::kernel::returned(destroyed);
}
