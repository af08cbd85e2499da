#pragma once

#include <linux/scatterlist.h>

#include <vector>

#include "core/dma.h"

namespace weft::kernel {

/// The memory of a list as its DMA addresses say, once it is mapped.
[[nodiscard]] std::vector<core::ScatterEntry> entries_of(scatterlist* list, std::uint32_t count);

/// Maps a list: a device reaches what the process reaches. How many elements.
std::uint32_t map_list(scatterlist* list, std::uint32_t count);

}  // namespace weft::kernel
