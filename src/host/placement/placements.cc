#include "host/placement/placements.h"

#include <algorithm>
#include <bit>

#include "os/shared_backing.h"

namespace weft::host {

PeerPlacement& Placements::add_peer() {
  const std::lock_guard guard{lock_};
  return *peers_.emplace_back(
      std::make_unique<PeerPlacement>([this] { note_mapped(); }, shares_pages_));
}

void Placements::note_mapped() {
  if (!has_mapped_.exchange(true, std::memory_order_relaxed) && notify_mapped_) {
    notify_mapped_();
  }
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
              .file = shares_pages_ ? files_.find(memory) : os::FileRange{},
              .rights = memory.rights});
}

/// Whoever comes while another thread withdraws waits for it: what it needs withdrawn may have been
/// granted before.
void Placements::withdraw() {
  const std::lock_guard guard{lock_};
  if (!may_have_granted_) {
    return;
  }
  end_epoch();
}

void Placements::end_epoch() {
  may_have_granted_ = false;
  std::ranges::for_each(peers_, [](const auto& peer) { peer->end_epoch(); });
  guard_.close();
  std::ranges::for_each(peers_, [](const auto& peer) { peer->wait_for_copies(); });
}

void Placements::unshare(std::span<const void* const> regions,
                         const std::function<void()>& make_private) {
  const std::lock_guard guard{lock_};
  std::ranges::for_each(regions, [this](const void* region) { files_.give_up(region); });
  end_epoch();
  make_private();
}

void Placements::hold_file(const void* region, std::span<const std::byte> memory) {
  if (shares_pages() && os::may_be_shared(memory)) {
    const std::lock_guard guard{lock_};
    files_.hold(region, memory);
  }
}

void Placements::forget(const void* region) {
  const std::lock_guard guard{lock_};
  files_.forget(region);
}

void Placements::release_mapped() {
  const std::lock_guard guard{lock_};
  has_mapped_.store(false, std::memory_order_relaxed);  // what is mapped from now on counts again
  for (const auto& peer : peers_) {
    if (peer->release_mapped()) {
      has_mapped_.store(true, std::memory_order_relaxed);
    }
  }
}

}  // namespace weft::host
