#pragma once

#include <string_view>

#include "base/identifiers.h"
#include "base/intrusive_list.h"
#include "verbs/async_event.h"

namespace weft::core {

class Cq;
class Device;
class Qp;
class Srq;
class Wq;

/// An asynchronous event (IBTA vol 1 §11.6.3) of a device, as a driver tells it and handlers get
/// it. The object that it is about is set: at most one; events of ports name the port.
struct Event {
  Device* device{};
  verbs::AsyncEventType type{};
  Qp* qp{};
  Cq* cq{};
  Srq* srq{};
  Wq* wq{};
  PortNumber port{};
};

/// Which events are of the device or of one of its ports, and go to EventHandlers; the others go to
/// the handler that their object was created with.
[[nodiscard]] bool is_device_event(verbs::AsyncEventType type);

/// Events after which the port's GID, P_Key and LID tables are read anew (core/port_cache.h).
[[nodiscard]] bool changes_port_tables(verbs::AsyncEventType type);

/// Handler of an object's own events, given when the object is created. Called in the thread in
/// which the driver tells of the event: it must not sleep.
using ObjectEventHandler = void (*)(const Event& event, void* context);

struct EventHandlerTag;

/// Told of the events of a device and its ports, once the caches show them. Called from a work
/// queue, one event after the other: it may sleep, but must not unregister any handler of the same
/// device.
class EventHandler : public ListHook<EventHandlerTag> {
 public:
  explicit EventHandler(Device& device) : device_(device) {}
  virtual ~EventHandler() = default;
  virtual void handle(const Event& event) = 0;

  [[nodiscard]] Device& device() const { return device_; }

 private:
  Device& device_;
};

/// From now on `handler` is called for events of its device.
void register_event_handler(EventHandler& handler);

/// After it `handler` neither runs nor will (a fence).
void unregister_event_handler(EventHandler& handler);

/// For drivers: an event has happened. Any thread, locks may be held. Events of objects go to the
/// object at once; those of device and ports are queued, and on their turn the port's tables are
/// read anew where the event says so, and then the handlers are called in the order of
/// registration.
void dispatch_event(const Event& event);

}  // namespace weft::core
