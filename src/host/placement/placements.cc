#include "host/placement/placements.h"

#include <algorithm>
#include <bit>

namespace weft::host {

PeerPlacement& Placements::add_peer() {
  const std::lock_guard guard{lock_};
  return *peers_.emplace_back(std::make_unique<PeerPlacement>());
}

std::optional<std::uint64_t> Placements::epoch(const PeerPlacement& peer) {
  const std::lock_guard guard{lock_};
  const auto epoch = peer.epoch();
  may_have_granted_ = may_have_granted_ || epoch.has_value();
  return epoch;
}

void Placements::grant(PeerPlacement& peer, std::uint64_t epoch, std::uint64_t tables, Qpn qpn,
                       const hca::PlaceableMemory& memory) {
  const std::lock_guard guard{lock_};
  const std::uint64_t address = guard_.address();
  if (address == 0 || peer.epoch() != epoch) {
    return;
  }
  peer.grant({.epoch = epoch,
              .tables = tables,
              .qpn = qpn,
              .rkey = memory.rkey,
              .iova = memory.iova,
              .length = memory.length,
              .memory = std::bit_cast<std::uint64_t>(memory.memory),
              .guard = address,
              .is_readable = memory.is_readable,
              .is_writable = memory.is_writable});
}

/// Whoever comes while another thread withdraws waits for it: what it needs withdrawn may have been
/// granted before.
void Placements::withdraw() {
  const std::lock_guard guard{lock_};
  if (!may_have_granted_) {
    return;
  }
  may_have_granted_ = false;
  std::ranges::for_each(peers_, [](const auto& peer) { peer->end_epoch(); });
  guard_.close();
  std::ranges::for_each(peers_, [](const auto& peer) { peer->wait_for_copies(); });
}

}  // namespace weft::host
