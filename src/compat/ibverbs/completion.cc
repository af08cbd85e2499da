// Completion queues, channels, and asynchronous events.

#include <arpa/inet.h>

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
  if (!is_alive(*object.context) || count < 0) {
    return -1;
  }
  if (object.engine->is_empty()) {
    object.context->process->make_progress(*object.engine);
  }
  const std::size_t done = object.engine->consume(
      static_cast<std::size_t>(count), [&out](const hca::Wc& wc) { *out++ = from_engine(wc); });
  return done == 0 && object.engine->is_dead() ? -1 : static_cast<int>(done);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    return EIO;
  }
  object.engine->arm(solicited_only != 0);
  object.context->process->application_will_wait();
  return 0;
}

// --- extended polling: one completion at a time, read field by field

[[nodiscard]] CompletionQueueObject& cq_of(ibv_cq_ex* cq) {
  return object_of<CompletionQueueObject>(cq);
}

int next_poll(ibv_cq_ex* cq) noexcept {
  auto& object = cq_of(cq);
  if (!is_alive(*object.context)) {
    return EIO;
  }
  if (object.engine->is_empty()) {
    object.context->process->make_progress(*object.engine);
  }
  if (object.engine->poll({&object.current, 1}) == 0) {
    return object.engine->is_dead() ? EIO : ENOENT;
  }
  cq->wr_id = object.current.wr_id;
  cq->status = static_cast<ibv_wc_status>(object.current.status);
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) noexcept {
  return attributes->comp_mask != 0 ? EINVAL : next_poll(cq);
}

void end_poll(ibv_cq_ex*) noexcept {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
  return static_cast<ibv_wc_opcode>(cq_of(cq).current.opcode);
}
std::uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.vendor_error; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.byte_length; }
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
  const hca::Wc& wc = cq_of(cq).current;
  return wc.flags.has(hca::Completion::WithInvalidate) ? wc.invalidated_rkey.value()
                                                       : htonl(wc.immediate);
}
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.qpn.value(); }
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.src_qpn.value(); }
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.flags.bits(); }
std::uint32_t read_slid(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.slid.value(); }
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept { return cq_of(cq).current.sl.value(); }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) noexcept {
  return cq_of(cq).current.dlid_path_bits;
}

CompletionQueueObject* make_cq(Context& context, int cqe, void* cq_context,
                               ibv_comp_channel* channel, int vector, ibv_pd* domain) {
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (cqe <= 0 || vector < 0 || vector >= context.verbs.context.num_comp_vectors) {
    refuse(EINVAL, "a CQ needs at least one entry, and a completion vector that exists");
    return nullptr;
  }
  auto object = make_object<CompletionQueueObject>(domain);
  if (!object) {
    return nullptr;
  }
  auto engine = context.process->create_cq(context.hca, static_cast<std::uint32_t>(cqe));
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

ibv_cq_ex* create_cq_ex(ibv_context* c, ibv_cq_init_attr_ex* attributes) noexcept {
  constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attributes->comp_mask & ~kKnown) != 0 ||
      (attributes->wc_flags & ~static_cast<std::uint64_t>(IBV_WC_STANDARD_FLAGS)) != 0) {
    refuse(EOPNOTSUPP, "an extended CQ here has the standard fields, no timestamps, VLANs or tags");
    return nullptr;
  }
  if ((attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      (attributes->flags & ~static_cast<std::uint32_t>(IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
                                                       IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)) != 0) {
    refuse(EINVAL, "unknown flags of an extended CQ");
    return nullptr;
  }
  ibv_pd* const domain =
      (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attributes->parent_domain : nullptr;
  if (domain != nullptr && (domain->context != c || !is_parent_domain(domain))) {
    refuse(EINVAL, "the domain of a CQ is a parent domain of the same context");
    return nullptr;
  }
  CompletionQueueObject* const object =
      make_cq(context_of(c), static_cast<int>(attributes->cqe), attributes->cq_context,
              attributes->channel, static_cast<int>(attributes->comp_vector), domain);
  if (object == nullptr) {
    return nullptr;
  }
  ibv_cq_ex& cq = object->cq;
  const auto wants = [&](std::uint64_t flag) { return (attributes->wc_flags & flag) != 0; };
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_wc_flags = read_wc_flags;
  cq.read_byte_len = wants(IBV_WC_EX_WITH_BYTE_LEN) ? read_byte_len : nullptr;
  cq.read_imm_data = wants(IBV_WC_EX_WITH_IMM) ? read_imm_data : nullptr;
  cq.read_qp_num = wants(IBV_WC_EX_WITH_QP_NUM) ? read_qp_num : nullptr;
  cq.read_src_qp = wants(IBV_WC_EX_WITH_SRC_QP) ? read_src_qp : nullptr;
  cq.read_slid = wants(IBV_WC_EX_WITH_SLID) ? read_slid : nullptr;
  cq.read_sl = wants(IBV_WC_EX_WITH_SL) ? read_sl : nullptr;
  cq.read_dlid_path_bits = wants(IBV_WC_EX_WITH_DLID_PATH_BITS) ? read_dlid_path_bits : nullptr;
  return &cq;
}

}  // namespace

void weft::compat::set_completion_operations(verbs_context& verbs) {
  verbs.context.ops.poll_cq = poll_cq;
  verbs.context.ops.req_notify_cq = req_notify_cq;
  verbs.create_cq_ex = create_cq_ex;
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
      make_cq(context_of(c), cqe, cq_context, channel, vector, nullptr);
  return object == nullptr ? nullptr : ibv_cq_ex_to_cq(&object->cq);
}

WEFT_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  auto& object = cq_of(cq);
  if (cqe <= 0 ||
      static_cast<std::uint32_t>(cqe) > object.context->engine->configuration().limits.max_cqe) {
    return refuse(EINVAL, "the device has no CQs of that size");
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
    if (auto destroyed = context.process->destroy_cq(context.hca, *object.engine); !destroyed) {
      return refuse(destroyed.error());
    }
    if (cq->channel != nullptr) {
      object_of<CompletionChannel>(cq->channel).events.purge([&](CompletionQueueObject* event) {
        return event == &object;
      });
    }
    context.async_events.purge([&](const AsyncEventRecord& record) {
      return record.event.event_type == IBV_EVENT_CQ_ERR && record.event.element.cq == cq;
    });
    // As documented: waits until every event that was handed out has been acknowledged.
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != object.completion_events ||
           cq->async_events_completed != object.asynchronous_events) {
      pthread_cond_wait(&cq->cond, &cq->mutex);
    }
    pthread_mutex_unlock(&cq->mutex);
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
    return -1;  // errno is read()'s
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

WEFT_EXPORT int ibv_get_async_event(ibv_context* c, ibv_async_event* event) {
  auto record = context_of(c).async_events.take();
  if (!record) {
    return -1;
  }
  *event = record->event;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      auto& object = cq_of(event->element.cq);
      pthread_mutex_lock(&object.cq.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.cq.mutex);
      break;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      auto& object = object_of<QpObject>(event->element.qp);
      pthread_mutex_lock(&object.qp.qp_base.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.qp.qp_base.mutex);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      auto& object = object_of<SharedReceiveQueueObject>(event->element.srq);
      pthread_mutex_lock(&object.srq.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.srq.mutex);
      break;
    }
    default:
      break;  // port and device events need no acknowledgement
  }
  return 0;
}

WEFT_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  const auto acknowledge = [](pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& count) {
    pthread_mutex_lock(&mutex);
    ++count;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
  };
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      acknowledge(cq.mutex, cq.cond, cq.async_events_completed);
      break;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp& qp = *event->element.qp;
      acknowledge(qp.mutex, qp.cond, qp.events_completed);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      acknowledge(srq.mutex, srq.cond, srq.events_completed);
      break;
    }
    default:
      break;
  }
}

}  // extern "C"
