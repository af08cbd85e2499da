#include "core/events.h"

#include <array>
#include <mutex>
#include <optional>

#include "core/cq.h"
#include "core/device.h"
#include "core/event_queue.h"
#include "core/qp.h"
#include "core/srq.h"
#include "core/wq.h"

namespace weft::core {
namespace {

using Type = verbs::AsyncEventType;

/// Whose events of a type are, and whether they change what is cached of the port.
enum class Concerns : std::uint8_t { Cq, Qp, Srq, Wq, Device, PortTables };

struct Row {
  Type type;
  Concerns concerns;
};

constexpr auto kRows = std::to_array<Row>({
    {Type::CqError,                  Concerns::Cq        },
    {Type::QpFatal,                  Concerns::Qp        },
    {Type::QpRequestError,           Concerns::Qp        },
    {Type::QpAccessError,            Concerns::Qp        },
    {Type::CommunicationEstablished, Concerns::Qp        },
    {Type::SqDrained,                Concerns::Qp        },
    {Type::PathMigrated,             Concerns::Qp        },
    {Type::PathMigrationError,       Concerns::Qp        },
    {Type::DeviceFatal,              Concerns::Device    },
    {Type::PortActive,               Concerns::PortTables},
    {Type::PortError,                Concerns::PortTables},
    {Type::LidChange,                Concerns::PortTables},
    {Type::PKeyChange,               Concerns::PortTables},
    {Type::SmChange,                 Concerns::PortTables},
    {Type::SrqError,                 Concerns::Srq       },
    {Type::SrqLimitReached,          Concerns::Srq       },
    {Type::QpLastWqeReached,         Concerns::Qp        },
    {Type::ClientReregister,         Concerns::PortTables},
    {Type::GidChange,                Concerns::PortTables},
    {Type::WqFatal,                  Concerns::Wq        },
});

constexpr Concerns concerns_of(Type type) { return kRows[std::to_underlying(type)].concerns; }

static_assert(
    [] {
      for (std::size_t i = 0; i < kRows.size(); ++i) {
        if (std::to_underlying(kRows[i].type) != i) {
          return false;
        }
      }
      return true;
    }(),
    "rows stand in the order of their types");

}  // namespace

bool is_device_event(Type type) { return concerns_of(type) >= Concerns::Device; }

bool changes_port_tables(Type type) { return concerns_of(type) == Concerns::PortTables; }

EventQueue::EventQueue(Device& device)
    : device_(device),
      lock_(device.lock_policy()),
      handlers_lock_(device.environment()),
      work_(device.environment(), WorkContext::UnboundWorkQueue, 0, [this] { run(); }) {}

EventQueue::~EventQueue() { work_.cancel_and_wait(); }

void EventQueue::add(const Event& event) {
  {
    const std::lock_guard lock{lock_};
    events_.push_back(event);
  }
  work_.queue();
}

void EventQueue::run() {
  for (;;) {
    Event event;
    {
      const std::lock_guard lock{lock_};
      if (events_.empty()) {
        return;
      }
      event = events_.front();
      events_.pop_front();
    }
    if (changes_port_tables(event.type)) {
      if (const auto refreshed = device_.cache(event.port).refresh(); !refreshed) {
        device_.environment().log(LogLevel::Warning, refreshed.error().reason);
      }
    }
    const std::lock_guard lock{handlers_lock_};
    handlers_.for_each([&](EventHandler& handler) { handler.handle(event); });
  }
}

void EventQueue::enter(EventHandler& handler) {
  const std::lock_guard lock{handlers_lock_};
  handlers_.push_back(handler);
}

void EventQueue::leave(EventHandler& handler) {
  const std::lock_guard lock{handlers_lock_};
  IntrusiveList<EventHandler, EventHandlerTag>::remove(handler);
}

void register_event_handler(EventHandler& handler) { handler.device().events_->enter(handler); }

void unregister_event_handler(EventHandler& handler) { handler.device().events_->leave(handler); }

void dispatch_event(const Event& event) {
  switch (concerns_of(event.type)) {
    case Concerns::Cq:
      event.cq->dispatch(event);
      return;
    case Concerns::Qp:
      event.qp->dispatch(event);
      return;
    case Concerns::Srq:
      event.srq->dispatch(event);
      return;
    case Concerns::Wq:
      event.wq->dispatch(event);
      return;
    case Concerns::Device:
      event.device->events_->add(event);
      return;
    case Concerns::PortTables:
      if (const auto known = event.device->check_port(event.port); !known) {
        event.device->environment().log(LogLevel::Error, known.error().reason);
        return;
      }
      event.device->events_->add(event);
      return;
  }
}

}  // namespace weft::core
