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
    return refuse_in_child();
  }
  return post_each(wr, bad_wr, [&](const hca::RecvWr& one) { return object.engine->post(one); });
}

/// What an XRC SRQ has in addition; `domain` is null for others.
struct XrcPlace {
  XrcDomainObject* domain{};
  CompletionQueueObject* cq{};
};

ibv_srq* make_srq(ibv_pd* pd, void* srq_context, ibv_srq_attr& attributes, XrcPlace xrc) {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto object = make_object<SharedReceiveQueueObject>(pd);
  if (!object) {
    return nullptr;
  }
  hca::ProtectionDomain& domain = *object_of<ProtectionDomainObject>(pd).engine;
  auto engine =
      xrc.domain == nullptr
          ? context.engine->create_srq(domain, attributes.max_wr, attributes.max_sge, 0)
          : context.process->create_xrc_srq(context.hca, domain, *xrc.domain->engine,
                                            *xrc.cq->engine, attributes.max_wr, attributes.max_sge);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  object->engine = *engine;
  object->context = &context;
  if (xrc.domain != nullptr) {
    object->xrcd = xrc.domain;
    ++xrc.domain->uses;
  }
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

ibv_srq* create_srq_ex(ibv_context* c, ibv_srq_init_attr_ex* attributes) noexcept {
  constexpr std::uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const auto has = [&](std::uint32_t bits) { return (attributes->comp_mask & bits) == bits; };
  const ibv_srq_type type = has(IBV_SRQ_INIT_ATTR_TYPE) ? attributes->srq_type : IBV_SRQT_BASIC;
  const bool is_xrc = type == IBV_SRQT_XRC;
  const std::uint32_t known =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (is_xrc ? kXrc : std::uint32_t{0});
  if ((attributes->comp_mask & ~known) != 0 || (type != IBV_SRQT_BASIC && !is_xrc)) {
    refuse(EOPNOTSUPP, "basic and XRC SRQs exist here, without tag matching");
    return nullptr;
  }
  if (!has(IBV_SRQ_INIT_ATTR_PD) || attributes->pd == nullptr) {
    refuse(EINVAL, "an SRQ needs a PD");
    return nullptr;
  }
  if (!is_xrc) {
    return make_srq(attributes->pd, attributes->srq_context, attributes->attr, {});
  }
  if (!has(kXrc) || attributes->xrcd == nullptr || attributes->cq == nullptr ||
      attributes->xrcd->context != c || attributes->cq->context != c) {
    refuse(EINVAL, "an XRC SRQ needs an XRC domain and a CQ of its context");
    return nullptr;
  }
  return make_srq(attributes->pd, attributes->srq_context, attributes->attr,
                  {.domain = &object_of<XrcDomainObject>(attributes->xrcd),
                   .cq = &object_of<CompletionQueueObject>(attributes->cq)});
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
  const auto& object = object_of<SharedReceiveQueueObject>(srq);
  if (object.xrcd == nullptr) {
    return refuse(EOPNOTSUPP, "only an XRC SRQ has a number");
  }
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  *number = object.engine->xrc().number;
  return 0;
}

}  // namespace

void weft::compat::set_srq_operations(verbs_context& verbs) {
  verbs.context.ops.post_srq_recv = post_srq_recv;
  verbs.create_srq_ex = create_srq_ex;
  verbs.get_srq_num = get_srq_num;
}

extern "C" {

WEFT_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return make_srq(pd, attributes->srq_context, attributes->attr, {});
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
    const auto destroyed = object.xrcd == nullptr
                               ? context.engine->destroy_srq(*object.engine)
                               : context.process->destroy_xrc_srq(context.hca, *object.engine);
    if (!destroyed) {
      return refuse(destroyed.error());
    }
    context.async_events.purge([&](const AsyncEventRecord& record) {
      return event_source(record.event.event_type) == EventSource::SharedReceiveQueue &&
             record.event.element.srq == srq;
    });
    pthread_mutex_lock(&srq->mutex);
    while (srq->events_completed != object.asynchronous_events) {
      pthread_cond_wait(&srq->cond, &srq->mutex);
    }
    pthread_mutex_unlock(&srq->mutex);
  }
  if (object.xrcd != nullptr) {
    --object.xrcd->uses;
  }
  destroy_object(object);
  return 0;
}

}  // extern "C"
