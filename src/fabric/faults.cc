#include "fabric/faults.h"

#include <algorithm>

#include "base/random.h"

namespace weft::fabric {
namespace {

[[nodiscard]] std::array<std::uint64_t, 4> opcode_bits(const std::vector<std::string>& patterns) {
  std::array<std::uint64_t, 4> bits{};
  if (patterns.empty()) {
    bits.fill(~std::uint64_t{});
  }
  for (const wire::OpcodeInfo& info : wire::opcode_table()) {
    if (std::ranges::any_of(patterns,
                            [&](const auto& pattern) { return fits(pattern, info.name); })) {
      const auto opcode = static_cast<std::uint8_t>(info.opcode);
      bits[opcode / 64] |= std::uint64_t{1} << opcode % 64;
    }
  }
  return bits;
}

/// True if the rule, which has a probability, hits the n-th packet that it matches.
[[nodiscard]] bool is_drawn(const FaultRecord& rule, std::uint64_t n) {
  constexpr std::uint64_t kSpread =
      0xD134'2543'DE82'EF95;  // odd, so that each n has a state of its own
  Random random{rule.seed ^ n * kSpread};
  return random.below(FaultDescription::kAlways) < rule.parts_per_million;
}

}  // namespace

std::vector<FaultRecord> records_of(const FaultDescription& fault, std::uint32_t slot,
                                    std::span<const PortIndex> egresses) {
  FaultRecord record;
  record.opcodes = opcode_bits(fault.opcodes);
  record.seed = fault.seed;
  record.after = fault.after;
  record.every = fault.every;
  record.count = fault.count;
  record.hold_ns = fault.kind == FaultKind::Reorder ? fault.hold.nanoseconds() : 0;
  record.slot = slot;
  record.parts_per_million = fault.parts_per_million;
  record.slid = fault.slid.value_or(Lid{});
  record.dlid = fault.dlid.value_or(Lid{});
  record.dest_qp = fault.dest_qp.value_or(FaultRecord::kAnyQpn);
  if (fault.psns) {
    record.first_psn = fault.psns->first.value();
    record.psn_count = ((fault.psns->last.value() - record.first_psn) & Psn::kMask) + 1;
  }
  record.kind = fault.kind;
  std::vector<FaultRecord> records(std::max<std::size_t>(egresses.size(), 1), record);
  for (std::size_t i = 0; i < egresses.size(); ++i) {
    records[i].egress = egresses[i];
  }
  return records;
}

bool matches(const FaultRecord& rule, const FaultSubject& packet) {
  const auto opcode = static_cast<std::uint8_t>(packet.opcode);
  return (rule.opcodes[opcode / 64] >> opcode % 64 & 1) != 0 &&
         (rule.slid == Lid{} || rule.slid == packet.slid) &&
         (rule.dlid == Lid{} || rule.dlid == packet.dlid) &&
         (rule.dest_qp == FaultRecord::kAnyQpn || rule.dest_qp == packet.dest_qp) &&
         (rule.psn_count == 0 || (packet.psn - rule.first_psn).value() < rule.psn_count);
}

FaultCounters FaultCounters::open(MutableByteSpan memory) {
  FaultCounters counters;
  void* const start = memory.data();
  counters.slots_ = {static_cast<Slot*>(start), memory.size() / sizeof(Slot)};
  return counters;
}

bool FaultCounters::applies(const FaultRecord& rule) {
  if (rule.slot >= slots_.size()) {
    return false;
  }
  Slot& slot = slots_[rule.slot];
  const std::uint64_t number = slot.matched.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number <= rule.after || (number - rule.after) % rule.every != 0 || !is_drawn(rule, number)) {
    return false;
  }
  std::uint64_t hit = slot.hit.load(std::memory_order_relaxed);
  do {
    if (rule.count != 0 && hit >= rule.count) {
      return false;
    }
  } while (!slot.hit.compare_exchange_weak(hit, hit + 1, std::memory_order_relaxed));
  return true;
}

void FaultCounters::count_outage(std::uint32_t slot) {
  if (slot < slots_.size()) {
    slots_[slot].matched.fetch_add(1, std::memory_order_relaxed);
    slots_[slot].hit.fetch_add(1, std::memory_order_relaxed);
  }
}

FaultCount FaultCounters::read(std::uint32_t slot) const {
  if (slot >= slots_.size()) {
    return {};
  }
  return {.matched = slots_[slot].matched.load(std::memory_order_relaxed),
          .hit = slots_[slot].hit.load(std::memory_order_relaxed)};
}

void FaultCounters::clear(std::uint32_t slot) {
  if (slot < slots_.size()) {
    slots_[slot].matched.store(0, std::memory_order_relaxed);
    slots_[slot].hit.store(0, std::memory_order_relaxed);
  }
}

FaultEffects cross(std::span<const LinkFault> faults, const FaultSubject& packet,
                   FaultCounters& counters) {
  FaultEffects effects{.copies = {}, .count = 1};
  std::array<std::size_t, FaultEffects::kMaxCopies>
      begins{};  // index of the first rule that applies to a copy
  for (std::size_t i = 0; i < effects.count; ++i) {
    FaultEffect& copy = effects.copies[i];
    for (std::size_t at = begins[i]; at < faults.size() && copy.end == FaultEffect::End::Arrives;
         ++at) {
      const auto& [hop, rule] = faults[at];
      const bool has_room =
          rule.kind != FaultKind::Duplicate || effects.count < FaultEffects::kMaxCopies;
      if (!matches(rule, packet) || !has_room || !counters.applies(rule)) {
        continue;
      }
      switch (rule.kind) {
        case FaultKind::Drop:
          copy.end = FaultEffect::End::Lost;
          copy.hop = hop;
          break;
        case FaultKind::Corrupt:
          copy.end = FaultEffect::End::Damaged;
          copy.hop = hop;
          break;
        case FaultKind::Duplicate:
          begins[effects.count] = at + 1;
          effects.copies[effects.count++] = copy;
          break;
        case FaultKind::Reorder:
          copy.held_back = copy.held_back + rule.hold();
          break;
        case FaultKind::Down:
          break;  // concerns the link's state, not a packet
      }
    }
  }
  return effects;
}

}  // namespace weft::fabric
