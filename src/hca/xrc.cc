#include "hca/xrc.h"

#include "hca/receive_queue.h"

namespace weft::hca {

Result<std::uint32_t> XrcSrqTable::reserve() {
  const auto size = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t tried = 0; tried < size; ++tried) {
    const std::uint32_t index = next_;
    next_ = (next_ + 1) % size;
    if (slots_[index].load(std::memory_order_relaxed) == nullptr) {
      return first_ + index;
    }
  }
  return fail(ErrorCode::OutOfMemory, "the device's {} numbers of XRC SRQs are all in use", size);
}

void XrcSrqTable::set(std::uint32_t number, SharedReceiveQueue* srq) {
  slots_[number - first_].store(srq, std::memory_order_release);
}

SharedReceiveQueue* XrcSrqTable::find(std::uint32_t number, const XrcDomain& domain) const {
  const std::uint32_t index = number - first_;
  SharedReceiveQueue* const srq =
      index < slots_.size() ? slots_[index].load(std::memory_order_acquire) : nullptr;
  return srq != nullptr && srq->xrc().domain == &domain ? srq : nullptr;
}

}  // namespace weft::hca
