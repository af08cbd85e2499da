#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace weft::core {

class Device;

/// An element of a scatter list as a device sees it: an address of this process and its length.
struct ScatterEntry {
  std::uint64_t address{};
  std::uint32_t length{};  ///< bytes
};

/// Which way data goes between memory and a device (`enum dma_data_direction`).
enum class DmaDirection : std::uint8_t {
  ToDevice,    ///< the device reads memory: RDMA WRITE
  FromDevice,  ///< it writes memory: RDMA READ
};

/// Before a device uses the memory of a list, and after (`ib_dma_map_sg`). The driver's refusal is
/// passed on as it is, and nothing is mapped then. A driver that reaches all memory has neither.
Result<void> map_for_dma(Device& device, std::span<const ScatterEntry> list,
                         DmaDirection direction);
void unmap_from_dma(Device& device, std::span<const ScatterEntry> list, DmaDirection direction);

}  // namespace weft::core
