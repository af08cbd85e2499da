#include "host/lane_table.h"

#include <unistd.h>

#include <utility>

namespace weft::host {

/// Caller must hold the lock; null if there are too many lanes.
LaneTable::Pair* LaneTable::add_pair(uabi::ProcessAddress peer, PeerPlacement* placement) {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count + kLanesPerPair > kMaxLanes) {
    return nullptr;
  }
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    lanes_[count + index] =
        std::make_unique<Lane>(static_cast<std::uint32_t>(count) + index, index, self_, peer, map_,
                               taps_, links_, waiting_, placement);
  }
  count_.store(count + kLanesPerPair, std::memory_order_release);
  Pair& pair = pairs_[peer];
  pair.first = lanes_[count].get();
  return &pair;
}

/// The same for another process.
LaneTable::Pair* LaneTable::add_peer(uabi::ProcessAddress peer) {
  return add_pair(peer, &placements_.add_peer());
}

void LaneTable::open(uabi::ProcessAddress self, std::unique_ptr<PairMemory> own) {
  const std::lock_guard guard{lock_};
  self_ = self;
  const Pair& none = *add_pair({.node = fabric::kNoIndex, .slot = 0}, nullptr);
  nowhere_ = none.first;
  for_each_lane(none, [](Lane& lane) { lane.close_permanently(); });
  Pair& pair = *add_pair(self, nullptr);
  pair.memory = std::move(own);
  for_each_lane(pair, [&](Lane& lane) { lane.open_to_self(*pair.memory); });
}

/// True if the pair has been dead for a while, so that the daemon should be asked again. All lanes
/// of a pair open and close together.
bool LaneTable::reopen(const Pair& pair) const {
  bool any = false;
  for_each_lane(pair, [&](Lane& each) { any = each.try_reopen() || any; });
  return any;
}

Lane& LaneTable::lane_to(uabi::ProcessAddress peer, Qpn own, Qpn other) {
  const std::lock_guard guard{lock_};
  const auto found = pairs_.find(peer);
  const Pair* pair = found != pairs_.end() ? &found->second : nullptr;
  const bool is_new = pair == nullptr && !has_ended_;
  if (is_new) {
    pair = add_peer(peer);
  }
  if (pair == nullptr) {
    return *nowhere_;
  }
  Lane& lane = *lanes_[pair->first->number + station::lane_index_for(self_, own, peer, other)];
  if (is_new || (pair->first != nowhere_ && !has_ended_ && lane.state() == LaneState::Dead &&
                 reopen(*pair))) {
    daemon_.post(uabi::OpenLane{.peer = peer});
  }
  return lane;
}

/// Caller must hold the lock; null if the processes should not or cannot be joined.
LaneTable::Pair* LaneTable::join_memory(const uabi::Lane& message,
                                        const std::vector<os::UniqueFd>& descriptors) {
  if (message.side > 1 || message.peer == self_) {
    return nullptr;
  }
  const auto found = pairs_.find(message.peer);
  Pair* const pair = found == pairs_.end() ? add_peer(message.peer) : &found->second;
  if (pair == nullptr || pair->first->state() == LaneState::Open) {
    return nullptr;
  }
  if (pair->memory == nullptr) {
    auto memory = PairMemory::reserve();
    pair->memory = memory ? std::move(*memory) : nullptr;
  }
  if (pair->memory == nullptr || !pair->memory->join(descriptors[0], descriptors[1])) {
    return nullptr;
  }
  // Process numbers mean the same to both only where they mean the same to the daemon.
  const bool may_place =
      placements_.is_on() && message.self_pid == static_cast<std::uint32_t>(getpid());
  pair->first->placement->open(placement_memory(pair->memory->lanes()), message.side,
                               may_place ? static_cast<pid_t>(message.peer_pid) : 0);
  return pair;
}

LaneTable::Pair* LaneTable::pair_to_part(uabi::ProcessAddress peer) {
  const std::lock_guard guard{lock_};
  const auto found = pairs_.find(peer);
  return found != pairs_.end() && peer != self_ && found->second.first != nowhere_ ? &found->second
                                                                                   : nullptr;
}

std::vector<uabi::ProcessAddress> LaneTable::end() {
  const std::lock_guard guard{lock_};
  has_ended_ = true;
  std::vector<uabi::ProcessAddress> peers;
  for (const auto& [peer, pair] : pairs_) {
    peers.push_back(peer);
  }
  return peers;
}

std::size_t LaneTable::hold_rings() {
  joining_lock_.lock();
  const std::size_t held = count();
  for (std::size_t i = 0; i < held; ++i) {
    lanes_[i]->in(hca::Flow::Request).owner.lock();
    lanes_[i]->in(hca::Flow::Response).owner.lock();
  }
  return held;
}

void LaneTable::release_rings(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    lanes_[i]->in(hca::Flow::Request).owner.unlock();
    lanes_[i]->in(hca::Flow::Response).owner.unlock();
  }
  joining_lock_.unlock();
}

}  // namespace weft::host
