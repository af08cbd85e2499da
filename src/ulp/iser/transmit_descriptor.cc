#include "ulp/iser/transmit_descriptor.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "core/dma.h"

namespace weft::iser {

TransmitDescriptor::~TransmitDescriptor() { unmap(); }

ByteSpan TransmitDescriptor::store(ByteSpan headers) {
  WEFT_ASSERT(headers.size() <= octets_.size(), "headers are limited by their length fields");
  std::ranges::copy(headers, octets_.begin());
  return ByteSpan{octets_}.first(headers.size());
}

core::ScatterEntry TransmitDescriptor::entry() const {
  return {.address = std::bit_cast<std::uint64_t>(octets_.data()),
          .length = static_cast<std::uint32_t>(octets_.size())};
}

void TransmitDescriptor::unmap() {
  if (mapper_ != nullptr) {
    mapper_->unmap(*this);
  }
}

std::shared_ptr<TransmitDescriptor> DescriptorPool::take() {
  std::unique_ptr<TransmitDescriptor> taken;
  if (spares_->empty()) {
    taken = std::make_unique<TransmitDescriptor>();
  } else {
    taken = std::move(spares_->back());
    spares_->pop_back();
  }
  return {taken.release(), [to = std::weak_ptr{spares_}](TransmitDescriptor* descriptor) {
            std::unique_ptr<TransmitDescriptor> owned{descriptor};
            owned->unmap();
            if (const auto spares = to.lock()) {
              spares->push_back(std::move(owned));
            }
          }};
}

HeaderMapper::~HeaderMapper() {
  while (!mapped_.empty()) {
    unmap(*mapped_.back());
  }
}

Result<void> HeaderMapper::map(TransmitDescriptor& descriptor) {
  if (descriptor.mapper_ == this) {
    return {};
  }
  descriptor.unmap();
  const core::ScatterEntry entry = descriptor.entry();
  if (const auto mapped = core::map_for_dma(device_, {&entry, 1}, core::DmaDirection::ToDevice);
      !mapped) {
    return fail(ErrorCode::OutOfMemory, "a task's headers cannot be shown to the device: {}",
                mapped.error().reason);
  }
  descriptor.mapper_ = this;
  mapped_.push_back(&descriptor);
  return {};
}

void HeaderMapper::unmap(TransmitDescriptor& descriptor) {
  const core::ScatterEntry entry = descriptor.entry();
  core::unmap_from_dma(device_, {&entry, 1}, core::DmaDirection::ToDevice);
  std::erase(mapped_, &descriptor);
  descriptor.mapper_ = nullptr;
}

}  // namespace weft::iser
