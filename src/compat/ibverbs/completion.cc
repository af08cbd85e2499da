// Completion queues and channels.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "compat/ibverbs/objects.h"

namespace {

using namespace weft;
using namespace weft::compat;

[[nodiscard]] CompletionQueueObject& cq_of(ibv_cq* cq) {
  return object_of<CompletionQueueObject>(cq);
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* out) noexcept {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    refuse_in_child();
    return -1;
  }
  if (count < 0) {
    refuse(EINVAL, "a negative number of completions to poll");
    return -1;
  }
  if (object.engine->is_empty()) {
    object.context->process->make_progress(*object.engine);
  }
  const std::size_t done = object.engine->consume(
      static_cast<std::size_t>(count), [&out](const hca::Wc& wc) { from_engine(wc, *out++); });
  return done == 0 && object.engine->is_dead() ? -1 : static_cast<int>(done);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    return refuse_in_child();
  }
  object.engine->arm(solicited_only != 0);
  object.context->process->before_application_waits();
  return 0;
}

}  // namespace

CompletionQueueObject* weft::compat::make_cq(Context& context, int cqe, void* cq_context,
                                             ibv_comp_channel* channel, int vector, ibv_pd* domain,
                                             const hca::CompletionQueueOptions& options) {
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (vector < 0 || vector >= context.verbs.context.num_comp_vectors) {
    refuse(EINVAL, fmt::format("completion vector {} is not below num_comp_vectors, {}", vector,
                               context.verbs.context.num_comp_vectors));
    return nullptr;
  }
  if (cqe <= 0) {
    refuse(EINVAL, fmt::format("a CQ of {} entries; it needs at least one", cqe));
    return nullptr;
  }
  auto object = make_object<CompletionQueueObject>(domain);
  if (!object) {
    return nullptr;
  }
  auto engine = context.process->create_cq(context.hca, static_cast<std::uint32_t>(cqe), options);
  if (!engine) {
    refuse(engine.error());
    return nullptr;
  }
  object->engine = *engine;
  object->context = &context;
  object->cq.context = &context.verbs.context;
  object->cq.channel = channel;
  object->cq.cq_context = cq_context;
  object->cq.cqe = cqe;
  pthread_mutex_init(&object->cq.mutex, nullptr);
  pthread_cond_init(&object->cq.cond, nullptr);
  (*engine)->user = object.get();
  if (channel != nullptr) {
    pthread_mutex_lock(&context.verbs.context.mutex);
    ++channel->refcnt;
    pthread_mutex_unlock(&context.verbs.context.mutex);
  }
  return object.release();
}

void weft::compat::set_completion_operations(verbs_context& verbs) {
  verbs.context.ops.poll_cq = poll_cq;
  verbs.context.ops.req_notify_cq = req_notify_cq;
}

extern "C" {

WEFT_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* c) {
  auto channel = std::make_unique<CompletionChannel>();
  if (channel->events.fd() < 0) {
    refuse(EMFILE, "no file descriptor left for a completion channel");
    return nullptr;
  }
  channel->channel.context = c;
  channel->channel.fd = channel->events.fd();
  return &channel.release()->channel;
}

WEFT_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt != 0) {
    return refuse(EBUSY, "CQs still use the completion channel; destroy those first");
  }
  delete &object_of<CompletionChannel>(channel);
  return 0;
}

WEFT_EXPORT ibv_cq* ibv_create_cq(ibv_context* c, int cqe, void* cq_context,
                                  ibv_comp_channel* channel, int vector) {
  CompletionQueueObject* const object =
      make_cq(context_of(c), cqe, cq_context, channel, vector, nullptr, {});
  return object == nullptr ? nullptr : ibv_cq_ex_to_cq(&object->cq);
}

WEFT_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  if (cqe <= 0 ||
      static_cast<std::uint32_t>(cqe) > object.context->engine->configuration().limits.max_cqe) {
    return refuse(EINVAL, fmt::format("a CQ of {} entries; the device allows 1..{}", cqe,
                                      object.context->engine->configuration().limits.max_cqe));
  }
  if (auto resized = object.engine->resize(static_cast<std::uint32_t>(cqe)); !resized) {
    return refuse(resized.error());
  }
  cq->cqe = cqe;
  return 0;
}

WEFT_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  auto& object = cq_of(cq);
  Context& context = *object.context;
  if (is_alive(context)) {
    if (auto retired = context.process->retire_cq(*object.engine); !retired) {
      return refuse(retired.error());
    }
    if (cq->channel != nullptr) {
      object_of<CompletionChannel>(cq->channel).events.purge([&](CompletionQueueObject* event) {
        return event == &object;
      });
    }
    context.async_events.purge([&](const AsyncEventRecord& record) {
      return event_source(record.event.event_type) == EventSource::CompletionQueue &&
             record.event.element.cq == cq;
    });
    // As documented, waits until every delivered event has been acknowledged: until then a thread
    // that handles one may poll the CQ.
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != object.completion_events ||
           cq->async_events_completed != object.asynchronous_events) {
      pthread_cond_wait(&cq->cond, &cq->mutex);
    }
    pthread_mutex_unlock(&cq->mutex);
    if (auto destroyed = context.process->destroy_cq(context.hca, *object.engine); !destroyed) {
      return refuse(destroyed.error());  // a QP was made meanwhile
    }
  }
  if (cq->channel != nullptr) {
    pthread_mutex_lock(&context.verbs.context.mutex);
    --cq->channel->refcnt;
    pthread_mutex_unlock(&context.verbs.context.mutex);
  }
  destroy_object(object);
  return 0;
}

WEFT_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  auto event = object_of<CompletionChannel>(channel).events.take();
  if (!event) {
    return -1;  // errno of read()
  }
  CompletionQueueObject& object = **event;
  *cq = ibv_cq_ex_to_cq(&object.cq);
  *cq_context = object.cq.cq_context;
  pthread_mutex_lock(&object.cq.mutex);
  ++object.completion_events;
  pthread_mutex_unlock(&object.cq.mutex);
  return 0;
}

WEFT_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
