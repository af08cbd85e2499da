#pragma once

#include <rdma/ib_cm.h>

#include <atomic>
#include <memory>

#include "cm/connection_manager.h"
#include "core/call_queue.h"
#include "core/mad/mad_port.h"
#include "kernel/freed_objects.h"
#include "kernel/ib_cm_service.h"

namespace weft::kernel {

/// An identifier of the IB CM with its face, which is what the names are about. Its handler hears
/// one event at a time, in order; handlers of different identifiers block nobody else. Freed when
/// it is destroyed and its last event has been told.
class IbCmIdFace final : public cm::CmObserver, private core::MadUser {
 public:
  IbCmIdFace(IbCmService& service, ib_cm_handler handler, void* context);

  [[nodiscard]] static IbCmIdFace& of(ib_cm_id& id, const Call& call = Call::current()) {
    require_alive(&id, call);
    return *static_cast<IbCmIdFace*>(id.weft);
  }
  [[nodiscard]] ib_cm_id& face() { return face_; }
  [[nodiscard]] IbCmService& service() { return service_; }
  [[nodiscard]] cm::CmId id() const { return id_; }
  void set_id(cm::CmId id) { id_ = id; }
  [[nodiscard]] bool is_busy() const { return has_calls() || !calls_.is_idle(); }

  /// Calls `function(manager, now)` with the ports locked; what C sees of the state follows.
  template <class Function>
  Result<void> call(Function function) {
    return service_.with_manager([&](cm::ConnectionManager& manager, Instant now) -> Result<void> {
      auto result = function(manager, now);
      show_state(manager);
      return result;
    });
  }
  /// Ends it; the object is gone, or goes when its handler has returned.
  static void destroy(IbCmIdFace& face, const Call& call);

  ib_qp* qp{};        ///< of the connection, if a call has named it
  unsigned users{1};  ///< of a shared listener

  [[nodiscard]] cm::Handled handle(cm::CmId id, const cm::CmEvent& event, Instant now) override;

 private:
  void show_state(const cm::ConnectionManager& manager);
  void tell(const cm::CmEvent& event, cm::State state, ib_cm_id& listener, ib_device* device,
            PortNumber port);
  /// Of a listener, which lives as long as the result: a request names it that another identifier's
  /// handler has yet to hear of.
  [[nodiscard]] std::shared_ptr<void> hold_for_request();
  void end();

  IbCmService& service_;
  ib_cm_id face_{};
  cm::CmId id_{};
  std::atomic<bool> has_ended_{};
  bool ends_after_handler_{};
  /// Requests that name it, and are told to handlers of other identifiers.
  const std::shared_ptr<std::atomic<unsigned>> requests_{std::make_shared<std::atomic<unsigned>>()};
  core::CallQueue calls_;
};

}  // namespace weft::kernel
