// Receive work queues without a QP, and the tables by which QPs receive into them.

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"

namespace weft::compat {
namespace {

int post_recv(ibv_wq* wq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  auto& object = object_of<WorkQueueObject>(wq);
  if (!is_alive(*object.context)) {
    *bad_wr = wr;
    return refuse_in_child();
  }
  return post_each(wr, bad_wr, [&](const hca::RecvWr& one) { return object.engine->post(one); });
}

[[nodiscard]] Result<void> check_wq_attributes(const ibv_context* c,
                                               const ibv_wq_init_attr& attributes) {
  if (attributes.wq_type != IBV_WQT_RQ) {
    return fail(ErrorCode::InvalidArgument, "a work queue is a receive queue (IBV_WQT_RQ)");
  }
  constexpr std::uint32_t kKnown = IBV_WQ_INIT_ATTR_FLAGS;
  if ((attributes.comp_mask & ~kKnown) != 0 ||
      ((attributes.comp_mask & kKnown) != 0 && attributes.create_flags != 0)) {
    return fail(ErrorCode::NotSupported,
                "flags of work queues are about Ethernet frames; this device knows none");
  }
  if (attributes.pd == nullptr || attributes.cq == nullptr || attributes.pd->context != c ||
      attributes.cq->context != c) {
    return fail(ErrorCode::InvalidArgument, "a work queue needs a PD and a CQ of its own context");
  }
  return {};
}

ibv_wq* create_wq(ibv_context* c, ibv_wq_init_attr* attributes) noexcept {
  Context& context = context_of(c);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (auto checked = check_wq_attributes(c, *attributes); !checked) {
    refuse(checked.error());
    return nullptr;
  }
  auto engine =
      context.engine->create_wq({.pd = object_of<ProtectionDomainObject>(attributes->pd).engine,
                                 .cq = object_of<CompletionQueueObject>(attributes->cq).engine,
                                 .depth = attributes->max_wr,
                                 .max_sge = attributes->max_sge});
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  auto object = std::make_unique<WorkQueueObject>();
  object->engine = *engine;
  object->context = &context;
  object->wq.context = c;
  object->wq.pd = attributes->pd;
  object->wq.cq = attributes->cq;
  object->wq.wq_num = (*engine)->number().value();
  object->wq.handle = object->wq.wq_num;
  object->wq.wq_type = IBV_WQT_RQ;
  object->wq.state = IBV_WQS_RESET;
  object->wq.post_recv = post_recv;
  hold(attributes->pd);
  return &object.release()->wq;
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attributes) noexcept {
  auto& object = object_of<WorkQueueObject>(wq);
  const auto has = [&](std::uint32_t bit) { return (attributes->attr_mask & bit) != 0; };
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  constexpr std::uint32_t kKnown = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  if ((attributes->attr_mask & ~kKnown) != 0) {
    return refuse(EOPNOTSUPP, "of a work queue only the state can be changed");
  }
  if (!has(IBV_WQ_ATTR_STATE) || attributes->wq_state > IBV_WQS_ERR ||
      (has(IBV_WQ_ATTR_CURR_STATE) && attributes->curr_wq_state > IBV_WQS_ERR)) {
    return refuse(EINVAL, "a work queue is changed to a state that exists");
  }
  const auto from = has(IBV_WQ_ATTR_CURR_STATE)
                        ? std::optional{static_cast<hca::WorkQueueState>(attributes->curr_wq_state)}
                        : std::nullopt;
  const auto modified =
      object.engine->modify(from, static_cast<hca::WorkQueueState>(attributes->wq_state));
  if (!modified) {
    return refuse(modified.error());
  }
  wq->state = attributes->wq_state;
  return 0;
}

int destroy_wq(ibv_wq* wq) noexcept {
  auto& object = object_of<WorkQueueObject>(wq);
  if (is_alive(*object.context)) {
    if (auto destroyed = object.context->engine->destroy_wq(*object.engine); !destroyed) {
      return refuse(destroyed.error());
    }
  }
  release_hold(wq->pd);
  delete &object;
  return 0;
}

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* c,
                                        ibv_rwq_ind_table_init_attr* attributes) noexcept {
  Context& context = context_of(c);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (attributes->comp_mask != 0 || attributes->ind_tbl == nullptr ||
      attributes->log_ind_tbl_size > hca::IndirectionTable::kMaxLog2) {
    refuse(EINVAL, fmt::format("an indirection table has up to 2^{} entries, and nothing else",
                               hca::IndirectionTable::kMaxLog2));
    return nullptr;
  }
  std::vector<hca::WorkQueue*> queues;
  for (ibv_wq* const wq :
       std::span{attributes->ind_tbl, std::size_t{1} << attributes->log_ind_tbl_size}) {
    if (wq == nullptr || wq->context != c) {
      refuse(EINVAL, "each entry of an indirection table is a work queue of its own context");
      return nullptr;
    }
    queues.push_back(object_of<WorkQueueObject>(wq).engine);
  }
  auto engine = context.engine->create_indirection_table(queues);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  auto object = std::make_unique<IndirectionTableObject>();
  object->engine = *engine;
  object->context = &context;
  object->table.context = c;
  return &object.release()->table;
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* table) noexcept {
  auto& object = object_of<IndirectionTableObject>(table);
  if (is_alive(*object.context)) {
    if (auto destroyed = object.context->engine->destroy_indirection_table(*object.engine);
        !destroyed) {
      return refuse(destroyed.error());
    }
  }
  delete &object;
  return 0;
}

}  // namespace

void set_wq_operations(verbs_context& verbs) {
  verbs.create_rwq_ind_table = create_rwq_ind_table;
  verbs.destroy_rwq_ind_table = destroy_rwq_ind_table;
  verbs.create_wq = create_wq;
  verbs.modify_wq = modify_wq;
  verbs.destroy_wq = destroy_wq;
}

}  // namespace weft::compat
