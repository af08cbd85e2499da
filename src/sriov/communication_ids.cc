#include "sriov/communication_ids.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"
#include "sriov/planted_bug.h"

namespace weft::sriov {

CommunicationId* CommunicationIds::find(FunctionId function, std::uint32_t local) {
  const auto found = by_local_.find({function, local});
  return found == by_local_.end() ? nullptr : &by_physical_.at(found->second);
}

CommunicationId* CommunicationIds::find_with_peer(FunctionId function, std::uint32_t local,
                                                  std::uint32_t peer) {
  CommunicationId* const newest = find(function, local);
  if (newest != nullptr && newest->peer == peer) {
    return newest;
  }
  // Rare: the function uses the number anew while an earlier peer repeats its DREQ.
  for (auto& [physical, id] : by_physical_) {
    if (id.function == function && id.local == local && id.peer == peer) {
      return &id;
    }
  }
  return nullptr;
}

CommunicationId* CommunicationIds::find_physical(std::uint32_t physical) {
  const auto found = by_physical_.find(physical);
  return found == by_physical_.end() ? nullptr : &found->second;
}

OrReason<CommunicationId*> CommunicationIds::create(FunctionId function, std::uint32_t local,
                                                    Instant now) {
  if (count_of(function) >= limits_.of_function) {
    return std::unexpected(Reason::TooManyConnections);
  }
  do {
    ++last_;
  } while (last_ == 0 || by_physical_.contains(last_));  // ends: functions and limits are few
  if (planted(PlantedBug::CommunicationIdNotMapped)) {
    erase(local);
    last_ = local;
  }
  CommunicationId& id = by_physical_[last_];
  id = {
      .function = function, .local = local, .physical = last_, .expires = now + limits_.unanswered};
  by_local_[{function, local}] = last_;
  ++count_[function];
  return &id;
}

void CommunicationIds::establish(CommunicationId& id) const {
  id.is_established = true;
  if (!id.is_closing) {
    id.expires = Instant::never();
  }
}

void CommunicationIds::schedule_release(CommunicationId& id, Instant now) {
  // A repeated DREQ begins the delay anew: the peer that repeats it has not finished.
  id.is_closing = true;
  id.expires = planted(PlantedBug::ReleasedAtOnce) ? now : now + limits_.release_delay;
}

void CommunicationIds::orphan(FunctionId function, Instant now) {
  for (auto& [physical, id] : by_physical_) {
    if (id.function != function || planted(PlantedBug::IdsLeakAtRemoval)) {
      continue;
    }
    if (!id.is_closing) {
      schedule_release(id, now);
    }
    id.is_orphan = true;
  }
}

std::vector<CommunicationId> CommunicationIds::live_of(FunctionId function) const {
  std::vector<CommunicationId> ids;
  for (const auto& [physical, id] : by_physical_) {
    if (id.function == function && !id.is_closing) {
      ids.push_back(id);
    }
  }
  return ids;
}

bool CommunicationIds::adopt(const CommunicationId& id) {
  if (count_of(id.function) >= limits_.of_function || by_physical_.contains(id.physical) ||
      id.physical == 0) {
    return false;
  }
  by_physical_[id.physical] = id;
  by_local_[{id.function, id.local}] = id.physical;
  ++count_[id.function];
  return true;
}

std::size_t CommunicationIds::count_of(FunctionId function) const {
  const auto found = count_.find(function);
  return found == count_.end() ? 0 : found->second;
}

void CommunicationIds::erase(std::uint32_t physical) {
  const auto found = by_physical_.find(physical);
  if (found == by_physical_.end()) {
    return;
  }
  const CommunicationId id = found->second;
  if (const auto local = by_local_.find({id.function, id.local});
      local != by_local_.end() && local->second == physical) {
    by_local_.erase(local);
  }
  if (const auto count = count_.find(id.function); --count->second == 0) {
    count_.erase(count);
  }
  by_physical_.erase(found);
}

void CommunicationIds::handle_timeout(Instant now) {
  for (auto entry = by_physical_.begin(); entry != by_physical_.end();) {
    const auto next = std::next(entry);
    if (entry->second.expires <= now) {
      erase(entry->first);
    }
    entry = next;
  }
}

Instant CommunicationIds::poll_deadline() const {
  Instant first = Instant::never();
  for (const auto& [physical, id] : by_physical_) {
    first = std::min(first, id.expires);
  }
  return first;
}

void CommunicationIds::check_invariants() const {
  std::size_t total = 0;
  for (const auto& [function, count] : count_) {
    WEFT_ASSERT(count <= limits_.of_function, "each function has a limit");
    total += count;
  }
  WEFT_ASSERT(total == by_physical_.size(), "each ID counts for its function");
  for (const auto& [key, physical] : by_local_) {
    const auto found = by_physical_.find(physical);
    WEFT_ASSERT(found != by_physical_.end() && found->second.function == key.first &&
                    found->second.local == key.second,
                "an ID is the same both ways");
  }
  for (const auto& [physical, id] : by_physical_) {
    WEFT_ASSERT(physical != 0 && id.physical == physical, "0 is no communication ID");
    WEFT_ASSERT(!id.is_closing || id.expires != Instant::never(), "what closes ends");
  }
}

}  // namespace weft::sriov
