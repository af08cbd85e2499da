#include "ulp/opa_vnic/mac_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/assert.h"
#include "ulp/opa_vnic/planted_bug.h"

namespace weft::opa_vnic {
namespace {

constexpr std::uint64_t kAllBits = 0xFFFF'FFFF'FFFF;

/// A mask of zero means the address itself: managers that know of no masks leave it empty (policy).
[[nodiscard]] std::uint64_t mask_of(const wire::MacTableEntry& entry) {
  return entry.mask.is_zero() ? kAllBits : entry.mask.number();
}

[[nodiscard]] bool fits(const wire::MacTableEntry& entry, const wire::MacAddress& mac) {
  return ((entry.mac.number() ^ mac.number()) & mask_of(entry)) == 0;
}

[[nodiscard]] std::size_t bucket_of(const wire::MacAddress& mac) {
  return std::to_integer<std::size_t>(mac.octets().back());
}

}  // namespace

Result<std::shared_ptr<const MacTable>> MacTable::with_block(
    const wire::MacTableBlock& block) const {
  WEFT_ASSERT(block.offset + block.entries.size() <= wire::kMaxMacTableEntries,
              "blocks are checked where they are parsed");
  auto table = std::make_shared<MacTable>();
  table->digest_ = block.digest;
  table->entries_ = entries_;
  for (std::size_t i = 0; i < block.entries.size(); ++i) {
    const auto place = static_cast<std::uint16_t>(block.offset + i);
    const wire::MacTableEntry& entry = block.entries[i];
    if (!entry.mac.is_zero()) {
      table->entries_[place] = entry;
    } else if (!planted(PlantedBug::OldEntriesStay)) {
      table->entries_.erase(place);
    }
  }
  table->index();
  if (table->sources_.size() > kMaxSourceMacEntries) {
    return fail(ErrorCode::OutOfMemory, "{} entries for sources; at most {} are kept",
                table->sources_.size(), kMaxSourceMacEntries);
  }
  return table;
}

void MacTable::index() {
  for (const auto& [place, entry] : entries_) {
    const bool is_source = entry.is_source() && !planted(PlantedBug::SourceEntryIsDest);
    if (is_source) {
      sources_.push_back(entry);
    } else if (mask_of(entry) == kAllBits) {
      exact_[bucket_of(entry.mac)].push_back(entry);
    } else {
      masked_.push_back(entry);
    }
  }
  std::ranges::sort(masked_, std::greater{}, [](const wire::MacTableEntry& entry) {
    return std::pair{std::popcount(mask_of(entry)), entry.mac.number()};
  });
}

wire::MacTableBlock MacTable::block(std::uint16_t offset, std::uint16_t count) const {
  wire::MacTableBlock block{.offset = offset, .digest = digest_, .entries = {}};
  for (std::uint16_t i = 0; i < count; ++i) {
    const auto found = entries_.find(static_cast<std::uint16_t>(offset + i));
    block.entries.push_back(found == entries_.end() ? wire::MacTableEntry{} : found->second);
  }
  return block;
}

std::optional<std::uint32_t> MacTable::find_destination(const wire::MacAddress& mac) const {
  for (const wire::MacTableEntry& entry : exact_[bucket_of(mac)]) {
    if (entry.mac == mac) {
      return entry.dlid;
    }
  }
  const auto fitting = std::ranges::find_if(
      masked_, [&](const wire::MacTableEntry& entry) { return fits(entry, mac); });
  return fitting == masked_.end() ? std::nullopt : std::optional{fitting->dlid};
}

bool MacTable::refuses_source(const wire::MacAddress& mac) const {
  return !sources_.empty() && std::ranges::none_of(sources_, [&](const wire::MacTableEntry& entry) {
    return fits(entry, mac);
  });
}

}  // namespace weft::opa_vnic
