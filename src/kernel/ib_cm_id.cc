#include "kernel/ib_cm_id.h"

#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "core/device.h"
#include "kernel/device_face.h"
#include "kernel/ib_cm_values.h"

namespace weft::kernel {
namespace {

/// Identifiers that have ended while calls of theirs wait, which do nothing any more. They go when
/// the next one ends, or with the process.
class Ended {
 public:
  void add(std::unique_ptr<IbCmIdFace> face) {
    const std::lock_guard lock{mutex_};
    std::erase_if(faces_, [](const auto& one) { return !one->is_busy(); });
    faces_.push_back(std::move(face));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<IbCmIdFace>> faces_;
};

Ended& ended() {
  static Ended made;
  return made;
}

thread_local IbCmIdFace* told = nullptr;   // whose handler this thread runs
thread_local const void* named = nullptr;  // of which listener's request that handler hears

/// Of a request that came: the port where it did.
[[nodiscard]] cm::PortKey port_of(const cm::CmEvent& event) {
  if (const auto* const req = std::get_if<cm::ReqReceived>(&event.details)) {
    return req->port;
  }
  const auto* const sidr = std::get_if<cm::SidrReqReceived>(&event.details);
  return sidr != nullptr ? sidr->port : cm::PortKey{};
}

}  // namespace

IbCmIdFace::IbCmIdFace(IbCmService& service, ib_cm_handler handler, void* context)
    : service_(service), calls_(service.environment()) {
  note_made(&face_);
  face_.cm_handler = handler;
  face_.context = context;
  face_.weft = this;
}

void IbCmIdFace::show_state(const cm::ConnectionManager& manager) {
  if (const auto status = manager.status(id_)) {
    face_.state = static_cast<ib_cm_state>(status->state);
  }
}

std::shared_ptr<void> IbCmIdFace::hold_for_request() {
  requests_->fetch_add(1, std::memory_order_relaxed);
  return {requests_.get(), [requests = requests_, &service = service_](void*) {
            requests->fetch_sub(1, std::memory_order_release);
            service.environment().notify();
          }};
}

/// The port calls no handler itself: one that blocks would hold up all that comes there.
cm::Handled IbCmIdFace::handle(cm::CmId id, const cm::CmEvent& event, Instant /*now*/) {
  IbCmIdFace* target = this;
  if (id != id_) {  // a request: its identifier is new
    auto made = std::make_unique<IbCmIdFace>(service_, face_.cm_handler, face_.context);
    made->set_id(id);
    made->face_.service_id = face_.service_id;
    if (!service_.manager().set_observer(id, *made, 0)) {
      return cm::Handled::DestroyNoResources;
    }
    target = made.release();
  }
  const auto status = service_.manager().status(id);
  const cm::State state = status ? status->state : cm::State::Idle;
  core::MadPort* const port = service_.find(port_of(event));
  ib_device* const device = port != nullptr ? face_of(port->device()) : nullptr;
  const PortNumber number = port != nullptr ? port->number() : PortNumber{};
  std::shared_ptr<void> hold = target != this ? hold_for_request() : nullptr;
  auto call = [this, target, event, state, device, number, hold = std::move(hold)]() mutable {
    const void* const before = std::exchange(named, hold.get());
    target->tell(event, state, face_, device, number);
    named = before;
    hold.reset();
  };
  service_.defer(
      *target, [target, call = std::move(call)]() mutable { target->calls_.add(std::move(call)); });
  return cm::Handled::Keep;
}

void IbCmIdFace::tell(const cm::CmEvent& event, cm::State state, ib_cm_id& listener,
                      ib_device* device, PortNumber port) {
  if (has_ended_) {
    return;
  }
  face_.state = static_cast<ib_cm_state>(state);
  CmEventFace made{event, listener, device, port};
  IbCmIdFace* const before = std::exchange(told, this);
  const int refusal = face_.cm_handler(&face_, &made.event);
  told = before;
  if (refusal != 0 || ends_after_handler_) {
    end();
    if (!ends_after_handler_) {
      note_destroyed(&face_, "CM id", 0, "the answer of its handler");
    }
    ended().add(std::unique_ptr<IbCmIdFace>{this});
  }
}

void IbCmIdFace::end() {
  has_ended_ = true;
  static_cast<void>(service_.with_manager(
      [&](cm::ConnectionManager& manager, Instant now) { return manager.destroy(id_, now); }));
}

void IbCmIdFace::destroy(IbCmIdFace& face, const Call& call) {
  if (told == &face) {
    face.ends_after_handler_ = true;
    note_destroyed(&face.face_, "CM id", 0, call);
    return;
  }
  std::unique_ptr<IbCmIdFace> gone{&face};
  face.end();
  const unsigned own = named == face.requests_.get() ? 1 : 0;  // the handler that calls this
  face.service_.environment().wait_until(
      [&] { return !face.is_busy() && face.requests_->load(std::memory_order_acquire) == own; },
      Instant::never());
  note_destroyed(&face.face_, "CM id", 0, call);  // until now its handler might use it
}

}  // namespace weft::kernel
