#include "sriov/transaction_ids.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"
#include "sriov/planted_bug.h"

namespace weft::sriov {

OrReason<std::uint64_t> TransactionIds::map(FunctionId function, std::uint64_t transaction_id,
                                            Instant now) {
  if (tag_of(transaction_id) != 0) {
    return std::unexpected(Reason::TransactionIdTagged);
  }
  if (planted(PlantedBug::TransactionIdNotMapped)) {
    return transaction_id;
  }
  if (function.value() <= kMostTaggedFunctions) {
    return with_tag(static_cast<std::uint8_t>(function.value()), transaction_id);
  }
  const OwnerKey owner{function, transaction_id};
  if (const auto known = by_owner_.find(owner); known != by_owner_.end()) {
    by_key_.at(known->second).expires = now + limits_.lifetime;
    return with_tag(kTableTag, known->second);
  }
  if (count_[function] >= limits_.of_function) {
    return std::unexpected(Reason::TooManyTransactions);
  }
  last_key_ = (last_key_ + 1) & 0x00FF'FFFF'FFFF'FFFF;  // not repeated within any lifetime
  by_key_.emplace(last_key_,
                  Entry{
                      .owner = {function, transaction_id},
                        .expires = now + limits_.lifetime
  });
  by_owner_.emplace(owner, last_key_);
  ++count_[function];
  return with_tag(kTableTag, last_key_);
}

std::optional<TransactionIds::Owner> TransactionIds::restore(std::uint64_t transaction_id,
                                                             Instant now) {
  const std::uint8_t tag = tag_of(transaction_id);
  if (tag <= kMostTaggedFunctions) {
    return Owner{.function = FunctionId{tag}, .transaction_id = with_tag(0, transaction_id)};
  }
  if (tag != kTableTag) {
    return std::nullopt;
  }
  const auto found = by_key_.find(with_tag(0, transaction_id));
  if (found == by_key_.end()) {
    return std::nullopt;
  }
  found->second.expires = now + limits_.lifetime;  // of a long RMPP message, each segment counts
  Owner owner = found->second.owner;
  if (planted(PlantedBug::TableEntryShared)) {
    owner.function = by_key_.begin()->second.owner.function;
  }
  return owner;
}

void TransactionIds::remove(FunctionId function) {
  std::erase_if(by_key_,
                [&](const auto& entry) { return entry.second.owner.function == function; });
  std::erase_if(by_owner_, [&](const auto& entry) { return entry.first.first == function; });
  count_.erase(function);
}

void TransactionIds::erase(std::uint64_t key) {
  const auto entry = by_key_.find(key);
  const Owner owner = entry->second.owner;
  by_owner_.erase({owner.function, owner.transaction_id});
  if (const auto count = count_.find(owner.function); --count->second == 0) {
    count_.erase(count);
  }
  by_key_.erase(entry);
}

void TransactionIds::handle_timeout(Instant now) {
  for (auto entry = by_key_.begin(); entry != by_key_.end();) {
    const auto next = std::next(entry);
    if (entry->second.expires <= now) {
      erase(entry->first);
    }
    entry = next;
  }
}

Instant TransactionIds::poll_deadline() const {
  Instant first = Instant::never();
  for (const auto& [key, entry] : by_key_) {
    first = std::min(first, entry.expires);
  }
  return first;
}

void TransactionIds::check_invariants() const {
  WEFT_ASSERT(by_key_.size() == by_owner_.size(), "each entry is found both ways");
  std::size_t total = 0;
  for (const auto& [function, count] : count_) {
    WEFT_ASSERT(count <= limits_.of_function, "each function has a limit");
    total += count;
  }
  WEFT_ASSERT(total == by_key_.size(), "each entry counts for its function");
}

}  // namespace weft::sriov
