#include "core/cq.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/device.h"
#include "core/drain.h"
#include "core/work.h"

namespace weft::core {
namespace {

/// How each context polls (R-CQ-6).
struct Polling {
  PollContext context;
  WorkContext work;
  int budget;
};
constexpr auto kPolling = std::to_array<Polling>({
    {PollContext::SoftIrq,          WorkContext::SoftIrq,          kCqSoftIrqBudget  },
    {PollContext::WorkQueue,        WorkContext::WorkQueue,        kCqWorkQueueBudget},
    {PollContext::UnboundWorkQueue, WorkContext::UnboundWorkQueue, kCqWorkQueueBudget},
});

/// Null: Direct, or no context.
[[nodiscard]] const Polling* polling_of(PollContext context) {
  const auto found = std::ranges::find(kPolling, context, &Polling::context);
  return found == kPolling.end() ? nullptr : &*found;
}

Result<void> check_size(Device& device, std::uint32_t entries, unsigned vector) {
  if (device.operations().create_cq == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} has no CQs", device.name());
  }
  const std::uint32_t most = device.attributes().max_cqe;
  if (entries == 0 || entries > most) {
    return fail(ErrorCode::InvalidArgument, "a CQ of {} entries; the device has 1 to {}", entries,
                most);
  }
  if (vector >= device.completion_vectors()) {
    return fail(ErrorCode::InvalidArgument, "completion vector {} is not below {}", vector,
                device.completion_vectors());
  }
  return {};
}

}  // namespace

/// What the calls of this file do inside a CQ.
struct CqAccess {
  static Result<Cq*> create(std::unique_ptr<Cq> cq, std::uint32_t entries, UserData* user_data) {
    Device& device = cq->device();
    cq->capacity_ = entries;
    if (const auto made = device.operations().create_cq(*cq, entries, user_data); !made) {
      return std::unexpected(made.error());
    }
    device.add_resource(*cq);
    return cq.release();
  }

  static Result<Cq*> allocate(Device& device, const CqInit& init) {
    const Polling* const polling = polling_of(init.poll_context);
    if (polling == nullptr && init.poll_context != PollContext::Direct) {
      return fail(ErrorCode::InvalidArgument, "{} is no context to poll in",
                  std::to_underlying(init.poll_context));
    }
    auto cq = std::make_unique<Cq>(device, init.caller, init.vector);
    cq->context_ = init.context;
    cq->on_completion_ = init.on_completion;
    cq->on_batch_end_ = init.on_batch_end;
    cq->linger_ = CqLinger{init.lingers};
    cq->is_managed_ = true;
    cq->poll_context_ = init.poll_context;
    if (polling != nullptr) {
      cq->batch_ = std::make_unique<Wc[]>(kCqBatch);
      cq->work_ = std::make_unique<Work>(device.environment(), polling->work, init.vector,
                                         [made = cq.get()] { made->poll_round(); });
    }
    auto created = create(std::move(cq), init.entries, init.user_data);
    if (created && polling != nullptr) {
      if (const auto armed = request_notify(**created, NotifyFlag::NextCompletion); !armed) {
        static_cast<void>(destroy(**created));
        return std::unexpected(armed.error());
      }
    }
    return created;
  }

  static Result<Cq*> create_unmanaged(Device& device, const UnmanagedCqInit& init) {
    auto cq = std::make_unique<Cq>(device, init.caller, init.vector);
    cq->context_ = init.context;
    cq->completion_handler_ = init.completion_handler;
    cq->event_handler_ = init.event_handler;
    return create(std::move(cq), init.entries, init.user_data);
  }

  static Result<void> destroy(Cq& cq) {
    Device& device = cq.device();
    if (const std::uint32_t uses = cq.uses(); uses != 0) {
      return fail(ErrorCode::Busy, "{} queues complete in the CQ of {}; destroy those first", uses,
                  cq.caller());
    }
    // The driver may tell of a completion until its CQ is gone: what that queues does nothing.
    cq.is_ending_.store(true, std::memory_order_release);
    if (cq.work_ != nullptr) {
      cq.work_->cancel_and_wait();
    }
    if (auto gone = device.operations().destroy_cq(cq); !gone) {
      cq.is_ending_.store(false, std::memory_order_release);
      if (cq.work_ != nullptr) {
        cq.work_->queue();  // it works on
      }
      return gone;
    }
    if (cq.work_ != nullptr) {
      cq.work_->cancel_and_wait();  // the driver may have told of a last completion
    }
    device.remove_resource(cq);
    std::unique_ptr<Cq>{&cq}.reset();
    return {};
  }

  static int process(Cq& cq, int budget, std::span<Wc> batch) { return cq.process(budget, batch); }
};

Cq::Cq(Device& device, const char* caller, unsigned vector)
    : Resource(device, ResourceKind::Cq, caller), vector_(vector) {}

Cq::~Cq() = default;

CqCounters Cq::counters() const {
  return {.completions = completions_.load(std::memory_order_relaxed),
          .batches = batches_.load(std::memory_order_relaxed),
          .rounds = rounds_.load(std::memory_order_relaxed),
          .missed_events = missed_events_.load(std::memory_order_relaxed),
          .armed = armed_.load(std::memory_order_relaxed)};
}

void Cq::notify() {
  if (work_ != nullptr) {
    work_->queue();
  } else if (completion_handler_ != nullptr) {
    completion_handler_(*this, context_);
  }
}

void Cq::dispatch(const Event& event) const {
  if (event_handler_ != nullptr) {
    event_handler_(event, context_);
  } else {
    device().environment().log(LogLevel::Warning,
                               fmt::format("nobody handles an error of the CQ of {}", caller()));
  }
}

/// Requests without a handler, as all of an RDMA context but the last, are not signalled, and
/// complete only when they fail: flushed with their queue, which whoever ended it knows of; or as
/// the cause of that, which the handlers of later requests are not told.
void Cq::log_unhandled(const Wc& wc) const {
  if (wc.status == verbs::WcStatus::WorkRequestFlushed) {
    return;
  }
  Environment& environment = device().environment();
  if (wc.status == verbs::WcStatus::Success) {
    environment.log(LogLevel::Error,
                    fmt::format("a completion of QP {:#x} in the CQ of {} has no handler",
                                wc.qpn.value(), caller()));
    return;
  }
  environment.log(
      LogLevel::Warning,
      fmt::format("a request of QP {:#x} without a handler has failed in the CQ of {}: status {}",
                  wc.qpn.value(), caller(), std::to_underlying(wc.status)));
}

void Cq::tell(const Wc& wc) {
  const CompletionHandler* const handler = wc.handler();
  if (handler == nullptr || handler->done == nullptr) {
    log_unhandled(wc);
  } else if (on_completion_ != nullptr && !is_drain_marker(*handler)) {
    on_completion_(*this, wc);
  } else {
    handler->done(*this, wc);
  }
}

int Cq::process(int budget, std::span<Wc> batch) {
  int completed = 0;
  for (;;) {
    const std::size_t room =
        budget < 0 ? batch.size()
                   : std::min(batch.size(), static_cast<std::size_t>(budget - completed));
    const unsigned count = room == 0 ? 0 : poll_cq(*this, batch.first(room));
    if (count == 0) {
      return completed;
    }
    batches_.fetch_add(1, std::memory_order_relaxed);
    completions_.fetch_add(count, std::memory_order_relaxed);
    is_in_batch_.store(true, std::memory_order_relaxed);
    for (const Wc& wc : batch.first(count)) {
      tell(wc);
    }
    is_in_batch_.store(false, std::memory_order_relaxed);
    if (on_batch_end_ != nullptr) {
      on_batch_end_(*this);
    }
    completed += static_cast<int>(count);
    if (count < room) {
      return completed;
    }
  }
}

/// Polls. False: more may come soon, or there is more than the budget.
bool Cq::leaves_nothing(int budget) {
  for (unsigned looks = 0; looks < kCqLooksInARow; ++looks) {
    const int completed = process(budget, {batch_.get(), kCqBatch});
    if (completed >= budget) {
      return false;
    }
    if (!linger_.polls_on(completed != 0, device().environment().now())) {
      return true;
    }
  }
  return false;
}

void Cq::poll_round() {
  if (is_ending_.load(std::memory_order_acquire)) {
    return;
  }
  rounds_.fetch_add(1, std::memory_order_relaxed);
  if (!leaves_nothing(polling_of(poll_context_)->budget)) {
    work_->queue();  // others have their turn before
    return;
  }
  armed_.fetch_add(1, std::memory_order_relaxed);
  const auto missed = request_notify(
      *this, NotifyFlags{NotifyFlag::NextCompletion} | NotifyFlag::ReportMissedEvents);
  if (missed && *missed) {
    missed_events_.fetch_add(1, std::memory_order_relaxed);
    work_->queue();
  }
}

Result<Cq*> allocate_cq(Device& device, const CqInit& init) {
  if (const auto checked = check_size(device, init.entries, init.vector); !checked) {
    return std::unexpected(checked.error());
  }
  return CqAccess::allocate(device, init);
}

Result<Cq*> allocate_any_cq(Device& device, CqInit init) {
  const unsigned vectors =
      std::min(device.completion_vectors(), device.environment().processor_count());
  init.vector = device.next_vector() % vectors;
  return allocate_cq(device, init);
}

Result<void> free_cq(Cq& cq) { return CqAccess::destroy(cq); }

int process_cq_direct(Cq& cq, int budget) {
  std::array<Wc, kCqDirectBatch> batch;
  return CqAccess::process(cq, budget, batch);
}

Result<Cq*> create_cq(Device& device, const UnmanagedCqInit& init) {
  if (const auto checked = check_size(device, init.entries, init.vector); !checked) {
    return std::unexpected(checked.error());
  }
  return CqAccess::create_unmanaged(device, init);
}

Result<void> destroy_cq(Cq& cq) { return CqAccess::destroy(cq); }

unsigned poll_cq(Cq& cq, std::span<Wc> into) { return cq.device().operations().poll_cq(cq, into); }

Result<bool> request_notify(Cq& cq, NotifyFlags flags) {
  return cq.device().operations().request_notify(cq, flags);
}

Result<void> resize_cq(Cq& cq, std::uint32_t entries) {
  if (cq.device().operations().resize_cq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} resizes no CQs", cq.device().name());
  }
  return cq.device().operations().resize_cq(cq, entries);
}

Result<void> set_cq_moderation(Cq& cq, std::uint16_t count, Duration period) {
  if (cq.device().operations().modify_cq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} moderates no events", cq.device().name());
  }
  return cq.device().operations().modify_cq(cq, count, period);
}

}  // namespace weft::core
