#include "hca/memory_window.h"

#include <bit>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/assert.h"

namespace weft::hca {
namespace {

constexpr AccessFlags kFlushes = AccessFlags{Access::FlushGlobal} | Access::FlushPersistent;
constexpr AccessFlags kRemoteAccess =
    AccessFlags{Access::RemoteWrite} | Access::RemoteRead | Access::RemoteAtomic | kFlushes;

/// Local write does not concern peers, but programs set it.
constexpr AccessFlags kKnownAccess = kRemoteAccess | Access::ZeroBased | Access::LocalWrite;

constexpr AccessFlags kNeedsLocalWrite = AccessFlags{Access::RemoteWrite} | Access::RemoteAtomic;

constexpr std::uint32_t kKeyPart = (1U << kKeyIndexShift) - 1;

/// Checks the rules about the window; returns the broken one, empty if none is.
[[nodiscard]] std::string_view check_window(const MemoryWindow& window, const ProtectionDomain& pd,
                                            const WindowBinding& binding) {
  if (&window.pd() != &pd) {  // C10-72
    return "the window belongs to another PD than the QP";
  }
  if (!kKnownAccess.has_all(binding.access)) {
    return "a window's access flags are remote write, read and atomic, the flushes, and zero based";
  }
  if (window.type() == WindowType::Type1) {
    return binding.access.has(Access::ZeroBased)  // o10-36.2.2
               ? "a window of type 1 cannot be zero based"
               : std::string_view{};
  }
  if (window.is_bound()) {  // o10-37.2.30
    return "a window of type 2 that is bound must be invalidated before it is bound anew";
  }
  return binding.length == 0  // o10-37.2.40
             ? "a window of type 2 shows at least one byte; only an invalidation unbinds it"
             : std::string_view{};
}

/// Checks the rules about the region; returns the broken one, empty if none is.
[[nodiscard]] std::string_view check_region(const MemoryRegion& region, const ProtectionDomain& pd,
                                            const WindowBinding& binding) {
  if (region.pd != &pd) {
    return "the region belongs to another PD than the window";
  }
  if (region.invalidated) {
    return "the region's key was invalidated";
  }
  if (!region.access.has(Access::MemoryWindowBind)) {  // C10-73
    return "the region was registered without the right to bind windows to it";
  }
  if (!(binding.access & kNeedsLocalWrite).empty() &&
      !region.access.has(Access::LocalWrite)) {  // C10-74
    return "remote write and remote atomic need a region with local write";
  }
  if (!region.access.has_all(binding.access & kFlushes)) {  // annex A19, by analogy with C10-74
    return "a window's flush rights need a region that has them";
  }
  if (binding.address < region.iova || binding.length > region.length ||
      binding.address - region.iova > region.length - binding.length) {  // C10-75
    return "the window would leave the region";
  }
  return {};
}

}  // namespace

MemoryWindow::View MemoryWindow::view(const ProtectionDomain& pd, Qpn qpn, RKey rkey) const {
  const std::uint32_t version = version_.load(std::memory_order_acquire);
  const std::uint32_t key = rkey_.load(std::memory_order_acquire);
  const std::uint32_t bound_qpn = qpn_.load(std::memory_order_acquire);
  const auto access = AccessFlags::from_bits(access_.load(std::memory_order_acquire));
  const std::uint64_t iova = iova_.load(std::memory_order_acquire);
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  std::byte* const memory = memory_.load(std::memory_order_acquire);
  if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) {
    return {.fault = KeyFault::Invalidated, .region = {}};  // the binding is changing right now
  }
  if (key != rkey.value()) {
    return {.fault = KeyFault::NoSuchKey, .region = {}};
  }
  if (&pd_ != &pd) {
    return {.fault = KeyFault::OtherPd, .region = {}};
  }
  if (length == 0) {
    return {.fault = KeyFault::Invalidated, .region = {}};
  }
  if (type_ == WindowType::Type2 && bound_qpn != qpn.value()) {
    return {.fault = KeyFault::OtherQp, .region = {}};
  }
  return {
      .fault = KeyFault::None,
      .region = {.pd = &pd_,
                 .iova = iova,
                 .length = length,
                 .memory = memory,
                 .access = access,
                 .rkey = rkey}
  };
}

/// Each store is a release, so that a reader that sees a new value also sees the odd version stored
/// before it.
void MemoryWindow::show(RKey rkey, std::byte* memory, const WindowBinding& binding,
                        AccessFlags access, Qpn qpn) {
  const std::uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  rkey_.store(rkey.value(), std::memory_order_release);
  qpn_.store(qpn.value(), std::memory_order_release);
  access_.store(access.bits(), std::memory_order_release);
  iova_.store(binding.access.has(Access::ZeroBased) ? 0 : binding.address,
              std::memory_order_release);
  length_.store(binding.length, std::memory_order_release);
  memory_.store(memory, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

void MemoryWindow::bind(MemoryRegion& region, Qpn qpn, const WindowBinding& binding) {
  WEFT_ASSERT(binding.length != 0, "a window of no octets is not bound");
  ++region.windows;  // first, since it may be the region that is bound already
  if (region_ != nullptr) {
    --region_->windows;
  }
  region_ = &region;
  std::byte* const memory = region.backing == Backing::AddressSpace
                                ? std::bit_cast<std::byte*>(binding.address)
                                : region.memory + (binding.address - region.iova);
  const AccessFlags paging = region.access & AccessFlags{Access::OnDemand};
  show(binding.rkey, memory, binding, (binding.access & kRemoteAccess) | paging, qpn);
}

void MemoryWindow::unbind(RKey rkey) {
  if (region_ != nullptr) {
    --region_->windows;
    region_ = nullptr;
  }
  show(rkey, nullptr, {}, {}, {});
}

// --- the table's part

MemoryWindow* MemoryTable::window_at(std::uint32_t key) const {
  const std::size_t index = (key >> kKeyIndexShift) - slots_.size();
  return index < windows_.size() ? windows_[index].load(std::memory_order_acquire) : nullptr;
}

Result<MemoryWindow*> MemoryTable::add_window(ProtectionDomain& pd, WindowType type) {
  const std::lock_guard guard{lock_};
  if (free_windows_.empty()) {
    return fail(ErrorCode::OutOfMemory, "the device's {} memory windows are all in use",
                windows_.size());
  }
  const std::uint32_t index = free_windows_.back();
  free_windows_.pop_back();
  const auto key_index = static_cast<std::uint32_t>(slots_.size() + index);
  const auto key_part = static_cast<std::uint32_t>(random_.below(kKeyPart + 1));
  auto window =
      std::make_unique<MemoryWindow>(pd, type, RKey{key_index << kKeyIndexShift | key_part});
  windows_[index].store(window.get(), std::memory_order_release);
  return window.release();
}

std::unique_ptr<MemoryWindow> MemoryTable::remove_window(MemoryWindow& window) {
  const std::lock_guard guard{lock_};
  const std::size_t index = (window.rkey().value() >> kKeyIndexShift) - slots_.size();
  WEFT_ASSERT(windows_[index].load(std::memory_order_relaxed) == &window,
              "the window is the one with this key");
  window.unbind(window.rkey());
  windows_[index].store(nullptr, std::memory_order_release);
  free_windows_.push_back(static_cast<std::uint32_t>(index));
  return std::unique_ptr<MemoryWindow>{&window};
}

std::string_view MemoryTable::bind(const ProtectionDomain& pd, Qpn qpn,
                                   const WindowBinding& binding) {
  const std::lock_guard guard{lock_};
  MemoryWindow* const window = window_at(binding.rkey.value());
  if (window == nullptr) {
    return "the window was deallocated";
  }
  if (const std::string_view reason = check_window(*window, pd, binding); !reason.empty()) {
    return reason;
  }
  if (binding.length == 0) {  // unbinds a window of type 1
    window->unbind(binding.rkey);
    return {};
  }
  const std::uint32_t index = binding.lkey.value() >> kKeyIndexShift;
  MemoryRegion* const region =
      index < slots_.size() ? slots_[index].region.load(std::memory_order_relaxed) : nullptr;
  if (region == nullptr || region->lkey != binding.lkey) {
    return "no region has this L_Key";
  }
  if (const std::string_view reason = check_region(*region, pd, binding); !reason.empty()) {
    return reason;
  }
  window->bind(*region, qpn, binding);
  return {};
}

MemoryTable::Found MemoryTable::find_in_window(const ProtectionDomain& pd, Qpn qpn, RKey rkey,
                                               std::uint64_t address, std::uint64_t length,
                                               AccessFlags needed) const {
  const MemoryWindow* const window = window_at(rkey.value());
  if (window == nullptr) {
    return {.fault = KeyFault::NoSuchKey, .memory = {}};
  }
  const MemoryWindow::View view = window->view(pd, qpn, rkey);
  if (view.fault != KeyFault::None) {
    return {.fault = view.fault, .memory = {}};
  }
  return within(view.region, address, length, needed);
}

/// Only windows of type 2 can be invalidated, by the QP to which they are bound (IBTA vol 1
/// §10.6.7.2.6, o10-37.2.26). Invalidating an unbound window has no effect.
KeyFault MemoryTable::invalidate_window(const ProtectionDomain& pd, Qpn qpn, RKey rkey) {
  MemoryWindow* const window = window_at(rkey.value());
  if (window == nullptr || window->rkey() != rkey) {
    return KeyFault::NoSuchKey;
  }
  if (&window->pd() != &pd) {
    return KeyFault::OtherPd;
  }
  if (window->type() == WindowType::Type1) {
    return KeyFault::CannotInvalidate;
  }
  if (window->is_bound() && window->qpn() != qpn) {
    return KeyFault::OtherQp;
  }
  window->unbind(rkey);
  return KeyFault::None;
}

}  // namespace weft::hca
