#include "node/fault_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fabric/faults.h"

namespace weft::node {

using fabric::FaultKind;
using fabric::FaultSide;
using fabric::PortIndex;

Result<std::uint32_t> FaultRules::add(const fabric::FaultDescription& fault,
                                      std::span<const PortIndex> ports, Instant now) {
  if (rules_.size() == fabric::kMaxFaultRules) {
    const auto ended = std::ranges::find(rules_, true, &FaultRule::has_ended);
    if (ended == rules_.end()) {
      return fail(ErrorCode::OutOfMemory,
                  "a fabric has at most {} faults; `weft fault clear` removes some",
                  fabric::kMaxFaultRules);
    }
    rules_.erase(ended);
  }
  std::set<PortIndex> egresses;
  for (const PortIndex port : ports) {
    if (fault.side != FaultSide::In) {
      egresses.insert(port);
    }
    if (fault.side != FaultSide::Out) {
      egresses.insert(builder_.port(port).peer);
    }
  }
  std::size_t records = std::max<std::size_t>(egresses.size(), 1);
  for (const FaultRule& rule : rules_) {
    records += rule.has_ended ? 0 : std::max<std::size_t>(rule.egresses.size(), 1);
  }
  if (records > fabric::kMaxFaultRecords) {
    return fail(ErrorCode::OutOfMemory,
                "the faults of this fabric name {} links, at most {} are possible; one without "
                "link, out and in is of all links and counts once",
                records, fabric::kMaxFaultRecords);
  }
  const std::uint32_t slot = free_slot();
  FaultRule& rule = rules_.emplace_back();
  rule.slot = slot;
  rule.number = next_number_++;
  rule.description = fault;
  rule.egresses = {egresses.begin(), egresses.end()};
  rule.ends = fault.lasts == Duration{} ? Instant::never() : now + fault.lasts;
  begin(rule, now);
  return rule.number;
}

/// The free slot unused for the longest time: a program that has not yet received the tables
/// without an ended rule would count in the slot of the next one.
std::uint32_t FaultRules::free_slot() {
  do {
    newest_slot_ = (newest_slot_ + 1) % fabric::kMaxFaultRules;
  } while (std::ranges::find(rules_, newest_slot_, &FaultRule::slot) != rules_.end());
  return newest_slot_;
}

std::vector<PortIndex> FaultRules::links_of(const FaultRule& rule) const {
  std::set<PortIndex> links;
  const auto take = [&](PortIndex port) {
    if (const PortIndex peer = builder_.port(port).peer; peer != fabric::kNoPort) {
      links.insert(std::min(port, peer));
    }
  };
  std::ranges::for_each(rule.egresses, take);
  for (std::uint32_t i = 0; rule.egresses.empty() && i < builder_.ports().size(); ++i) {
    take(PortIndex{i});
  }
  return {links.begin(), links.end()};
}

void FaultRules::begin(const FaultRule& rule, Instant now) {
  if (rule.description.kind != FaultKind::Down) {
    update_tables();
    return;
  }
  for (const PortIndex link : links_of(rule)) {
    if (down_[link]++ == 0) {
      on_link_(link, true, now);
    }
  }
}

void FaultRules::end(FaultRule& rule, Instant now) {
  if (std::exchange(rule.has_ended, true)) {
    return;
  }
  if (rule.description.kind != FaultKind::Down) {
    update_tables();
    return;
  }
  for (const PortIndex link : links_of(rule)) {
    const auto found = down_.find(link);
    // no other rule, and the cable still exists
    if (found != down_.end() && --found->second == 0) {
      down_.erase(found);
      on_link_(link, false, now);
    }
  }
}

void FaultRules::update_tables() {
  std::vector<fabric::FaultRecord> records;
  for (const FaultRule& rule : rules_) {
    if (!rule.has_ended && rule.description.kind != FaultKind::Down) {
      const auto more = fabric::records_of(rule.description, rule.slot, rule.egresses);
      records.insert(records.end(), more.begin(), more.end());
    }
  }
  builder_.set_faults(std::move(records));
}

std::vector<FaultRule>::iterator FaultRules::find(std::uint32_t number) {
  return std::ranges::find(rules_, number, &FaultRule::number);
}

Result<void> FaultRules::remove(std::uint32_t number, Instant now) {
  const auto found = find(number);
  if (found == rules_.end()) {
    return fail(ErrorCode::NotFound,
                "there is no fault {}; `weft fault list` shows those there are", number);
  }
  end(*found, now);
  rules_.erase(found);
  return {};
}

void FaultRules::remove_all(Instant now) {
  std::ranges::for_each(rules_, [&](FaultRule& rule) { end(rule, now); });
  rules_.clear();
}

bool FaultRules::end_due(Instant now) {
  bool any = false;
  for (FaultRule& rule : rules_) {
    if (!rule.has_ended && rule.ends <= now) {
      end(rule, now);
      any = true;
    }
  }
  return any;
}

Instant FaultRules::next_end() const {
  Instant next = Instant::never();
  for (const FaultRule& rule : rules_) {
    next = rule.has_ended ? next : std::min(next, rule.ends);
  }
  return next;
}

}  // namespace weft::node
