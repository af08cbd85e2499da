#include "core/umem.h"

#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <vector>

#include "core/odp_umem.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/process_memory.h"
#include "kernel/scatter.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

constexpr int kWrites =
    IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND;

/// Pinned memory with its face, which is what the names are about.
class UmemFace {
 public:
  UmemFace(ib_device& device, std::unique_ptr<core::Umem> umem) : umem_(std::move(umem)) {
    const auto list = umem_->list();
    table_.resize(list.size());
    sg_init_table(table_.data(), static_cast<unsigned>(table_.size()));
    for (std::size_t i = 0; i < list.size(); ++i) {
      sg_set_buf(&table_[i], std::bit_cast<const void*>(list[i].address), list[i].length);
    }
    map_list(table_.data(), static_cast<std::uint32_t>(table_.size()));
    face_.ibdev = &device;
    face_.length = umem_->length();
    face_.address = umem_->address();
    face_.writable = umem_->is_writable() ? 1 : 0;
    face_.sg_head = table_.data();
    face_.nmap = static_cast<int>(table_.size());
    face_.weft = this;
  }
  UmemFace(const UmemFace&) = delete;
  UmemFace& operator=(const UmemFace&) = delete;

  [[nodiscard]] ib_umem& face() { return face_; }
  [[nodiscard]] const core::Umem& umem() const { return *umem_; }

 private:
  std::unique_ptr<core::Umem> umem_;
  std::vector<scatterlist> table_;
  ib_umem face_{};
};

/// The same of memory that is paged on demand.
class OdpFace {
 public:
  OdpFace(ib_device& device, unsigned long address, std::size_t length, int access) {
    face_.umem.ibdev = &device;
    face_.umem.address = address;
    face_.umem.length = length;
    face_.umem.writable = (access & kWrites) != 0 ? 1 : 0;
    face_.umem.is_odp = 1;
    face_.umem.weft = this;
    face_.notifier.weft = this;
  }
  OdpFace(const OdpFace&) = delete;
  OdpFace& operator=(const OdpFace&) = delete;

  [[nodiscard]] ib_umem_odp& face() { return face_; }
  [[nodiscard]] core::OdpUmem& umem() { return *umem_; }
  void set_implicit(std::unique_ptr<core::OdpUmem> umem) {
    umem_ = std::move(umem);
    face_.is_implicit_odp = 1;
  }
  void set_umem(std::unique_ptr<core::OdpUmem> umem) {
    umem_ = std::move(umem);
    show();
  }
  [[nodiscard]] core::OdpInvalidation invalidation(const mmu_interval_notifier_ops* ops) {
    face_.notifier.ops = ops;
    return [this](core::OdpUmem& umem, std::uint64_t first, std::uint64_t last) {
      invalidate(umem, first, last);
    };
  }
  /// Lets C see what is mapped.
  void show() {
    const std::lock_guard lock{mutex_};
    const std::vector<std::uint64_t> list = umem_->dma_list();
    list_.assign(list.begin(), list.end());
    face_.dma_list = list_.data();
    face_.npages = static_cast<int>(umem_->mapped_pages());
  }

 private:
  static_assert(sizeof(dma_addr_t) == sizeof(std::uint64_t));

  // From any thread, and before umem_ is set.
  void invalidate(core::OdpUmem& umem, std::uint64_t first, std::uint64_t last) {
    const mmu_notifier_range range{.start = first, .end = last};
    {
      const std::lock_guard lock{mutex_};
      face_.notifiers_seq = umem.sequence();
    }
    if (face_.notifier.ops != nullptr && face_.notifier.ops->invalidate != nullptr) {
      face_.notifier.ops->invalidate(&face_.notifier, &range, umem.sequence());
    }
    // What C sees goes with the pages, so that no show() in between brings them back.
    const std::lock_guard lock{mutex_};
    umem.unmap_dma_pages(first, last);
    const std::uint64_t page = process_memory().page_size();
    for (std::uint64_t i = (first - umem.start()) / page;
         i < list_.size() && umem.start() + i * page < last; ++i) {
      face_.npages -= list_[i] != 0 ? 1 : 0;
      list_[i] = 0;
    }
  }

  ib_umem_odp face_{};
  std::mutex mutex_;  // of what C sees: list_ and its parts of face_
  std::vector<dma_addr_t> list_;
  std::unique_ptr<core::OdpUmem> umem_;  // the last: what it calls is there
};

[[nodiscard]] OdpFace& odp_face_of(ib_umem_odp& umem) {
  return *static_cast<OdpFace*>(umem.umem.weft);
}

}  // namespace
}  // namespace weft::kernel

using weft::kernel::OdpFace;
using weft::kernel::process_memory;
using weft::kernel::UmemFace;

ib_umem* ib_umem_get(ib_device* device, unsigned long addr, std::size_t size, int access) {
  auto made =
      weft::core::get_umem(weft::kernel::core_of(*device), process_memory(), addr, size,
                           weft::verbs::AccessFlags::from_bits(static_cast<std::uint32_t>(access)));
  if (!made) {
    const int error = weft::kernel::refuse(made.error());
    return static_cast<ib_umem*>(
        weft::kernel::error_pointer(error == -EACCES ? -EPERM : error));  // may lock nothing
  }
  return &std::make_unique<UmemFace>(*device, *std::move(made)).release()->face();
}

void ib_umem_release(ib_umem* umem) {
  if (umem != nullptr && umem->is_odp != 0) {
    const std::unique_ptr<OdpFace> gone{static_cast<OdpFace*>(umem->weft)};
  } else if (umem != nullptr) {
    const std::unique_ptr<UmemFace> gone{static_cast<UmemFace*>(umem->weft)};
  }
}

unsigned long ib_umem_find_best_pgsz(ib_umem* umem, unsigned long pgsz_bitmap, unsigned long virt) {
  if (umem->is_odp != 0) {  // no pages yet: the process's own are sure
    return pgsz_bitmap & process_memory().page_size();
  }
  return weft::core::best_page_size(static_cast<UmemFace*>(umem->weft)->umem(), pgsz_bitmap, virt);
}

ib_umem_odp* ib_umem_odp_get(ib_device* device, unsigned long addr, std::size_t size, int access,
                             const mmu_interval_notifier_ops* ops) {
  if ((access & IB_ACCESS_ON_DEMAND) == 0) {
    return weft::kernel::refuse_pointer<ib_umem_odp>(
        {.code = weft::ErrorCode::InvalidArgument,
         .reason = "memory is paged on demand with IB_ACCESS_ON_DEMAND; ib_umem_get() pins"});
  }
  auto face = std::make_unique<OdpFace>(*device, addr, size, access);
  auto made = weft::core::get_odp_umem(process_memory(), addr, size, face->invalidation(ops));
  if (!made) {
    return weft::kernel::refuse_pointer<ib_umem_odp>(made.error());
  }
  face->set_umem(*std::move(made));
  return &face.release()->face();
}

ib_umem_odp* ib_umem_odp_alloc_implicit(ib_device* device, int access) {
  auto face = std::make_unique<OdpFace>(*device, 0, 0, access);
  face->set_implicit(weft::core::allocate_implicit_odp_umem(process_memory()));
  return &face.release()->face();
}

ib_umem_odp* ib_umem_odp_alloc_child(ib_umem_odp* root, unsigned long addr, std::size_t size,
                                     const mmu_interval_notifier_ops* ops) {
  auto face = std::make_unique<OdpFace>(*root->umem.ibdev, addr, size,
                                        root->umem.writable != 0 ? IB_ACCESS_LOCAL_WRITE : 0);
  auto made = weft::core::allocate_odp_child(weft::kernel::odp_face_of(*root).umem(), addr, size,
                                             face->invalidation(ops));
  if (!made) {
    return weft::kernel::refuse_pointer<ib_umem_odp>(made.error());
  }
  face->set_umem(*std::move(made));
  return &face.release()->face();
}

int ib_umem_odp_map_dma_pages(ib_umem_odp* umem_odp, __u64 user_virt, __u64 bcnt, __u64 access_mask,
                              unsigned long current_seq) {
  OdpFace& face = weft::kernel::odp_face_of(*umem_odp);
  const auto mapped = face.umem().map_dma_pages(user_virt, bcnt, access_mask, current_seq);
  if (!mapped) {
    return weft::kernel::refuse(mapped.error());
  }
  face.show();
  return static_cast<int>(*mapped);
}

void weft_mm_invalidate(unsigned long start, unsigned long end) {
  process_memory().invalidate(start, end);
}

const char* weft_mm_unheard() { return process_memory().unheard(); }

int weft_mm_settle() { return process_memory().settle() ? 0 : -ETIMEDOUT; }
