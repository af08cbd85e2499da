#include "wire/opa/mac_messages.h"

#include <array>
#include <span>

#include "base/assert.h"

namespace weft::wire {

Result<MacTableBlock> parse_mac_table(ByteSpan data) {
  const auto header = parse<MacTableHeader>(data);
  if (!header) {
    return std::unexpected(header.error());
  }
  if (!is_valid_block(*header)) {
    return fail(ErrorCode::InvalidArgument,
                "{} entries at {}: a message has at most {}, the table {}", header->entries,
                header->offset, kMaxEntriesInMessage, kMaxMacTableEntries);
  }
  MacTableBlock block{.offset = header->offset, .digest = header->digest, .entries = {}};
  ByteSpan rest = data.subspan(kSizeOf<MacTableHeader>);
  for (unsigned i = 0; i < header->entries; ++i) {
    const auto entry = parse<MacTableEntry>(rest);
    if (!entry) {
      return std::unexpected(entry.error());
    }
    block.entries.push_back(*entry);
    rest = rest.subspan(kSizeOf<MacTableEntry>);
  }
  return block;
}

std::vector<std::byte> to_data(const MacTableBlock& block) {
  WEFT_ASSERT(block.entries.size() <= kMaxEntriesInMessage, "who makes blocks knows their limit");
  std::vector<std::byte> data(kSizeOf<MacTableHeader> +
                              block.entries.size() * kSizeOf<MacTableEntry>);
  const std::span<std::byte> whole{data};
  pack(MacTableHeader{.offset = block.offset,
                      .entries = static_cast<std::uint16_t>(block.entries.size()),
                      .digest = block.digest},
       whole.first<kSizeOf<MacTableHeader>>());
  auto rest = whole.subspan(kSizeOf<MacTableHeader>);
  for (const MacTableEntry& entry : block.entries) {
    pack(entry, rest.first<kSizeOf<MacTableEntry>>());
    rest = rest.subspan(kSizeOf<MacTableEntry>);
  }
  return data;
}

Result<MacList> parse_mac_list(ByteSpan data) {
  const auto header = parse<MacListHeader>(data);
  if (!header) {
    return std::unexpected(header.error());
  }
  const ByteSpan rest = data.subspan(kSizeOf<MacListHeader>);
  if (rest.size() / MacAddress::kSize < header->in_message) {
    return fail(ErrorCode::Io, "a list of {} addresses has {} bytes", header->in_message,
                rest.size());
  }
  MacList list{
      .start = header->start, .total = header->total, .generation = header->generation, .macs = {}};
  for (std::size_t i = 0; i < header->in_message; ++i) {
    std::array<std::byte, MacAddress::kSize> octets{};
    copy_bytes(octets, rest.subspan(i * MacAddress::kSize, MacAddress::kSize));
    list.macs.emplace_back(octets);
  }
  return list;
}

std::vector<std::byte> to_data(const MacList& list) {
  WEFT_ASSERT(list.macs.size() <= kMaxMacsInMessage, "who makes lists knows their limit");
  const auto header = pack(MacListHeader{.start = list.start,
                                         .in_message = static_cast<std::uint16_t>(list.macs.size()),
                                         .total = list.total,
                                         .generation = list.generation});
  std::vector<std::byte> data{header.begin(), header.end()};
  for (const MacAddress& mac : list.macs) {
    data.insert(data.end(), mac.octets().begin(), mac.octets().end());
  }
  return data;
}

}  // namespace weft::wire
