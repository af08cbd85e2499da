#include <rdma/ib_fmr_pool.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/fmr_pool.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"

/// A pool with its face, which is what the names are about.
struct ib_fmr_pool {
  ib_pd* pd{};
  weft::core::FmrPool* made{};
  void (*flush_function)(ib_fmr_pool* pool, void* arg){};
  void* flush_arg{};
};

namespace weft::kernel {
namespace {

void flushed(core::FmrPool& /*pool*/, void* argument) {
  auto* const face = static_cast<ib_fmr_pool*>(argument);
  face->flush_function(face, face->flush_arg);
}

[[nodiscard]] core::FmrPoolParameters parameters_of(const ib_fmr_pool_param& from,
                                                    ib_fmr_pool& face) {
  core::FmrPoolParameters made;
  made.region = {.max_pages = static_cast<std::uint32_t>(std::max(from.max_pages_per_fmr, 0)),
                 .page_shift = static_cast<std::uint8_t>(std::clamp(from.page_shift, 0, 63)),
                 .access = verbs::AccessFlags::from_bits(static_cast<std::uint32_t>(from.access))};
  made.pool_size = static_cast<std::uint32_t>(std::max(from.pool_size, 0));
  made.dirty_watermark = static_cast<std::uint32_t>(std::max(from.dirty_watermark, 0));
  made.flush_function = from.flush_function != nullptr ? flushed : nullptr;
  made.flush_argument = &face;
  made.caches = from.cache != 0;
  return made;
}

}  // namespace
}  // namespace weft::kernel

ib_fmr_pool* ib_create_fmr_pool(ib_pd* pd, ib_fmr_pool_param* params) {
  auto face = std::make_unique<ib_fmr_pool>();
  face->pd = pd;
  face->flush_function = params->flush_function;
  face->flush_arg = params->flush_arg;
  const auto made = weft::core::create_fmr_pool(weft::kernel::core_of(*pd),
                                                weft::kernel::parameters_of(*params, *face));
  if (!made) {
    return weft::kernel::refuse_pointer<ib_fmr_pool>(made.error());
  }
  face->made = *made;
  return face.release();
}

void ib_destroy_fmr_pool(ib_fmr_pool* pool) {
  const std::unique_ptr<ib_fmr_pool> gone{pool};
  weft::core::destroy_fmr_pool(*gone->made);
}

int ib_flush_fmr_pool(ib_fmr_pool* pool) { return weft::kernel::returned(pool->made->flush()); }

ib_pool_fmr* ib_fmr_pool_map_phys(ib_fmr_pool* pool_handle, __u64* page_list, int list_len,
                                  __u64 io_virtual_address) {
  const std::vector<std::uint64_t> pages(page_list, page_list + std::max(list_len, 0));
  const auto mapped = pool_handle->made->map(pages, io_virtual_address);
  if (!mapped) {
    return weft::kernel::refuse_pointer<ib_pool_fmr>(mapped.error());
  }
  auto face = std::make_unique<ib_pool_fmr>();
  face->weft_fmr.device = pool_handle->pd->device;
  face->weft_fmr.pd = pool_handle->pd;
  face->weft_fmr.lkey = (*mapped)->fmr().lkey.value();
  face->weft_fmr.rkey = (*mapped)->fmr().rkey.value();
  face->fmr = &face->weft_fmr;
  face->pool = pool_handle;
  face->weft = *mapped;
  return face.release();
}

void ib_fmr_pool_unmap(ib_pool_fmr* fmr) {
  const std::unique_ptr<ib_pool_fmr> gone{fmr};
  gone->pool->made->unmap(*static_cast<weft::core::PoolFmr*>(gone->weft));
}
