#include <linux/dma-direction.h>
#include <rdma/ib_verbs.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/device.h"
#include "core/mr.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/scatter.h"
#include "kernel/signature.h"

namespace weft::kernel {
namespace {

void copy_keys_to_core(const ib_mr& face, core::Mr& mr) {
  mr.lkey = LKey{face.lkey};
  mr.rkey = RKey{face.rkey};
}

void copy_to_face(ib_mr& face, const core::Mr& mr) {
  face.lkey = mr.lkey.value();
  face.rkey = mr.rkey.value();
  face.iova = mr.iova;
  face.length = mr.length;
  face.page_size = mr.page_size;
}

[[nodiscard]] ib_mr* finish(ib_pd* pd, ib_mr_type type, const Result<core::Mr*>& made) {
  if (!made) {
    return refuse_pointer<ib_mr>(made.error());
  }
  auto face = std::make_unique<ib_mr>();
  note_made(face.get());
  face->device = pd->device;
  face->pd = pd;
  face->type = type;
  face->weft = *made;
  copy_to_face(*face, **made);
  if (type == IB_MR_TYPE_INTEGRITY) {
    face->sig_attrs = std::make_unique<ib_sig_attrs>().release();
  }
  return face.release();
}

/// The kinds that ib_alloc_mr_user() makes; others are made by other calls.
[[nodiscard]] Result<core::MrType> fast_type_of(ib_mr_type type) {
  switch (type) {
    case IB_MR_TYPE_MEM_REG:
      return core::MrType::MemoryRegistration;
    case IB_MR_TYPE_SG_GAPS:
      return core::MrType::SgGaps;
    default:
      return fail(ErrorCode::InvalidArgument, "regions of type {} are made by other calls",
                  static_cast<int>(type));
  }
}

}  // namespace

std::vector<core::ScatterEntry> entries_of(scatterlist* list, std::uint32_t count) {
  std::vector<core::ScatterEntry> entries;
  entries.reserve(count);
  scatterlist* sg = nullptr;
  std::uint32_t i = 0;
  for_each_sg(list, sg, count, i) {
    if (sg == nullptr) {
      break;
    }
    entries.push_back({.address = sg_dma_address(sg), .length = sg_dma_len(sg)});
  }
  return entries;
}

std::uint32_t map_list(scatterlist* list, std::uint32_t count) {
  scatterlist* sg = nullptr;
  std::uint32_t mapped = 0;
  for_each_sg(list, sg, count, mapped) {
    if (sg == nullptr) {
      break;
    }
    sg_dma_address(sg) = sg_phys(sg);
    sg_dma_len(sg) = sg->length;
  }
  return mapped;
}

}  // namespace weft::kernel

using weft::kernel::core_of;

ib_mr* ib_alloc_mr_user(ib_pd* pd, ib_mr_type mr_type, std::uint32_t max_num_sg,
                        ib_udata* /*udata*/) {
  const auto type = weft::kernel::fast_type_of(mr_type);
  if (!type) {
    return weft::kernel::refuse_pointer<ib_mr>(type.error());
  }
  return weft::kernel::finish(pd, mr_type,
                              weft::core::allocate_mr(core_of(*pd), *type, max_num_sg));
}

ib_mr* ib_alloc_mr_integrity(ib_pd* pd, std::uint32_t max_num_data_sg,
                             std::uint32_t max_num_meta_sg) {
  return weft::kernel::finish(
      pd, IB_MR_TYPE_INTEGRITY,
      weft::core::allocate_mr_integrity(core_of(*pd), max_num_data_sg, max_num_meta_sg));
}

int ib_dereg_mr_user(ib_mr* mr, ib_udata* /*udata*/) {
  const auto gone = weft::core::deregister_mr(core_of(*mr));
  if (gone) {
    weft::kernel::note_destroyed(mr, "MR", mr->lkey);
    const std::unique_ptr<ib_mr> face{mr};
    const std::unique_ptr<ib_sig_attrs> attributes{face->sig_attrs};
  }
  return weft::kernel::returned(gone);
}

int ib_map_mr_sg(ib_mr* mr, scatterlist* sg, int sg_nents, unsigned* sg_offset,
                 unsigned page_size) {
  weft::core::Mr& made = core_of(*mr);
  const auto entries =
      weft::kernel::entries_of(sg, static_cast<std::uint32_t>(std::max(sg_nents, 0)));
  weft::kernel::copy_keys_to_core(*mr, made);
  const auto mapped = weft::core::map_mr_sg(made, entries, sg_offset, page_size);
  if (!mapped) {
    return weft::kernel::refuse(mapped.error());
  }
  weft::kernel::copy_to_face(*mr, made);
  return static_cast<int>(*mapped);
}

int ib_map_mr_sg_pi(ib_mr* mr, scatterlist* data_sg, int data_sg_nents, unsigned* data_sg_offset,
                    scatterlist* meta_sg, int meta_sg_nents, unsigned* meta_sg_offset,
                    unsigned page_size) {
  weft::kernel::require_alive(mr);
  if (mr->type != IB_MR_TYPE_INTEGRITY) {
    return weft::kernel::refuse(
        {weft::ErrorCode::InvalidArgument, "only regions of ib_alloc_mr_integrity() show both"});
  }
  weft::core::Mr& made = core_of(*mr);
  *made.signature = weft::kernel::signature_of(*mr->sig_attrs);
  weft::kernel::copy_keys_to_core(*mr, made);
  const auto data =
      weft::kernel::entries_of(data_sg, static_cast<std::uint32_t>(std::max(data_sg_nents, 0)));
  const auto meta =
      weft::kernel::entries_of(meta_sg, static_cast<std::uint32_t>(std::max(meta_sg_nents, 0)));
  const auto mapped = weft::core::map_mr_sg_pi(made, {.list = data, .offset = data_sg_offset},
                                               {.list = meta, .offset = meta_sg_offset}, page_size);
  if (mapped) {
    weft::kernel::copy_to_face(*mr, made);
  }
  return weft::kernel::returned(mapped);
}

int ib_sg_to_pages(ib_mr* mr, scatterlist* sgl, int sg_nents, unsigned* sg_offset_p,
                   int (*set_page)(ib_mr*, __u64)) {
  weft::core::Mr& made = core_of(*mr);
  made.page_size = mr->page_size;
  const auto entries =
      weft::kernel::entries_of(sgl, static_cast<std::uint32_t>(std::max(sg_nents, 0)));
  const auto taken = weft::core::sg_to_pages(
      made, entries, sg_offset_p,
      [mr, set_page](std::uint64_t page) { return set_page(mr, page) == 0; });
  if (!taken) {
    return weft::kernel::refuse(taken.error());
  }
  weft::kernel::copy_to_face(*mr, made);
  return static_cast<int>(*taken);
}

int ib_check_mr_status(ib_mr* mr, std::uint32_t check_mask, ib_mr_status* mr_status) {
  if ((check_mask & ~static_cast<std::uint32_t>(IB_MR_CHECK_SIG_STATUS)) != 0) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument,
                                 "a region's status is asked for by IB_MR_CHECK_SIG_STATUS"});
  }
  const auto found = weft::core::check_mr_status(core_of(*mr));
  if (!found) {
    return weft::kernel::refuse(found.error());
  }
  *mr_status = weft::kernel::to_c(*found);
  return 0;
}

int ib_dma_map_sg(ib_device* /*dev*/, scatterlist* sg, int nents,
                  dma_data_direction /*direction*/) {
  return static_cast<int>(
      weft::kernel::map_list(sg, static_cast<std::uint32_t>(std::max(nents, 0))));
}

void ib_dma_unmap_sg(ib_device* /*dev*/, scatterlist* /*sg*/, int /*nents*/,
                     dma_data_direction /*direction*/) {}
