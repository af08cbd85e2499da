#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include <atomic>
#include <memory>

#include "core/ah.h"
#include "core/device.h"
#include "core/pd.h"
#include "kernel/device_face.h"
#include "kernel/gid_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

struct GidFace {
  ib_gid_attr attributes{};  // its `weft` is this object
  core::GidReference held;
  std::atomic<std::uint32_t> holds{1};
};

[[nodiscard]] GidFace& gid_face_of(const ib_gid_attr& attributes) {
  return *static_cast<GidFace*>(attributes.weft);
}

[[nodiscard]] ib_ah* finish_ah(ib_pd* pd, const rdma_ah_attr& attributes,
                               const Result<core::Ah*>& made) {
  if (!made) {
    return refuse_pointer<ib_ah>(made.error());
  }
  auto face = std::make_unique<ib_ah>();
  note_made(face.get());
  face->device = pd->device;
  face->pd = pd;
  face->type = attributes.type;
  face->weft = *made;
  if (attributes.grh.sgid_attr != nullptr && (attributes.ah_flags & IB_AH_GRH) != 0) {
    rdma_hold_gid_attr(attributes.grh.sgid_attr);
    face->sgid_attr = attributes.grh.sgid_attr;
  }
  return face.release();
}

}  // namespace

const ib_gid_attr* make_gid_face(core::GidReference held) {
  auto made = std::make_unique<GidFace>();
  made->attributes.device = kernel::face_of(held->device());
  made->attributes.gid = to_c(held->gid());
  made->attributes.gid_type = static_cast<ib_gid_type>(held->type());
  made->attributes.index = static_cast<std::uint16_t>(held->index());
  made->attributes.port_num = held->port().value();
  made->attributes.weft = made.get();
  made->held = std::move(held);
  return &made.release()->attributes;
}

core::GidReference reference_of(const ib_gid_attr& face) { return gid_face_of(face).held; }

}  // namespace weft::kernel

using weft::kernel::core_of;

void rdma_hold_gid_attr(const ib_gid_attr* attr) {
  weft::kernel::gid_face_of(*attr).holds.fetch_add(1, std::memory_order_relaxed);
}

void rdma_put_gid_attr(const ib_gid_attr* attr) {
  weft::kernel::GidFace& face = weft::kernel::gid_face_of(*attr);
  if (face.holds.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::unique_ptr<weft::kernel::GidFace> gone{&face};
  }
}

ib_pd* __ib_alloc_pd(ib_device* device, unsigned flags, const char* caller) {
  const auto made =
      weft::core::allocate_pd(core_of(*device), weft::core::PdFlags::from_bits(flags), caller);
  if (!made) {
    return weft::kernel::refuse_pointer<ib_pd>(made.error());
  }
  auto face = std::make_unique<ib_pd>();
  weft::kernel::note_made(face.get());
  face->device = device;
  face->flags = flags;
  face->local_dma_lkey = (*made)->local_dma_lkey().value();
  face->unsafe_global_rkey = (*made)->unsafe_global_rkey().value();
  face->weft = *made;
  return face.release();
}

void ib_dealloc_pd_user(ib_pd* pd, ib_udata* /*udata*/) {
  if (const auto freed = weft::core::deallocate_pd(core_of(*pd)); !freed) {
    static_cast<void>(weft::kernel::refuse(freed.error()));
    return;
  }
  weft::kernel::note_destroyed(pd, "PD", 0);
  const std::unique_ptr<ib_pd> gone{pd};
}

void rdma_destroy_ah_attr(rdma_ah_attr* ah_attr) {
  if (ah_attr->grh.sgid_attr != nullptr) {
    rdma_put_gid_attr(ah_attr->grh.sgid_attr);
    ah_attr->grh.sgid_attr = nullptr;
  }
}

void rdma_copy_ah_attr(rdma_ah_attr* dest, const rdma_ah_attr* src) {
  *dest = *src;
  if (dest->grh.sgid_attr != nullptr) {
    rdma_hold_gid_attr(dest->grh.sgid_attr);
  }
}

void rdma_replace_ah_attr(rdma_ah_attr* old, const rdma_ah_attr* replacement) {
  const rdma_ah_attr before = *old;
  rdma_copy_ah_attr(old, replacement);  // first: they may hold the same entry
  rdma_ah_attr gone = before;
  rdma_destroy_ah_attr(&gone);
}

void rdma_move_ah_attr(rdma_ah_attr* dest, rdma_ah_attr* src) {
  if (dest == src) {
    return;
  }
  rdma_destroy_ah_attr(dest);
  *dest = *src;
  src->grh.sgid_attr = nullptr;
}

void rdma_move_grh_sgid_attr(rdma_ah_attr* attr, ib_gid* dgid, std::uint32_t flow_label,
                             std::uint8_t hop_limit, std::uint8_t traffic_class,
                             const ib_gid_attr* sgid_attr) {
  rdma_ah_set_grh(attr, dgid, flow_label, static_cast<std::uint8_t>(sgid_attr->index), hop_limit,
                  traffic_class);
  attr->grh.sgid_attr = sgid_attr;
}

ib_ah* rdma_create_ah(ib_pd* pd, rdma_ah_attr* ah_attr, std::uint32_t flags) {
  return weft::kernel::finish_ah(
      pd, *ah_attr,
      weft::core::create_ah(core_of(*pd), weft::kernel::ah_attributes_of(*ah_attr),
                            weft::core::AhFlags::from_bits(flags)));
}

ib_ah* rdma_create_user_ah(ib_pd* pd, rdma_ah_attr* ah_attr, ib_udata* /*udata*/) {
  return weft::kernel::finish_ah(
      pd, *ah_attr,
      weft::core::create_user_ah(core_of(*pd), weft::kernel::ah_attributes_of(*ah_attr), nullptr));
}

int rdma_modify_ah(ib_ah* ah, rdma_ah_attr* ah_attr) {
  return weft::kernel::returned(
      weft::core::modify_ah(core_of(*ah), weft::kernel::ah_attributes_of(*ah_attr)));
}

int rdma_query_ah(ib_ah* ah, rdma_ah_attr* ah_attr) {
  const auto found = weft::core::query_ah(core_of(*ah));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *ah_attr = weft::kernel::to_c(*found);
  return 0;
}

int rdma_destroy_ah_user(ib_ah* ah, std::uint32_t flags, ib_udata* /*udata*/) {
  const auto destroyed =
      weft::core::destroy_ah(core_of(*ah), weft::core::AhFlags::from_bits(flags));
  if (destroyed) {
    weft::kernel::note_destroyed(ah, "AH", 0);
    const std::unique_ptr<ib_ah> gone{ah};
    if (gone->sgid_attr != nullptr) {
      rdma_put_gid_attr(gone->sgid_attr);
    }
  }
  return weft::kernel::returned(destroyed);
}
