// Asynchronous events: getting and acknowledging them.

#include <cerrno>

#include "compat/ibverbs/objects.h"

using namespace weft;
using namespace weft::compat;

EventSource compat::event_source(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return EventSource::CompletionQueue;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return EventSource::QueuePair;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return EventSource::SharedReceiveQueue;
    default:
      return EventSource::PortOrDevice;
  }
}

extern "C" {

WEFT_EXPORT int ibv_get_async_event(ibv_context* c, ibv_async_event* event) {
  auto record = context_of(c).async_events.take();
  if (!record) {
    return -1;
  }
  *event = record->event;
  switch (event_source(event->event_type)) {
    case EventSource::CompletionQueue: {
      auto& object = object_of<CompletionQueueObject>(event->element.cq);
      pthread_mutex_lock(&object.cq.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.cq.mutex);
      break;
    }
    case EventSource::QueuePair: {
      auto& object = object_of<QpObject>(event->element.qp);
      pthread_mutex_lock(&object.qp.qp_base.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.qp.qp_base.mutex);
      break;
    }
    case EventSource::SharedReceiveQueue: {
      auto& object = object_of<SharedReceiveQueueObject>(event->element.srq);
      pthread_mutex_lock(&object.srq.mutex);
      ++object.asynchronous_events;
      pthread_mutex_unlock(&object.srq.mutex);
      break;
    }
    case EventSource::PortOrDevice:
      break;  // needs no acknowledgement
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
  switch (event_source(event->event_type)) {
    case EventSource::CompletionQueue: {
      ibv_cq& cq = *event->element.cq;
      acknowledge(cq.mutex, cq.cond, cq.async_events_completed);
      break;
    }
    case EventSource::QueuePair: {
      ibv_qp& qp = *event->element.qp;
      acknowledge(qp.mutex, qp.cond, qp.events_completed);
      break;
    }
    case EventSource::SharedReceiveQueue: {
      ibv_srq& srq = *event->element.srq;
      acknowledge(srq.mutex, srq.cond, srq.events_completed);
      break;
    }
    case EventSource::PortOrDevice:
      break;
  }
}

}  // extern "C"
