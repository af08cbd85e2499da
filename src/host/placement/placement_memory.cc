#include "host/placement/placement_memory.h"

namespace weft::host {
void PlacementSlot::write(const PlacementGrant& grant) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const std::uint32_t sequence = sequence_.load(kRelaxed) | 1;
  sequence_.store(sequence, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  qpn_.store(grant.qpn.value(), kRelaxed);
  rkey_.store(grant.rkey.value(), kRelaxed);
  rights_.store(grant.rights.bits(), kRelaxed);
  epoch_.store(grant.epoch, kRelaxed);
  tables_.store(grant.tables, kRelaxed);
  iova_.store(grant.iova, kRelaxed);
  length_.store(grant.length, kRelaxed);
  memory_.store(grant.memory, kRelaxed);
  guard_.store(grant.guard, kRelaxed);
  descriptor_.store(grant.file.descriptor, kRelaxed);
  device_.store(grant.file.device, kRelaxed);
  inode_.store(grant.file.inode, kRelaxed);
  offset_.store(grant.file.offset, kRelaxed);
  sequence_.store(sequence + 1, std::memory_order_release);
}

std::optional<PlacementGrant> PlacementSlot::read() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const std::uint32_t sequence = sequence_.load(std::memory_order_acquire);
  const PlacementGrant grant{
      .epoch = epoch_.load(kRelaxed),
      .tables = tables_.load(kRelaxed),
      .qpn = Qpn{qpn_.load(kRelaxed)},
      .rkey = RKey{rkey_.load(kRelaxed)},
      .iova = iova_.load(kRelaxed),
      .length = length_.load(kRelaxed),
      .memory = memory_.load(kRelaxed),
      .guard = guard_.load(kRelaxed),
      .file = {.descriptor = descriptor_.load(kRelaxed),
                 .device = device_.load(kRelaxed),
                 .inode = inode_.load(kRelaxed),
                 .offset = offset_.load(kRelaxed)},
      .rights = verbs::AccessFlags::from_bits(rights_.load(kRelaxed))
  };
  std::atomic_thread_fence(std::memory_order_acquire);
  if (sequence % 2 != 0 || sequence_.load(kRelaxed) != sequence) {
    return std::nullopt;
  }
  return grant;
}

}  // namespace weft::host
