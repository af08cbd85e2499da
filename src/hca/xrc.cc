#include "hca/xrc.h"

#include "hca/receive_queue.h"

namespace weft::hca {

Result<std::uint32_t> XrcSrqTable::reserve() {
  const auto size = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t tried = 0; tried < size; ++tried) {
    const std::uint32_t index = next_;
    next_ = (next_ + 1) % size;
    if (slots_[index].load(std::memory_order_relaxed) == nullptr) {
      return index + 1;
    }
  }
  return fail(ErrorCode::OutOfMemory, "the device's {} numbers of XRC SRQs are all in use", size);
}

void XrcSrqTable::set(std::uint32_t number, SharedReceiveQueue* srq) {
  slots_[number - 1].store(srq, std::memory_order_release);
}

SharedReceiveQueue* XrcSrqTable::find(std::uint32_t number, const XrcDomain& domain) const {
  SharedReceiveQueue* const srq = number == 0 || number > slots_.size()
                                      ? nullptr
                                      : slots_[number - 1].load(std::memory_order_acquire);
  return srq != nullptr && srq->xrc().domain == &domain ? srq : nullptr;
}

}  // namespace weft::hca
