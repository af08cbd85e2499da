// QPs of an engine, and what is posted to them.

#include "core/engine/engine_operations.h"

namespace weft::core::engine {
namespace {

/// Stands for the QP's own Q_Key in a request (IBTA vol 1 §10.2.5).
constexpr QKey kOwnQKey{0x8000'0000};

Result<void> create_qp(Qp& qp, const QpInit& init) {
  Engine& engine = engine_of(qp.device());
  const auto made = engine.hca().create_qp({
      .type = init.type,
      .pd = qp.pd() != nullptr ? &engine_pd(*qp.pd()) : nullptr,
      .send_cq = init.send_cq != nullptr ? &engine_cq(*init.send_cq) : nullptr,
      .recv_cq = init.recv_cq != nullptr ? &engine_cq(*init.recv_cq) : nullptr,
      .srq = init.srq != nullptr ? &engine_srq(*init.srq) : nullptr,
      .xrcd = init.xrcd != nullptr ? &engine_xrcd(*init.xrcd) : nullptr,
      .signal_all = init.signal_all,
      .capabilities = init.capabilities,
      .external_number = init.external_number,
      .scaling = {.table = init.indirection_table != nullptr
                               ? &engine_table(*init.indirection_table)
                               : nullptr,
                  .hash = init.receive_hash},
  });
  if (!made) {
    return std::unexpected(made.error());
  }
  (*made)->user = &qp;
  qp.driver_data = *made;
  qp.set_number((*made)->external_number());
  qp.set_capabilities((*made)->query().capabilities);
  EngineOperations::qp_slot(engine, (*made)->number()).store(&qp, std::memory_order_release);
  engine.carrier().wake(**made);
  return {};
}

Result<void> modify_qp(Qp& qp, const QpModify& modify) {
  hca::Qp& made = engine_qp(qp);
  auto changed = made.modify(modify.attributes, modify.mask);
  engine_of(qp.device()).carrier().wake(made);
  return changed;
}

Result<verbs::QpAttributes> query_qp(Qp& qp, verbs::QpAttributeMask /*mask*/) {
  return engine_qp(qp).query();
}

Result<void> destroy_qp(Qp& qp) {
  Engine& engine = engine_of(qp.device());
  const Qpn own_number = engine_qp(qp).number();
  auto gone = engine.carrier().destroy(engine.hca(), engine_qp(qp));
  if (gone) {
    EngineOperations::qp_slot(engine, own_number).store(nullptr, std::memory_order_release);
    EngineOperations::forget(engine, &qp);
  }
  return gone;
}

[[nodiscard]] bool is_of_integrity(const SendWr& wr) {
  return wr.opcode == verbs::WrOpcode::RegisterMemoryIntegrity;
}

/// Its attributes are those of the moment when it is posted.
Result<void> sign(const SendWr& wr) {
  if (wr.mr == nullptr || wr.mr->type() != MrType::Integrity) {
    return fail(ErrorCode::InvalidArgument, "only an integrity region is registered by this");
  }
  return EngineOperations::sign(*wr.mr);
}

[[nodiscard]] hca::SendWr engine_wr(const SendWr& wr) {
  hca::SendWr to;
  to.wr_id = wr.wr_id;
  to.opcode = wr.opcode;
  to.flags = wr.flags;
  to.sges = wr.sges;
  to.immediate = wr.immediate;
  to.remote_address = wr.remote_address;
  const bool invalidates = wr.opcode == verbs::WrOpcode::SendWithInvalidate ||
                           wr.opcode == verbs::WrOpcode::LocalInvalidate;
  to.rkey = invalidates ? wr.invalidate_rkey : wr.rkey;
  to.xrc_srqn = wr.xrc_srqn;
  to.compare_add = wr.compare_add;
  to.swap = wr.swap;
  if (wr.opcode == verbs::WrOpcode::RegisterMemory || is_of_integrity(wr)) {
    to.opcode = verbs::WrOpcode::RegisterMemory;  // of which the engine has one kind
    to.registers = true;
    to.rkey = RKey{wr.key};
    to.swap = wr.access.bits();
    return to;
  }
  to.ah = wr.ah != nullptr ? static_cast<const hca::AddressHandle*>(wr.ah->driver_data) : nullptr;
  to.remote_qpn = wr.remote_qpn;
  to.remote_qkey = wr.remote_qkey == QKey{} ? kOwnQKey : wr.remote_qkey;
  return to;
}

Result<void> post_send(Qp& qp, const SendWr& first, const SendWr** bad) {
  Engine& engine = engine_of(qp.device());
  hca::Qp& made = engine_qp(qp);
  for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    auto posted = is_of_integrity(*wr) ? sign(*wr) : Result<void>{};
    if (posted) {
      posted = engine.carrier().post(made, engine_wr(*wr));
    }
    if (!posted) {
      *bad = wr;
      return posted;
    }
  }
  return {};
}

Result<void> post_recv(Qp& qp, const RecvWr& first, const RecvWr** bad) {
  return post_receives(first, bad,
                       [&](const hca::RecvWr& wr) { return engine_qp(qp).post_recv(wr); });
}

Result<void> attach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  return engine_of(qp.device()).hca().attach_multicast(engine_qp(qp), gid, lid);
}

Result<void> detach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  return engine_of(qp.device()).hca().detach_multicast(engine_qp(qp), gid, lid);
}

}  // namespace

void EngineOperations::add_qps(DeviceOperations& operations) {
  operations.create_qp = create_qp;
  operations.modify_qp = modify_qp;
  operations.query_qp = query_qp;
  operations.destroy_qp = destroy_qp;
  operations.post_send = post_send;
  operations.post_recv = post_recv;
  operations.attach_multicast = attach_multicast;
  operations.detach_multicast = detach_multicast;
}

}  // namespace weft::core::engine
