#include "core/rdma_rw_sizing.h"

#include <algorithm>

#include "core/device.h"
#include "core/qp.h"

namespace weft::core {
namespace {

constexpr std::uint32_t kMostPages = 256;  // policy: of a region of a context

[[nodiscard]] bool needs_pools(const Device& device, const QpInit& init) {
  return contexts_may_use_regions(device) || init.flags.has(QpCreateFlag::IntegrityEnabled);
}

}  // namespace

bool context_uses_regions(const Device& device, DmaDirection direction, std::size_t elements) {
  const DeviceAttributes& attributes = device.attributes();
  if (device.init().forces_registration) {
    return true;
  }
  if (direction == DmaDirection::ToDevice) {
    return false;
  }
  return attributes.capabilities.has(DeviceCapability::ReadNeedsRegistration) ||
         (attributes.max_efficient_read_entries != 0 &&
          elements > attributes.max_efficient_read_entries);
}

bool contexts_may_use_regions(const Device& device) {
  const DeviceAttributes& attributes = device.attributes();
  return device.init().forces_registration || attributes.max_efficient_read_entries != 0 ||
         attributes.capabilities.has(DeviceCapability::ReadNeedsRegistration);
}

std::uint32_t pages_of_context_region(const Device& device, bool with_integrity) {
  const DeviceAttributes& attributes = device.attributes();
  return std::min(kMostPages, with_integrity ? attributes.max_integrity_entries
                                             : attributes.max_fast_registration_entries);
}

std::uint32_t rdma_mr_factor(const Device& device, PortNumber /*port*/, std::uint32_t max_pages) {
  const std::uint32_t each =
      std::max(1U, contexts_may_use_regions(device) ? pages_of_context_region(device, false)
                                                    : device.attributes().max_sge_read);
  return max_pages / each + (max_pages % each != 0 ? 1 : 0);
}

/// A context needs a request, and where it registers one for that and one to end it. If the device
/// has not as many, it has to do with those.
void make_room_for_contexts(const Device& device, QpInit& init) {
  if (init.max_rdma_contexts == 0) {
    return;
  }
  const std::uint64_t factor = needs_pools(device, init) ? 3 : 1;
  const std::uint64_t wanted = init.capabilities.max_send_wr + factor * init.max_rdma_contexts;
  init.capabilities.max_send_wr =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, device.attributes().max_qp_wr));
}

Result<void> fill_context_pools(Qp& qp) {
  const Device& device = qp.device();
  const std::uint32_t contexts = qp.init().max_rdma_contexts;
  if (contexts == 0 || !needs_pools(device, qp.init())) {
    return {};
  }
  const std::uint32_t pages = pages_of_context_region(device, qp.is_integrity_enabled());
  if (auto filled = qp.rdma_mrs.fill(*qp.pd(), contexts, MrType::MemoryRegistration, pages);
      !filled || !qp.is_integrity_enabled()) {
    return filled;
  }
  auto filled = qp.signature_mrs.fill(*qp.pd(), contexts, MrType::Integrity, pages, pages);
  if (!filled) {
    qp.rdma_mrs.clear();
  }
  return filled;
}

}  // namespace weft::core
