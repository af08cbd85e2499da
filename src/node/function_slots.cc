// Fabric: process slots of hosts, and which of them virtual functions have borrowed. Each function
// has a block from the start, and borrows more, one ahead: so peers' tables have a block before the
// first QPN of it is used.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/virtual_ports.h"
#include "node/fabric.h"

namespace weft::node {

using fabric::NodeIndex;
using fabric::PortIndex;

namespace {

/// Policy: blocks of a function, twice what its programs need, since slots rest. More would be
/// those of others.
constexpr std::size_t kMostLoans = 2 * fabric::kMostProgramsOfFunction / fabric::kSlotsPerLoan;

}  // namespace

/// A slot for a process of the host.
Result<std::uint32_t> Fabric::take_slot(NodeIndex node, Instant now) {
  const PortIndex port = builder_.node(node).first_port;
  if (auto assigned = check_assigned(port); !assigned) {
    return std::unexpected(assigned.error());
  }
  const auto function = management_.shared_ports().function_at(port);
  if (!function) {
    if (!slots_[node].has_free(now)) {
      static_cast<void>(reclaim_slots(node, now));
    }
    return slots_.at(node).take(now);
  }
  ProcessSlots& slots = slots_.at(node);
  const std::string_view name = builder_.name(builder_.node(node));
  if (slots.count_taken() >= fabric::kMostProgramsOfFunction) {
    return fail(ErrorCode::OutOfMemory,
                "{} has {} programs, as many as a virtual function can: end one, or use another",
                name, slots.count_taken());
  }
  const NodeIndex lender = builder_.port(function->physical).node;
  const auto borrow = [&](bool may_reclaim) {
    if (slots.borrowed().size() >= kMostLoans) {
      return;
    }
    if (const auto first = may_reclaim ? lend_slots(lender, now) : slots_[lender].lend(now)) {
      hand_over_slots(lender, *first, port);
    }
  };
  if (!slots.has_free(now)) {
    borrow(true);
  }
  if (!slots.has_free(now)) {
    return fail(ErrorCode::OutOfMemory,
                "{} shares the process slots of {} and its other functions, which are all taken, "
                "or rest for {} ms after their process ended: end one, or wait",
                name, builder_.name(builder_.node(lender)),
                ProcessSlots::kSlotReuseDelay.milliseconds());
  }
  const auto slot = slots.take(now);
  if (!slots.has_free(now)) {
    borrow(false);
  }
  return slot;
}

/// A block of the host, if need be one that another function does not use; none if all are used.
std::optional<std::uint32_t> Fabric::lend_slots(NodeIndex lender, Instant now) {
  const auto first = slots_[lender].lend(now);
  return first || !reclaim_slots(lender, now) ? first : slots_.at(lender).lend(now);
}

/// Takes back what functions of the host do not use, but for one block each. False if there is
/// nothing.
bool Fabric::reclaim_slots(NodeIndex lender, Instant now) {
  bool found = false;
  const fabric::NodeRecord& host = builder_.node(lender);
  for (std::uint32_t i = 0; i < host.port_count; ++i) {
    const PortIndex physical{host.first_port.value() + i};
    for (const PortIndex port : management_.shared_ports().functions_of(physical)) {
      ProcessSlots& slots = slots_.at(builder_.port(port).node);
      for (const std::uint32_t first : slots.borrowed()) {
        if (slots.borrowed().size() == 1 || !slots.is_idle(first, now)) {
          continue;
        }
        slots.give_back(first);
        builder_.take_back_slots(lender, first);
        slots_.at(lender).take_back(first, now - ProcessSlots::kSlotReuseDelay);  // has rested
        found = slots_changed_ = true;
      }
    }
  }
  return found;
}

/// A block that was lent is the function's.
void Fabric::hand_over_slots(NodeIndex lender, std::uint32_t first, PortIndex function) {
  ProcessSlots& slots = slots_.at(builder_.port(function).node);
  if (!slots.is_used(first)) {
    slots.borrow(first);
  }
  builder_.lend_slots({.lender = lender, .first_slot = first, .borrower = function});
  slots_changed_ = true;
  shared_by_[builder_.port(function).node].insert(lender);
}

std::vector<NodeIndex> Fabric::hosts_shared_by(NodeIndex function) const {
  const auto found = shared_by_.find(function);
  return found == shared_by_.end()
             ? std::vector<NodeIndex>{}
             : std::vector<NodeIndex>{found->second.begin(), found->second.end()};
}

/// The function leaves the host; the slots of its programs stay theirs.
void Fabric::take_back_slots(NodeIndex lender, PortIndex function, Instant now) {
  ProcessSlots& slots = slots_.at(builder_.port(function).node);
  for (const std::uint32_t first : slots.borrowed()) {
    if (!slots.is_used(first)) {
      slots.give_back(first);
    }
    builder_.take_back_slots(lender, first);
    slots_.at(lender).take_back(first, now);
    slots_changed_ = true;
  }
}

/// The blocks that the function needs at another host: those that its programs have slots of, since
/// their QPNs name them, or any. None if they are not free there.
std::optional<std::vector<std::uint32_t>> Fabric::lend_slots_to(NodeIndex lender,
                                                                PortIndex function, Instant now) {
  const ProcessSlots& own = slots_.at(builder_.port(function).node);
  std::vector<std::uint32_t> lent;
  for (const std::uint32_t first : own.borrowed()) {
    if (!own.is_used(first)) {
      continue;
    }
    if (!slots_[lender].lend_this(first, now)) {
      for (const std::uint32_t other : lent) {
        slots_.at(lender).take_back(other, now - ProcessSlots::kSlotReuseDelay);
      }
      return std::nullopt;
    }
    lent.push_back(first);
  }
  if (lent.empty()) {
    const auto first = lend_slots(lender, now);
    if (!first) {
      return std::nullopt;
    }
    lent.push_back(*first);
  }
  return lent;
}

}  // namespace weft::node
