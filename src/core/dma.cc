#include "core/dma.h"

#include "core/device.h"

namespace weft::core {

Result<void> map_for_dma(Device& device, std::span<const ScatterEntry> list,
                         DmaDirection direction) {
  const auto map = device.operations().map_list;
  return map != nullptr ? map(device, list, direction) : Result<void>{};
}

void unmap_from_dma(Device& device, std::span<const ScatterEntry> list, DmaDirection direction) {
  if (const auto unmap = device.operations().unmap_list; unmap != nullptr) {
    unmap(device, list, direction);
  }
}

}  // namespace weft::core
