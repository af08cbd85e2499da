#pragma once

// An id of RDMA-CM whose events, wherever its handlers are called, are told in the environment's
// work queue, one after the other.

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/environment.h"
#include "core/work.h"

namespace weft::programs::srp {

class LoopCmId final : private core::RdmaCmHandler {
 public:
  using Handler = std::function<void(const core::RdmaCmEvent&)>;

  /// An id that connects.
  [[nodiscard]] static Result<std::unique_ptr<LoopCmId>> create(core::Environment& environment,
                                                                core::RdmaCm& cm, Handler handler);
  /// The same for native addresses.
  [[nodiscard]] static Result<std::unique_ptr<LoopCmId>> create_native(
      core::Environment& environment, core::RdmaCm& cm, Handler handler);
  /// That of a request.
  LoopCmId(core::Environment& environment, std::unique_ptr<core::RdmaCmId> request,
           Handler handler);
  /// Not from inside the handler.
  ~LoopCmId();
  LoopCmId(const LoopCmId&) = delete;
  LoopCmId& operator=(const LoopCmId&) = delete;

  [[nodiscard]] core::RdmaCmId& id() { return *id_; }

 private:
  using Make = std::function<Result<std::unique_ptr<core::RdmaCmId>>(core::RdmaCmHandler&)>;
  [[nodiscard]] static Result<std::unique_ptr<LoopCmId>> create(core::Environment& environment,
                                                                Handler handler, const Make& make);
  LoopCmId(core::Environment& environment, Handler handler);
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void tell();

  Handler handler_;
  std::unique_ptr<core::RdmaCmId> id_;
  std::mutex mutex_;
  std::deque<core::RdmaCmEvent> events_;
  core::Work work_;
};

}  // namespace weft::programs::srp
