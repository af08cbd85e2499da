// PDs, address handles, CQs, SRQs, XRC domains and work queues of an engine.

#include <array>
#include <vector>

#include "core/engine/engine_operations.h"

namespace weft::core::engine {
namespace {

/// Keeps what the engine made for one of the core's objects.
template <class Object, class Made>
Result<void> keep(Object& object, const Result<Made*>& made) {
  if (!made) {
    return std::unexpected(made.error());
  }
  object.driver_data = *made;
  return {};
}

Result<void> allocate_pd(Pd& pd, UserData* /*user_data*/) {
  return keep(pd, engine_of(pd.device()).hca().allocate_pd());
}

Result<void> deallocate_pd(Pd& pd, UserData* /*user_data*/) {
  return engine_of(pd.device()).hca().deallocate_pd(engine_pd(pd));
}

Result<void> create_ah(Ah& ah, const AhAttributes& attributes, AhFlags /*flags*/,
                       UserData* /*user_data*/) {
  return keep(ah, engine_of(ah.device()).hca().create_ah(engine_pd(ah.pd()), attributes.address));
}

Result<AhAttributes> query_ah(Ah& ah) {
  AhAttributes attributes;
  attributes.address = static_cast<hca::AddressHandle*>(ah.driver_data)->attributes();
  return attributes;
}

Result<void> destroy_ah(Ah& ah, AhFlags /*flags*/) {
  return engine_of(ah.device()).hca().destroy_ah(*static_cast<hca::AddressHandle*>(ah.driver_data));
}

Result<void> create_cq(Cq& cq, std::uint32_t entries, UserData* /*user_data*/) {
  const auto made = engine_of(cq.device()).hca().create_cq(entries);
  if (!made) {
    return std::unexpected(made.error());
  }
  (*made)->user = &cq;
  cq.driver_data = *made;
  cq.set_capacity((*made)->capacity());
  return {};
}

Result<void> destroy_cq(Cq& cq) {
  Engine& engine = engine_of(cq.device());
  auto gone = engine.hca().destroy_cq(engine_cq(cq));
  if (gone) {
    EngineOperations::forget(engine, &cq);
  }
  return gone;
}

unsigned poll_cq(Cq& cq, std::span<Wc> into) {
  Engine& engine = engine_of(cq.device());
  auto to = into.begin();
  return static_cast<unsigned>(engine_cq(cq).consume(into.size(), [&](const hca::Wc& wc) {
    static_cast<verbs::Wc&>(*to) = wc;
    to->qp = EngineOperations::find_qp(engine, wc.qpn);
    to->port = {};
    ++to;
  }));
}

Result<bool> request_notify(Cq& cq, NotifyFlags flags) {
  const bool solicited_only =
      flags.has(NotifyFlag::Solicited) && !flags.has(NotifyFlag::NextCompletion);
  engine_cq(cq).arm(solicited_only);
  // The engine's CQ fires at once for what came before it was armed; to poll again is no harm.
  return flags.has(NotifyFlag::ReportMissedEvents) && !engine_cq(cq).is_empty();
}

Result<void> resize_cq(Cq& cq, std::uint32_t entries) {
  auto resized = engine_cq(cq).resize(entries);
  cq.set_capacity(engine_cq(cq).capacity());
  return resized;
}

Result<void> create_srq(Srq& srq, SrqAttributes& actual, UserData* /*user_data*/) {
  hca::Hca& hca = engine_of(srq.device()).hca();
  const auto made =
      srq.type() == SrqType::Xrc
          ? hca.create_xrc_srq(engine_pd(srq.pd()), engine_xrcd(*srq.xrcd()), engine_cq(*srq.cq()),
                               actual.max_wr, actual.max_sge)
          : hca.create_srq(engine_pd(srq.pd()), actual.max_wr, actual.max_sge, actual.limit);
  if (!made) {
    return std::unexpected(made.error());
  }
  (*made)->user = &srq;
  srq.driver_data = *made;
  srq.xrc_number = (*made)->xrc().number;
  actual.max_wr = (*made)->depth();
  actual.max_sge = (*made)->max_sge();
  return {};
}

Result<void> modify_srq(Srq& srq, std::optional<std::uint32_t> max_wr,
                        std::optional<std::uint32_t> limit) {
  return engine_of(srq.device()).hca().modify_srq(engine_srq(srq), max_wr, limit);
}

Result<SrqAttributes> query_srq(Srq& srq) {
  hca::SharedReceiveQueue& made = engine_srq(srq);
  return SrqAttributes{.max_wr = made.depth(), .max_sge = made.max_sge(), .limit = made.limit()};
}

Result<void> destroy_srq(Srq& srq) {
  Engine& engine = engine_of(srq.device());
  auto gone = engine.hca().destroy_srq(engine_srq(srq));
  if (gone) {
    EngineOperations::forget(engine, &srq);
  }
  return gone;
}

Result<void> post_srq_recv(Srq& srq, const RecvWr& first, const RecvWr** bad) {
  return post_receives(first, bad, [&](const hca::RecvWr& wr) { return engine_srq(srq).post(wr); });
}

Result<void> allocate_xrcd(Xrcd& xrcd) {
  return keep(xrcd, engine_of(xrcd.device()).hca().open_xrc_domain());
}

Result<void> deallocate_xrcd(Xrcd& xrcd) {
  return engine_of(xrcd.device()).hca().close_xrc_domain(engine_xrcd(xrcd));
}

[[nodiscard]] hca::WorkQueue& engine_wq(const Wq& wq) {
  return *static_cast<hca::WorkQueue*>(wq.driver_data);
}

Result<void> create_wq(Wq& wq, WqInit& actual) {
  const auto made = engine_of(wq.device())
                        .hca()
                        .create_wq({.pd = &engine_pd(wq.pd()),
                                    .cq = &engine_cq(wq.cq()),
                                    .depth = actual.max_wr,
                                    .max_sge = actual.max_sge});
  if (!made) {
    return std::unexpected(made.error());
  }
  wq.driver_data = *made;
  wq.number = (*made)->number();
  actual.max_wr = (*made)->depth();
  actual.max_sge = (*made)->max_sge();
  return {};
}

Result<void> destroy_wq(Wq& wq) { return engine_of(wq.device()).hca().destroy_wq(engine_wq(wq)); }

Result<void> modify_wq(Wq& wq, const WqModify& modify) {
  constexpr auto kStates = std::to_array<hca::WorkQueueState>(
      {hca::WorkQueueState::Reset, hca::WorkQueueState::Ready, hca::WorkQueueState::Error});
  if (!modify.state) {
    return {};
  }
  return engine_wq(wq).modify(kStates[static_cast<std::size_t>(*modify.current_state)],
                              kStates[static_cast<std::size_t>(*modify.state)]);
}

Result<void> post_wq_recv(Wq& wq, const RecvWr& first, const RecvWr** bad) {
  return post_receives(first, bad, [&](const hca::RecvWr& wr) { return engine_wq(wq).post(wr); });
}

Result<void> create_indirection_table(IndirectionTable& table) {
  std::vector<hca::WorkQueue*> queues;
  for (const Wq* const wq : table.queues()) {
    queues.push_back(&engine_wq(*wq));
  }
  return keep(table, engine_of(table.device()).hca().create_indirection_table(queues));
}

Result<void> destroy_indirection_table(IndirectionTable& table) {
  return engine_of(table.device()).hca().destroy_indirection_table(engine_table(table));
}

}  // namespace

void EngineOperations::add_objects(DeviceOperations& operations) {
  operations.allocate_pd = allocate_pd;
  operations.deallocate_pd = deallocate_pd;
  operations.create_ah = create_ah;
  operations.query_ah = query_ah;
  operations.destroy_ah = destroy_ah;
  operations.create_cq = create_cq;
  operations.destroy_cq = destroy_cq;
  operations.poll_cq = poll_cq;
  operations.request_notify = request_notify;
  operations.resize_cq = resize_cq;
  operations.create_srq = create_srq;
  operations.modify_srq = modify_srq;
  operations.query_srq = query_srq;
  operations.destroy_srq = destroy_srq;
  operations.post_srq_recv = post_srq_recv;
  operations.allocate_xrcd = allocate_xrcd;
  operations.deallocate_xrcd = deallocate_xrcd;
  operations.create_wq = create_wq;
  operations.destroy_wq = destroy_wq;
  operations.modify_wq = modify_wq;
  operations.post_wq_recv = post_wq_recv;
  operations.create_indirection_table = create_indirection_table;
  operations.destroy_indirection_table = destroy_indirection_table;
}

}  // namespace weft::core::engine
