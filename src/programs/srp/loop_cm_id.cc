#include "programs/srp/loop_cm_id.h"

#include <utility>

namespace weft::programs::srp {

LoopCmId::LoopCmId(core::Environment& environment, Handler handler)
    : handler_(std::move(handler)),
      work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { tell(); }) {}

Result<std::unique_ptr<LoopCmId>> LoopCmId::create(core::Environment& environment, core::RdmaCm& cm,
                                                   Handler handler) {
  return create(environment, std::move(handler),
                [&cm](core::RdmaCmHandler& by) { return cm.create_id(by); });
}

Result<std::unique_ptr<LoopCmId>> LoopCmId::create_native(core::Environment& environment,
                                                          core::RdmaCm& cm, Handler handler) {
  return create(environment, std::move(handler),
                [&cm](core::RdmaCmHandler& by) { return cm.create_native_id(by); });
}

Result<std::unique_ptr<LoopCmId>> LoopCmId::create(core::Environment& environment, Handler handler,
                                                   const Make& make) {
  std::unique_ptr<LoopCmId> made{
      new LoopCmId{environment, std::move(handler)}
  };
  auto id = make(*made);
  if (!id) {
    return std::unexpected(id.error());
  }
  made->id_ = *std::move(id);
  return made;
}

LoopCmId::LoopCmId(core::Environment& environment, std::unique_ptr<core::RdmaCmId> request,
                   Handler handler)
    : LoopCmId(environment, std::move(handler)) {
  id_ = std::move(request);
  id_->set_handler(*this);
}

LoopCmId::~LoopCmId() {
  id_.reset();  // no event comes any more
  work_.cancel_and_wait();
}

void LoopCmId::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                               std::unique_ptr<core::RdmaCmId> /*request*/) {
  {
    const std::lock_guard lock{mutex_};
    events_.push_back(event);
  }
  work_.queue();
}

void LoopCmId::tell() {
  for (;;) {
    core::RdmaCmEvent event;
    {
      const std::lock_guard lock{mutex_};
      if (events_.empty()) {
        return;
      }
      event = std::move(events_.front());
      events_.pop_front();
    }
    handler_(event);
  }
}

}  // namespace weft::programs::srp
