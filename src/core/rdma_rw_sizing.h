#pragma once

#include <cstddef>
#include <cstdint>

#include "base/identifiers.h"
#include "base/result.h"
#include "core/dma.h"

namespace weft::core {

class Device;
class Qp;
struct QpInit;

// What the RDMA contexts of a QP (core/rdma_rw.h) need of it and of its device.

/// Whether a transfer of so many elements goes through registered regions (R-RW-2).
[[nodiscard]] bool context_uses_regions(const Device& device, DmaDirection direction,
                                        std::size_t elements);

/// Whether contexts of this device ever use registered regions.
[[nodiscard]] bool contexts_may_use_regions(const Device& device);

/// Pages of the regions in a QP's pools; of those that serve integrity as well, where asked.
[[nodiscard]] std::uint32_t pages_of_context_region(const Device& device, bool with_integrity);

/// Regions, or work requests where it needs none, for a payload of up to `max_pages` pages
/// (`rdma_rw_mr_factor`, R-RW-7): by it a transport sizes its send queues, CQs and contexts.
[[nodiscard]] std::uint32_t rdma_mr_factor(const Device& device, PortNumber port,
                                           std::uint32_t max_pages);

/// Adds to `init.capabilities` what `init.max_rdma_contexts` contexts post, as far as the device
/// has it (R-RW-8).
void make_room_for_contexts(const Device& device, QpInit& init);

/// Fills the pools of a QP that was just made; both or none.
Result<void> fill_context_pools(Qp& qp);

}  // namespace weft::core
