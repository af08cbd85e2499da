#include <rdma/ib_verbs.h>

#include <memory>
#include <optional>

#include "core/wq.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"

namespace weft::kernel {
namespace {

void handle_wq_event(const core::Event& event, void* context) {
  auto* const face = static_cast<ib_wq*>(context);
  if (face->event_handler != nullptr) {
    ib_event made = event_of(event);
    made.element.wq = face;
    face->event_handler(&made, face->wq_context);
  }
}

[[nodiscard]] std::optional<core::WqState> state_if(bool is_there, ib_wq_state state) {
  return is_there ? std::optional{static_cast<core::WqState>(state)} : std::nullopt;
}

}  // namespace
}  // namespace weft::kernel

using weft::kernel::core_of;

ib_wq* ib_create_wq(ib_pd* pd, ib_wq_init_attr* init_attr) {
  if (init_attr->cq == nullptr) {
    return weft::kernel::refuse_pointer<ib_wq>(
        {weft::ErrorCode::InvalidArgument, "a work queue completes in a CQ, and none is given"});
  }
  auto face = std::make_unique<ib_wq>();
  weft::core::WqInit init;
  init.type = static_cast<weft::core::WqType>(init_attr->wq_type);
  init.max_wr = init_attr->max_wr;
  init.max_sge = init_attr->max_sge;
  init.cq = &core_of(*init_attr->cq);
  init.event_handler = weft::kernel::handle_wq_event;
  init.context = face.get();
  const auto made = weft::core::create_wq(core_of(*pd), init);
  if (!made) {
    return weft::kernel::refuse_pointer<ib_wq>(made.error());
  }
  init_attr->max_wr = init.max_wr;
  init_attr->max_sge = init.max_sge;
  face->device = pd->device;
  face->pd = pd;
  face->cq = init_attr->cq;
  face->wq_context = init_attr->wq_context;
  face->event_handler = init_attr->event_handler;
  face->wq_type = init_attr->wq_type;
  face->wq_num = (*made)->number.value();
  face->weft = *made;
  weft::kernel::note_made(face.get());
  return face.release();
}

int ib_destroy_wq(ib_wq* wq, ib_udata* /*udata*/) {
  const auto destroyed = weft::core::destroy_wq(core_of(*wq));
  if (destroyed) {
    weft::kernel::note_destroyed(wq, "WQ", wq->wq_num);
    const std::unique_ptr<ib_wq> gone{wq};
  }
  return weft::kernel::returned(destroyed);
}

int ib_modify_wq(ib_wq* wq, ib_wq_attr* attr, std::uint32_t attr_mask) {
  weft::core::WqModify modify;
  modify.state = weft::kernel::state_if((attr_mask & IB_WQ_STATE) != 0, attr->wq_state);
  modify.current_state =
      weft::kernel::state_if((attr_mask & IB_WQ_CUR_STATE) != 0, attr->curr_wq_state);
  const auto modified = weft::core::modify_wq(core_of(*wq), modify);
  if (modified) {
    wq->state = static_cast<ib_wq_state>(core_of(*wq).state());
  }
  return weft::kernel::returned(modified);
}
