#include "sa/published_paths.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "base/assert.h"

namespace weft::sa {
namespace {

using wire::PathRecord;
using Layout = PublishedLayout;
using Record = Layout::Record;
using PathWords = std::array<std::uint32_t, Layout::kPathWords>;

[[nodiscard]] PathWords words_of(const PathRecord& path) {
  return std::bit_cast<PathWords>(wire::pack(path));
}

/// What was asked for, as a PathRecord asks for it.
[[nodiscard]] PathWords key_of(const PathQuery& asked) {
  PathRecord wanted{.dgid = asked.dgid,
                    .sgid = asked.sgid,
                    .tclass = asked.tclass,
                    .reversible = asked.is_reversible,
                    .pkey = asked.pkey,
                    .qos_class = asked.qos_class};
  wanted.set_service_id(asked.service_id);
  return words_of(wanted);
}

/// FNV-1a by words, its upper half: the lower bits of a product hardly depend on upper ones.
[[nodiscard]] std::size_t set_of(const PathWords& key) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (const std::uint32_t word : key) {
    hash = (hash ^ word) * 0x0000'0100'0000'01B3;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash >> 32) % Layout::kSets;
}

[[nodiscard]] constexpr std::size_t place_of(std::size_t set, std::size_t way) {
  return Layout::kHeaderBytes + (set * Layout::kWays + way) * Record::kBytes;
}

[[nodiscard]] PathWords part(const Record::Words& words, std::size_t from) {
  PathWords taken{};
  std::ranges::copy(std::span{words}.subspan(from, taken.size()), taken.begin());
  return taken;
}
[[nodiscard]] PathWords key_in(const Record::Words& words) {
  return part(words, Layout::kUntilWords);
}
[[nodiscard]] std::int64_t end_in(const Record::Words& words) {
  return std::bit_cast<std::int64_t>(std::array{words[0], words[1]});
}

[[nodiscard]] Record::Words record_of(const PathWords& key, const PathRecord& path, Instant until) {
  Record::Words words{};
  const auto end = std::bit_cast<std::array<std::uint32_t, 2>>(until.since_start().nanoseconds());
  const auto behind = std::ranges::copy(end, words.begin()).out;
  std::ranges::copy(words_of(path), std::ranges::copy(key, behind).out);
  return words;
}

/// SA's answers, and the resolver's to netlink's questions, are for the ends that were asked for,
/// and reversible if that was asked for.
[[nodiscard]] bool fits(const PathRecord& path, const PathQuery& asked) {
  return path.dgid == asked.dgid && path.sgid == asked.sgid &&
         (path.reversible || !asked.is_reversible);
}

[[nodiscard]] std::uint32_t word_of(Layout::State state) { return std::to_underlying(state); }

}  // namespace

PublishedPaths::PublishedPaths(ByteSpan memory) : memory_(memory) {
  WEFT_ASSERT(memory.size() == Layout::kBytes, "the memory is one table");
}

bool PublishedPaths::is_live() const {
  return ring::RealAtomics::load(memory_.data() + Layout::kStateAt, std::memory_order_acquire) ==
         word_of(Layout::State::Live);
}

std::optional<PathRecord> PublishedPaths::find(const PathQuery& asked, Instant now) const {
  if (!is_live()) {
    return std::nullopt;
  }
  const PathWords key = key_of(asked);
  const std::size_t set = set_of(key);
  for (std::size_t way = 0; way < Layout::kWays; ++way) {
    Record::Words words{};
    if (!Record::read(memory_.data() + place_of(set, way), words) || key_in(words) != key ||
        end_in(words) <= now.since_start().nanoseconds()) {
      continue;
    }
    const auto octets = std::bit_cast<std::array<std::byte, wire::kSizeOf<PathRecord>>>(
        part(words, Layout::kUntilWords + Layout::kPathWords));
    const auto path = wire::unpack<PathRecord>(octets);
    return fits(path, asked) ? std::optional{path} : std::nullopt;
  }
  return std::nullopt;
}

PathPublisher::PathPublisher(MutableByteSpan memory) : memory_(memory) {
  WEFT_ASSERT(memory.size() == Layout::kBytes, "the memory is one table");
}

void PathPublisher::put(const PathQuery& asked, const PathRecord& path, Instant until) {
  const PathWords key = key_of(asked);
  const std::size_t set = set_of(key);
  std::size_t chosen = 0;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t way = 0; way < Layout::kWays; ++way) {
    Record::Words words{};
    const bool is_whole = Record::read(memory_.data() + place_of(set, way), words);
    const std::int64_t end = is_whole ? end_in(words) : 0;
    if (end != 0 && key_in(words) == key) {
      chosen = way;
      break;
    }
    if (end < earliest) {
      earliest = end;
      chosen = way;
    }
  }
  Record::write(memory_.data() + place_of(set, chosen), record_of(key, path, until));
}

void PathPublisher::erase(const PathQuery& asked) {
  const PathWords key = key_of(asked);
  const std::size_t set = set_of(key);
  for (std::size_t way = 0; way < Layout::kWays; ++way) {
    std::byte* const record = memory_.data() + place_of(set, way);
    Record::Words words{};
    if (Record::read(record, words) && end_in(words) != 0 && key_in(words) == key) {
      return Record::write(record, {});
    }
  }
}

void set_live(MutableByteSpan memory, bool is_live) {
  WEFT_ASSERT(memory.size() == Layout::kBytes, "the memory is one table");
  ring::RealAtomics::store(memory.data() + Layout::kStateAt,
                           word_of(is_live ? Layout::State::Live : Layout::State::Ended),
                           std::memory_order_release);
}

}  // namespace weft::sa
