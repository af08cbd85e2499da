#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "core/address_space.h"

namespace weft::core {

/// What a device may do with a page that is mapped for it.
inline constexpr std::uint64_t kOdpRead = 1U << 0;
inline constexpr std::uint64_t kOdpWrite = 1U << 1;
inline constexpr std::uint64_t kOdpAccess = kOdpRead | kOdpWrite;

class OdpUmem;

/// Called before pages of [first, last) of `umem` change: the driver ends the device's access to
/// them, and waits for transfers that use them, before it returns. The umem has not forgotten the
/// pages yet. May come before get_odp_umem() has returned, and until the umem is destroyed.
using OdpInvalidation = std::function<void(OdpUmem& umem, std::uint64_t first, std::uint64_t last)>;

/// Memory that is mapped for a device page by page as that uses it, and taken away when the
/// program's own mapping changes (`struct ib_umem_odp`, R-ODP-1). Nothing is pinned. Without a
/// range it is the parent of others: all of the address space, in parts (R-ODP-2). Any thread, by
/// the address space's lock policy.
class OdpUmem {
 public:
  ~OdpUmem();
  OdpUmem(const OdpUmem&) = delete;
  OdpUmem& operator=(const OdpUmem&) = delete;

  [[nodiscard]] bool is_implicit() const { return notifier_.start() == notifier_.end(); }
  // Of whole pages; an implicit one has none.
  [[nodiscard]] std::uint64_t start() const { return notifier_.start(); }
  [[nodiscard]] std::uint64_t end() const { return notifier_.end(); }

  /// What map_dma_pages() is given, read before it.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

  /// Makes the pages around `length` bytes from `address` on present and maps them with `access`
  /// (kOdp bits; R-ODP-3). How many pages; fewer than asked for if an error came midway.
  /// InvalidArgument: no access; BadAddress: outside, or a page that is not there or may not be
  /// written; TryAgain: the range was invalidated since `sequence`; NotFound: the process is gone.
  Result<std::uint64_t> map_dma_pages(std::uint64_t address, std::uint64_t length,
                                      std::uint64_t access, std::uint64_t sequence);
  /// All pages around these bytes, which are inside, are mapped with `access`: no fault is needed.
  [[nodiscard]] bool is_mapped(std::uint64_t address, std::uint64_t length,
                               std::uint64_t access) const;
  /// Forgets the pages of a range.
  void unmap_dma_pages(std::uint64_t first, std::uint64_t last);

  /// Of each page its address with kOdp bits, or 0 (`dma_list`).
  [[nodiscard]] std::vector<std::uint64_t> dma_list() const;
  [[nodiscard]] std::uint64_t mapped_pages() const;

 private:
  friend Result<std::unique_ptr<OdpUmem>> get_odp_umem(AddressSpace& space, std::uint64_t address,
                                                       std::uint64_t length,
                                                       OdpInvalidation invalidation);
  friend std::unique_ptr<OdpUmem> allocate_implicit_odp_umem(AddressSpace& space);

  class Notifier final : public IntervalNotifier {
   public:
    Notifier(OdpUmem& umem, std::uint64_t start, std::uint64_t length)
        : IntervalNotifier(start, length), umem_(umem) {}
    void invalidate(std::uint64_t first, std::uint64_t last) override;

   private:
    OdpUmem& umem_;
  };

  /// Without bytes it is implicit.
  OdpUmem(AddressSpace& space, std::uint64_t start, std::uint64_t bytes,
          OdpInvalidation invalidation);
  void forget(std::uint64_t first, std::uint64_t last);

  friend Result<std::unique_ptr<OdpUmem>> allocate_odp_child(OdpUmem& parent, std::uint64_t address,
                                                             std::uint64_t length,
                                                             OdpInvalidation invalidation);

  AddressSpace& space_;
  const OdpInvalidation invalidation_;
  Notifier notifier_;  // in the address space while all of the umem is there
  std::atomic<std::uint64_t> sequence_{};
  mutable PolicyLock lock_;  // of what follows
  std::vector<std::uint64_t> dma_list_;
  std::uint64_t mapped_{};
};

/// A range of whole pages around these bytes (`ib_umem_odp_get`). InvalidArgument: none, or rounded
/// to pages it reaches over the end of the address space.
Result<std::unique_ptr<OdpUmem>> get_odp_umem(AddressSpace& space, std::uint64_t address,
                                              std::uint64_t length, OdpInvalidation invalidation);

/// A parent without a range (`ib_umem_odp_alloc_implicit`).
std::unique_ptr<OdpUmem> allocate_implicit_odp_umem(AddressSpace& space);

/// A part of such a parent (`ib_umem_odp_alloc_child`). InvalidArgument: also, another parent.
Result<std::unique_ptr<OdpUmem>> allocate_odp_child(OdpUmem& parent, std::uint64_t address,
                                                    std::uint64_t length,
                                                    OdpInvalidation invalidation);

}  // namespace weft::core
