#include <rdma/ib_verbs.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "core/cq.h"
#include "core/device.h"
#include "core/qp.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

[[nodiscard]] ib_qp* qp_face_of(const core::Wc& wc) {
  return wc.qp == nullptr ? nullptr : static_cast<ib_qp*>(wc.qp->context());
}

/// A completion of a CQ that the core polls, whose wr_id is an ib_cqe.
void complete(core::Cq& cq, const core::Wc& wc) {
  ib_wc made = to_c(wc, qp_face_of(wc));
  made.wr_cqe->done(static_cast<ib_cq*>(cq.context()), &made);
}

void notify(core::Cq& /*cq*/, void* context) {
  auto* const face = static_cast<ib_cq*>(context);
  if (face->comp_handler != nullptr) {
    face->comp_handler(face, face->cq_context);
  }
}

void handle_event(const core::Event& event, void* context) {
  auto* const face = static_cast<ib_cq*>(context);
  if (face->event_handler != nullptr) {
    ib_event made = event_of(event);
    face->event_handler(&made, face->cq_context);
  }
}

[[nodiscard]] ib_cq* finish(std::unique_ptr<ib_cq> face, const Result<core::Cq*>& made) {
  if (!made) {
    return refuse_pointer<ib_cq>(made.error());
  }
  note_made(face.get());
  face->weft = *made;
  face->cqe = static_cast<int>((*made)->capacity());
  face->comp_vector = (*made)->vector();
  return face.release();
}

/// What C numbers a CQ of ib_alloc_cq() by; none of them is below 0.
[[nodiscard]] ib_cq* allocate(ib_device* dev, void* context, int nr_cqe,
                              std::optional<int> comp_vector, ib_poll_context poll_ctx,
                              const char* caller) {
  if (nr_cqe < 0 || comp_vector.value_or(0) < 0) {
    return refuse_pointer<ib_cq>(
        {ErrorCode::InvalidArgument, "a CQ of less than no entries, or of such a vector"});
  }
  auto face = std::make_unique<ib_cq>();
  face->device = dev;
  face->cq_context = context;
  face->poll_ctx = poll_ctx;
  const core::CqInit init{.entries = static_cast<std::uint32_t>(nr_cqe),
                          .vector = static_cast<unsigned>(comp_vector.value_or(0)),
                          .poll_context = static_cast<core::PollContext>(poll_ctx),
                          .context = face.get(),
                          .caller = caller,
                          .on_completion = complete};
  const auto made = comp_vector ? core::allocate_cq(core_of(*dev), init)
                                : core::allocate_any_cq(core_of(*dev), init);
  return finish(std::move(face), made);
}

}  // namespace
}  // namespace weft::kernel

using weft::kernel::core_of;

ib_cq* __ib_alloc_cq_user(ib_device* dev, void* private_data, int nr_cqe, int comp_vector,
                          ib_poll_context poll_ctx, const char* caller, ib_udata* /*udata*/) {
  return weft::kernel::allocate(dev, private_data, nr_cqe, comp_vector, poll_ctx, caller);
}

ib_cq* __ib_alloc_cq_any(ib_device* dev, void* private_data, int nr_cqe, ib_poll_context poll_ctx,
                         const char* caller) {
  return weft::kernel::allocate(dev, private_data, nr_cqe, std::nullopt, poll_ctx, caller);
}

void ib_free_cq_user(ib_cq* cq, ib_udata* /*udata*/) {
  if (cq == nullptr) {
    return;
  }
  if (const auto freed = weft::core::free_cq(core_of(*cq)); !freed) {
    static_cast<void>(weft::kernel::refuse(freed.error()));
    return;
  }
  weft::kernel::note_destroyed(cq, "CQ", 0);
  const std::unique_ptr<ib_cq> gone{cq};
}

int ib_process_cq_direct(ib_cq* cq, int budget) {
  return weft::core::process_cq_direct(core_of(*cq), budget);
}

ib_cq* __ib_create_cq(ib_device* device, ib_comp_handler comp_handler,
                      void (*event_handler)(ib_event*, void*), void* cq_context,
                      const ib_cq_init_attr* cq_attr, const char* caller) {
  auto face = std::make_unique<ib_cq>();
  face->device = device;
  face->comp_handler = comp_handler;
  face->event_handler = event_handler;
  face->cq_context = cq_context;
  const auto made =
      weft::core::create_cq(core_of(*device), {.entries = cq_attr->cqe,
                                               .vector = cq_attr->comp_vector,
                                               .completion_handler = weft::kernel::notify,
                                               .event_handler = weft::kernel::handle_event,
                                               .context = face.get(),
                                               .caller = caller});
  return weft::kernel::finish(std::move(face), made);
}

int ib_destroy_cq_user(ib_cq* cq, ib_udata* /*udata*/) {
  const auto destroyed = weft::core::destroy_cq(core_of(*cq));
  if (destroyed) {
    weft::kernel::note_destroyed(cq, "CQ", 0);
    const std::unique_ptr<ib_cq> gone{cq};
  }
  return weft::kernel::returned(destroyed);
}

int ib_poll_cq(ib_cq* cq, int num_entries, ib_wc* wc) {
  constexpr std::size_t kBatch = 16;  // policy
  std::array<weft::core::Wc, kBatch> batch;
  int polled = 0;
  while (polled < num_entries) {
    const std::size_t room = std::min(kBatch, static_cast<std::size_t>(num_entries - polled));
    const unsigned count = weft::core::poll_cq(core_of(*cq), std::span{batch}.first(room));
    for (unsigned i = 0; i < count; ++i) {
      wc[polled++] = weft::kernel::to_c(batch[i], weft::kernel::qp_face_of(batch[i]));
    }
    if (count < room) {
      break;
    }
  }
  return polled;
}

int ib_req_notify_cq(ib_cq* cq, ib_cq_notify_flags flags) {
  const auto armed = weft::core::request_notify(
      core_of(*cq), weft::core::NotifyFlags::from_bits(static_cast<std::uint32_t>(flags)));
  if (!armed) {
    return weft::kernel::refuse(armed.error());
  }
  return *armed ? 1 : 0;
}

int ib_resize_cq(ib_cq* cq, int cqe) {
  weft::core::Cq& made = core_of(*cq);
  const auto resized = weft::core::resize_cq(made, static_cast<std::uint32_t>(std::max(cqe, 0)));
  cq->cqe = static_cast<int>(made.capacity());
  return weft::kernel::returned(resized);
}

int rdma_set_cq_moderation(ib_cq* cq, std::uint16_t cq_count, std::uint16_t cq_period) {
  return weft::kernel::returned(weft::core::set_cq_moderation(
      core_of(*cq), cq_count, weft::Duration::microseconds(cq_period)));
}
