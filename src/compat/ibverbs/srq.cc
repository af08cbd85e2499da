// Shared receive queues.

#include <cerrno>
#include <memory>
#include <optional>

#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"

namespace {

using namespace weft;
using namespace weft::compat;

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  auto& object = object_of<SharedReceiveQueueObject>(srq);
  if (!is_alive(*object.context)) {
    *bad_wr = wr;
    return EIO;
  }
  for (; wr != nullptr; wr = wr->next) {
    const auto posted =
        object.engine->post({.wr_id = wr->wr_id, .sges = sges_of(wr->sg_list, wr->num_sge)});
    if (!posted) {
      *bad_wr = wr;
      return refuse(posted.error());
    }
  }
  return 0;
}

ibv_srq* make_srq(ibv_pd* pd, void* srq_context, ibv_srq_attr& attributes) {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto object = make_object<SharedReceiveQueueObject>(pd);
  if (!object) {
    return nullptr;
  }
  auto engine = context.engine->create_srq(*object_of<ProtectionDomainObject>(pd).engine,
                                           attributes.max_wr, attributes.max_sge, 0);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  object->engine = *engine;
  object->context = &context;
  object->srq.context = pd->context;
  object->srq.srq_context = srq_context;
  object->srq.pd = pd;
  pthread_mutex_init(&object->srq.mutex, nullptr);
  pthread_cond_init(&object->srq.cond, nullptr);
  (*engine)->user = object.get();
  attributes.max_wr = (*engine)->depth();
  attributes.max_sge = (*engine)->max_sge();
  return &object.release()->srq;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attributes) noexcept {
  constexpr std::uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool is_basic = (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 ||
                        attributes->srq_type == IBV_SRQT_BASIC;
  if ((attributes->comp_mask & ~kKnown) != 0 || !is_basic) {
    refuse(EOPNOTSUPP, "only basic SRQs exist here, no XRC and no tag matching");
    return nullptr;
  }
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
    refuse(EINVAL, "an SRQ needs a PD");
    return nullptr;
  }
  return make_srq(attributes->pd, attributes->srq_context, attributes->attr);
}

int get_srq_num(ibv_srq*, std::uint32_t*) noexcept {
  return refuse(EOPNOTSUPP, "only an XRC SRQ has a number");
}

}  // namespace

void weft::compat::set_srq_operations(verbs_context& verbs) {
  verbs.context.ops.post_srq_recv = post_srq_recv;
  verbs.create_srq_ex = create_srq_ex;
  verbs.get_srq_num = get_srq_num;
}

extern "C" {

WEFT_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return make_srq(pd, attributes->srq_context, attributes->attr);
}

WEFT_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  auto& object = object_of<SharedReceiveQueueObject>(srq);
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
    return refuse(EINVAL, "unknown attributes of an SRQ");
  }
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  const auto when = [&](int bit, std::uint32_t value) {
    return (mask & bit) != 0 ? std::optional{value} : std::nullopt;
  };
  const auto modified =
      object.context->engine->modify_srq(*object.engine, when(IBV_SRQ_MAX_WR, attributes->max_wr),
                                         when(IBV_SRQ_LIMIT, attributes->srq_limit));
  return modified ? 0 : refuse(modified.error());
}

WEFT_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  auto& object = object_of<SharedReceiveQueueObject>(srq);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  attributes->max_wr = object.engine->depth();
  attributes->max_sge = object.engine->max_sge();
  attributes->srq_limit = object.engine->limit();
  return 0;
}

WEFT_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  auto& object = object_of<SharedReceiveQueueObject>(srq);
  Context& context = *object.context;
  if (is_alive(context)) {
    if (auto destroyed = context.engine->destroy_srq(*object.engine); !destroyed) {
      return refuse(destroyed.error());
    }
    context.async_events.purge([&](const AsyncEventRecord& record) {
      return (record.event.event_type == IBV_EVENT_SRQ_ERR ||
              record.event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) &&
             record.event.element.srq == srq;
    });
    pthread_mutex_lock(&srq->mutex);
    while (srq->events_completed != object.asynchronous_events) {
      pthread_cond_wait(&srq->cond, &srq->mutex);
    }
    pthread_mutex_unlock(&srq->mutex);
  }
  destroy_object(object);
  return 0;
}

}  // extern "C"
