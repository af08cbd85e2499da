// Queue pairs: creating, modifying, posting.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"
#include "verbs/mtu.h"
#include "verbs/receive_hash.h"

namespace {

using namespace weft;
using namespace weft::compat;

[[nodiscard, gnu::always_inline]] inline hca::SendWr to_engine(const ibv_send_wr& wr,
                                                               ibv_qp_type type) {
  hca::SendWr out;
  out.wr_id = wr.wr_id;
  out.opcode = static_cast<hca::WrOpcode>(wr.opcode);  // the numbers are equal (hca/types.h)
  out.flags = hca::SendFlags::from_bits(wr.send_flags & 0xF);
  out.sges = sges_of(wr.sg_list, wr.num_sge);
  if (type == IBV_QPT_UD) {
    out.immediate = ntohl(wr.imm_data);
    out.ah = wr.wr.ud.ah == nullptr ? nullptr : object_of<AddressHandleObject>(wr.wr.ud.ah).engine;
    out.remote_qpn = Qpn{wr.wr.ud.remote_qpn & 0xFF'FFFF};
    out.remote_qkey = QKey{wr.wr.ud.remote_qkey};
    return out;
  }
  if (type == IBV_QPT_XRC_SEND) {
    out.xrc_srqn = wr.qp_type.xrc.remote_srqn & 0xFF'FFFF;
  }
  switch (wr.opcode) {
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      out.rkey = RKey{wr.invalidate_rkey};
      break;
    case IBV_WR_BIND_MW:
      break;  // post_bind()
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      out.remote_address = wr.wr.atomic.remote_addr;
      out.compare_add = wr.wr.atomic.compare_add;
      out.swap = wr.wr.atomic.swap;
      out.rkey = RKey{wr.wr.atomic.rkey};
      break;
    default:
      out.immediate = ntohl(wr.imm_data);
      out.remote_address = wr.wr.rdma.remote_addr;
      out.rkey = RKey{wr.wr.rdma.rkey};
      break;
  }
  return out;
}

/// Posts one work request of a list; the last one starts transmission of all.
[[nodiscard]] Result<void> post_one(QpObject& object, const hca::SendWr& request, bool is_last) {
  return is_last ? object.context->process->post_send(*object.engine, request)
                 : object.engine->post_send(request);
}

/// Binds, whose operands other work requests do not have and need not make room for.
[[nodiscard, gnu::noinline]] Result<void> post_bind(QpObject& object, const ibv_send_wr& wr) {
  const auto binding = compat::to_engine(*wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
  if (!binding) {
    return std::unexpected(binding.error());
  }
  hca::SendWr request = to_engine(wr, object.qp.qp_base.qp_type);
  request.sges = {};
  request.flags = request.flags.without(hca::Send::Inline);
  request.binding = &*binding;
  return post_one(object, request, wr.next == nullptr);
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    *bad_wr = wr;
    return refuse_in_child();
  }
  if (qp->qp_type == IBV_QPT_XRC_RECV) [[unlikely]] {  // may belong to another process
    *bad_wr = wr;
    return refuse(EINVAL, "an XRC target QP has no send queue: it only answers");
  }
  for (; wr != nullptr; wr = wr->next) {
    const auto posted = wr->opcode == IBV_WR_BIND_MW
                            ? post_bind(object, *wr)
                            : post_one(object, to_engine(*wr, qp->qp_type), wr->next == nullptr);
    if (!posted) {
      *bad_wr = wr;
      object.context->process->kick(*object.engine);  // starts transmission of those before it
      return refuse(posted.error());
    }
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    *bad_wr = wr;
    return refuse_in_child();
  }
  return post_each(wr, bad_wr,
                   [&](const hca::RecvWr& one) { return object.engine->post_recv(one); });
}

[[nodiscard]] Result<verbs::QpType> type_of(ibv_qp_type type) {
  const auto known = verbs::qp_type_of(static_cast<std::uint32_t>(type));
  return known ? Result<verbs::QpType>{*known}
               : fail(ErrorCode::NotSupported,
                      "QPs of type {} do not exist here; RC, UC, UD and XRC do",
                      static_cast<int>(type));
}

[[nodiscard]] ibv_qp_cap from_engine(const hca::QpCapabilities& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline_data};
}

/// The same for a QP that receives into the work queues of an indirection table; it has no other
/// receive queue, whatever else the request says, as with libibverbs.
[[nodiscard]] Result<hca::QpInit> with_scaling(hca::QpInit init,
                                               const ibv_qp_init_attr_ex& attributes) {
  const ibv_rx_hash_conf& hash = attributes.rx_hash_conf;
  if (attributes.rwq_ind_tbl == nullptr || (attributes.comp_mask & IBV_QP_INIT_ATTR_RX_HASH) == 0) {
    return fail(
        ErrorCode::InvalidArgument,
        "receive scaling needs a table and a hash (IBV_QP_INIT_ATTR_IND_TABLE and _RX_HASH)");
  }
  if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
      hash.rx_hash_key_len != verbs::kReceiveHashKeyBytes || hash.rx_hash_key == nullptr ||
      (hash.rx_hash_fields_mask & ~std::uint64_t{verbs::kAllHashFields.bits()}) != 0) {
    return fail(ErrorCode::NotSupported,
                "the hash is Toeplitz, of a key of {} bytes, over fields {:#x}",
                verbs::kReceiveHashKeyBytes, verbs::kAllHashFields.bits());
  }
  init.capabilities.max_recv_wr = init.capabilities.max_recv_sge = 0;
  init.scaling.table = object_of<IndirectionTableObject>(attributes.rwq_ind_tbl).engine;
  init.scaling.hash.fields =
      verbs::HashFields::from_bits(static_cast<std::uint32_t>(hash.rx_hash_fields_mask));
  copy_bytes(init.scaling.hash.key,
             std::as_bytes(std::span{hash.rx_hash_key, verbs::kReceiveHashKeyBytes}));
  return init;
}

/// The engine's form of a program's request.
[[nodiscard]] Result<hca::QpInit> to_engine(const ibv_qp_init_attr_ex& attributes,
                                            hca::QpType type) {
  const auto cq_of = [](ibv_cq* cq) {
    return cq == nullptr ? nullptr : object_of<CompletionQueueObject>(cq).engine;
  };
  const bool has_xrcd = (attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0;
  if (type == hca::QpType::XrcTarget && (!has_xrcd || attributes.xrcd == nullptr)) {
    return fail(ErrorCode::InvalidArgument,
                "an XRC target QP needs an XRC domain (IBV_QP_INIT_ATTR_XRCD)");
  }
  hca::QpInit init;
  init.type = type;
  init.signal_all = attributes.sq_sig_all != 0;
  init.capabilities = {.max_send_wr = attributes.cap.max_send_wr,
                       .max_recv_wr = attributes.cap.max_recv_wr,
                       .max_send_sge = attributes.cap.max_send_sge,
                       .max_recv_sge = attributes.cap.max_recv_sge,
                       .max_inline_data = attributes.cap.max_inline_data};
  if (type == hca::QpType::XrcTarget) {
    init.xrcd = object_of<XrcDomainObject>(attributes.xrcd).engine;
    return init;
  }
  init.pd = object_of<ProtectionDomainObject>(attributes.pd).engine;
  init.send_cq = cq_of(attributes.send_cq);
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0) {
    return with_scaling(init, attributes);
  }
  init.recv_cq = cq_of(attributes.recv_cq);
  init.srq = attributes.srq == nullptr ? nullptr
                                       : object_of<SharedReceiveQueueObject>(attributes.srq).engine;
  return init;
}

Result<QpObject*> make_qp(ibv_context* c, const ibv_qp_init_attr_ex& attributes, hca::QpType type) {
  Context& context = context_of(c);
  if (!is_alive(context)) {
    return fail(ErrorCode::Io, "a child of fork() has none of its parent's objects");
  }
  const auto init = to_engine(attributes, type);
  if (!init) {
    return std::unexpected(init.error());
  }
  const bool is_target = type == hca::QpType::XrcTarget;
  auto object = make_object<QpObject>(is_target ? nullptr : attributes.pd);
  if (!object) {
    return fail(ErrorCode::OutOfMemory, "no memory for a QP's object");
  }
  auto engine = context.process->create_qp(context.hca, *init);
  if (!engine) {
    return std::unexpected(engine.error());
  }
  object->signal_all = init->signal_all;
  ibv_qp& qp = object->qp.qp_base;
  qp.qp_context = attributes.qp_context;
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attributes.qp_type;
  init_qp_object(*object, c, **engine);
  if (is_target) {
    add_target(*object, object_of<XrcDomainObject>(attributes.xrcd));
  } else {
    qp.pd = attributes.pd;
    qp.send_cq = attributes.send_cq;
    qp.recv_cq = attributes.recv_cq;
    qp.srq = attributes.srq;
  }
  (*engine)->user = object.get();
  return object.release();
}

/// Send operations that the type offers; any other bit is refused.
[[nodiscard]] Result<void> check_send_operations(hca::QpType type, std::uint64_t flags) {
  constexpr std::uint64_t kWithFlush = 1U << 11;  // IBV_QP_EX_WITH_FLUSH of newer headers
  std::uint64_t offered =
      type == hca::QpType::XrcTarget ? 0 : IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (offered != 0 && type != hca::QpType::Ud) {
    offered |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
               IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  }
  if (type == hca::QpType::Rc || type == hca::QpType::XrcInitiator) {
    offered |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | kWithFlush;
  }
  if (type == hca::QpType::Rc) {
    offered |= IBV_QP_EX_WITH_ATOMIC_WRITE;
  }
  if ((flags & ~offered) != 0) {
    return fail(ErrorCode::NotSupported, "send operations {:#x}: this QP type offers {:#x}", flags,
                offered);
  }
  return {};
}

ibv_qp* create_qp_ex(ibv_context* c, ibv_qp_init_attr_ex* attributes) noexcept {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                                   IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  const auto has = [&](std::uint32_t bit) { return (attributes->comp_mask & bit) != 0; };
  if ((attributes->comp_mask & ~kKnown) != 0 ||
      (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attributes->create_flags != 0)) {
    refuse(EOPNOTSUPP, fmt::format("QP creation mask {:#x}: only {:#x} is known, without flags",
                                   attributes->comp_mask, kKnown));
    return nullptr;
  }
  const bool is_target = attributes->qp_type == IBV_QPT_XRC_RECV;
  if (!is_target && (!has(IBV_QP_INIT_ATTR_PD) || attributes->pd == nullptr)) {
    refuse(EINVAL, "a QP needs a PD");
    return nullptr;
  }
  const auto type = type_of(attributes->qp_type);
  auto checked = type ? Result<void>{} : Result<void>{std::unexpected(type.error())};
  if (checked && has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
    checked = check_send_operations(*type, attributes->send_ops_flags);
  }
  if (!checked) {
    refuse(checked.error());
    return nullptr;
  }
  auto object = make_qp(c, *attributes, *type);
  if (!object) {
    refuse(object.error());
    return nullptr;
  }
  attributes->cap = from_engine((*object)->engine->query().capabilities);
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
    (*object)->has_send_operations = true;
    set_send_operations(**object);
  }
  return &(*object)->qp.qp_base;
}

[[nodiscard]] Result<hca::QpAttributes> to_engine(const ibv_qp_attr& in, unsigned mask) {
  const auto has = [&](unsigned bit) { return (mask & bit) != 0; };
  if ((has(IBV_QP_STATE) && in.qp_state > IBV_QPS_ERR) ||
      (has(IBV_QP_CUR_STATE) && in.cur_qp_state > IBV_QPS_ERR)) {
    return fail(ErrorCode::InvalidArgument, "there is no such QP state");
  }
  if (has(IBV_QP_PATH_MTU) && (in.path_mtu < IBV_MTU_256 || in.path_mtu > IBV_MTU_4096)) {
    return fail(ErrorCode::InvalidArgument, "path MTU {} is not in 1..5 (256 to 4096 bytes)",
                static_cast<int>(in.path_mtu));
  }
  if ((has(IBV_QP_TIMEOUT) && in.timeout > 31) || (has(IBV_QP_ALT_PATH) && in.alt_timeout > 31)) {
    return fail(ErrorCode::InvalidArgument, "a timeout exponent is in 0..31");
  }
  hca::QpAttributes out;
  const auto when = [&](unsigned bit, auto set) {
    if (has(bit)) {
      set();
    }
  };
  when(IBV_QP_STATE, [&] { out.state = static_cast<hca::QpState>(in.qp_state); });
  when(IBV_QP_CUR_STATE, [&] { out.current_state = static_cast<hca::QpState>(in.cur_qp_state); });
  when(IBV_QP_EN_SQD_ASYNC_NOTIFY,
       [&] { out.enable_sqd_async_notify = in.en_sqd_async_notify != 0; });
  when(IBV_QP_ACCESS_FLAGS, [&] { out.access = hca::AccessFlags::from_bits(in.qp_access_flags); });
  when(IBV_QP_PKEY_INDEX, [&] { out.pkey_index = in.pkey_index; });
  when(IBV_QP_PORT, [&] { out.port = PortNumber{in.port_num}; });
  when(IBV_QP_QKEY, [&] { out.qkey = QKey{in.qkey}; });
  when(IBV_QP_AV, [&] { out.address = compat::to_engine(in.ah_attr); });
  when(IBV_QP_PATH_MTU, [&] { out.path_mtu = static_cast<verbs::Mtu>(in.path_mtu); });
  when(IBV_QP_TIMEOUT, [&] { out.timeout = TimeoutExponent{in.timeout}; });
  when(IBV_QP_RETRY_CNT, [&] { out.retry_count = in.retry_cnt; });
  when(IBV_QP_RNR_RETRY, [&] { out.rnr_retry = in.rnr_retry; });
  when(IBV_QP_RQ_PSN, [&] { out.rq_psn = Psn{in.rq_psn & 0xFF'FFFF}; });
  when(IBV_QP_MAX_QP_RD_ATOMIC, [&] { out.max_rd_atomic = in.max_rd_atomic; });
  when(IBV_QP_ALT_PATH, [&] {
    out.alternate_address = compat::to_engine(in.alt_ah_attr);
    out.alternate_pkey_index = in.alt_pkey_index;
    out.alternate_port = PortNumber{in.alt_port_num};
    out.alternate_timeout = TimeoutExponent{in.alt_timeout};
  });
  when(IBV_QP_MIN_RNR_TIMER, [&] { out.min_rnr_timer = in.min_rnr_timer; });
  when(IBV_QP_SQ_PSN, [&] { out.sq_psn = Psn{in.sq_psn & 0xFF'FFFF}; });
  when(IBV_QP_MAX_DEST_RD_ATOMIC, [&] { out.max_dest_rd_atomic = in.max_dest_rd_atomic; });
  when(IBV_QP_PATH_MIG_STATE,
       [&] { out.migration = static_cast<hca::MigrationState>(in.path_mig_state); });
  when(IBV_QP_DEST_QPN, [&] { out.dest_qpn = Qpn{in.dest_qp_num & 0xFF'FFFF}; });
  return out;
}

/// Programs use one set of attributes for both QPs of an XRC pair. As in Linux's user verbs,
/// attributes of the half that a QP lacks are removed; the engine is as strict as R-QP-3.
[[nodiscard]] unsigned mask_for(ibv_qp_type type, unsigned mask) {
  constexpr unsigned kTargets = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr unsigned kInitiators = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  return type == IBV_QPT_XRC_SEND   ? mask & ~kTargets
         : type == IBV_QPT_XRC_RECV ? mask & ~kInitiators
                                    : mask;
}

}  // namespace

void weft::compat::init_qp_object(QpObject& object, ibv_context* context, hca::Qp& engine) {
  object.engine = &engine;
  object.context = &context_of(context);
  ibv_qp& qp = object.qp.qp_base;
  qp.context = context;
  qp.qp_num = engine.number().value();
  qp.handle = qp.qp_num;
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
}

void weft::compat::set_qp_operations(verbs_context& verbs) {
  ibv_context_ops& operations = verbs.context.ops;
  operations.post_send = post_send;
  operations.post_recv = post_recv;
  verbs.create_qp_ex = create_qp_ex;
}

extern "C" {

WEFT_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = attributes->qp_context;
  extended.send_cq = attributes->send_cq;
  extended.recv_cq = attributes->recv_cq;
  extended.srq = attributes->srq;
  extended.cap = attributes->cap;
  extended.qp_type = attributes->qp_type;
  extended.sq_sig_all = attributes->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* const qp = create_qp_ex(pd->context, &extended);
  if (qp != nullptr) {
    attributes->cap = extended.cap;
  }
  return qp;
}

WEFT_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  auto& object = object_of<QpObject>(qp);
  return object.has_send_operations ? &object.qp : nullptr;
}

WEFT_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int asked) {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  const unsigned mask = mask_for(qp->qp_type, static_cast<unsigned>(asked));
  const auto to = to_engine(*attributes, mask);
  if (!to) {
    return refuse(to.error());
  }
  const auto bits = hca::QpAttributeMask::from_bits(mask);
  host::Process& process = *object.context->process;
  const auto modified = object.foreign ? process.modify_target(object.foreign->domain,
                                                               object.foreign->number, *to, bits)
                                       : process.modify_qp(*object.engine, *to, bits);
  if (!modified) {
    return refuse(modified.error());
  }
  if ((mask & IBV_QP_STATE) != 0) {
    qp->state = attributes->qp_state;
  }
  return 0;
}

WEFT_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* out, int, ibv_qp_init_attr* init) {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  const auto asked = object.foreign ? object.context->process->query_target(object.foreign->domain,
                                                                            object.foreign->number)
                                    : Result<hca::QpAttributes>{object.engine->query()};
  if (!asked) {
    return refuse(asked.error());
  }
  const hca::QpAttributes& in = *asked;
  *out = {};
  out->qp_state = static_cast<ibv_qp_state>(in.state);
  out->cur_qp_state = out->qp_state;
  out->path_mtu = static_cast<ibv_mtu>(in.path_mtu);
  out->path_mig_state = static_cast<ibv_mig_state>(in.migration);
  out->qkey = in.qkey.value();
  out->rq_psn = in.rq_psn.value();
  out->sq_psn = in.sq_psn.value();
  out->dest_qp_num = in.dest_qpn.value();
  out->qp_access_flags = in.access.bits();
  out->cap = from_engine(in.capabilities);
  out->ah_attr = compat::from_engine(in.address);
  out->alt_ah_attr = compat::from_engine(in.alternate_address);
  out->pkey_index = in.pkey_index;
  out->alt_pkey_index = in.alternate_pkey_index;
  out->en_sqd_async_notify = in.enable_sqd_async_notify ? 1 : 0;
  out->sq_draining = in.sq_draining ? 1 : 0;
  out->max_rd_atomic = in.max_rd_atomic;
  out->max_dest_rd_atomic = in.max_dest_rd_atomic;
  out->min_rnr_timer = in.min_rnr_timer;
  out->port_num = in.port.value();
  out->timeout = in.timeout.value();
  out->retry_cnt = in.retry_count;
  out->rnr_retry = in.rnr_retry;
  out->alt_port_num = in.alternate_port.value();
  out->alt_timeout = in.alternate_timeout.value();
  qp->state = out->qp_state;
  *init = {.qp_context = qp->qp_context,
           .send_cq = qp->send_cq,
           .recv_cq = qp->recv_cq,
           .srq = qp->srq,
           .cap = out->cap,
           .qp_type = qp->qp_type,
           .sq_sig_all = object.signal_all ? 1 : 0};
  return 0;
}

WEFT_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  auto& object = object_of<QpObject>(qp);
  Context& context = *object.context;
  const bool is_last = object.xrcd == nullptr || remove_target(object);
  if (is_alive(context)) {
    if (!is_last) {
      // Another handle keeps the target QP.
    } else if (auto destroyed = object.xrcd != nullptr
                                    ? release_target_handle(object)
                                    : context.process->destroy_qp(context.hca, *object.engine);
               !destroyed) {
      return refuse(destroyed.error());
    }
    context.async_events.purge([&](const AsyncEventRecord& record) {
      return event_source(record.event.event_type) == EventSource::QueuePair &&
             record.event.element.qp == qp;
    });
    pthread_mutex_lock(&qp->mutex);
    while (qp->events_completed != object.asynchronous_events) {
      pthread_cond_wait(&qp->cond, &qp->mutex);
    }
    pthread_mutex_unlock(&qp->mutex);
  }
  if (object.xrcd != nullptr) {
    --object.xrcd->uses;
  }
  destroy_object(object);
  return 0;
}

/// The engine places a message's last bytes last, but promises no order of the bytes before.
WEFT_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

// As an adapter whose driver has no enhanced connection establishment: programs accept this, but
// not an ECE without a vendor.
WEFT_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece*) {
  return refuse(EOPNOTSUPP, "there are no vendor's enhancements");
}
WEFT_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) {
  return refuse(EOPNOTSUPP, "there are no vendor's enhancements");
}

}  // extern "C"
