#include "scsi/mode_pages.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace weft::scsi {
namespace {

// A page's code, its length with header, and how it is made from values and read back.
struct Page {
  std::uint8_t code;
  std::size_t bytes;
  void (*put)(MutableByteSpan page, const ModeValues& values, const ModeFacts& facts);
  void (*get)(ByteSpan page, ModeValues& values);
};

constexpr std::size_t kMaxPageBytes = 20;

bool bit(ByteSpan page, std::size_t octet, unsigned number) {
  return (load8(page, octet) >> number & 1u) != 0;
}

void put_caching(MutableByteSpan page, const ModeValues& values, const ModeFacts& /*facts*/) {
  store_number(page, 2, 1, values.write_cache ? 0x04 : 0);  // SBC-3 §6.4.5: WCE
}
void get_caching(ByteSpan page, ModeValues& values) { values.write_cache = bit(page, 2, 2); }

void put_control(MutableByteSpan page, const ModeValues& values, const ModeFacts& facts) {
  // SPC-4 §7.5.7. QUEUE ALGORITHM MODIFIER 0: see range_locks.h.
  store_number(page, 2, 1, values.descriptor_sense ? 0x04 : 0);
  store_number(page, 3, 1, static_cast<std::uint64_t>(values.queue_error) << 1);
  store_number(page, 4, 1, values.software_write_protect ? 0x08 : 0);
  store_number(page, 5, 1,
               (values.task_aborted_status ? 0x40u : 0) | (facts.protection_tags_kept ? 0x80u : 0));
}
void get_control(ByteSpan page, ModeValues& values) {
  values.descriptor_sense = bit(page, 2, 2);
  values.queue_error = load8(page, 3) >> 1 & 3;
  values.software_write_protect = bit(page, 4, 3);
  values.task_aborted_status = bit(page, 5, 6);
}

constexpr auto kPages = std::to_array<Page>({
    {0x08, 20, put_caching, get_caching},
    {0x0A, 12, put_control, get_control},
});

constexpr ModeValues kChangeable{.write_cache = true,
                                 .descriptor_sense = true,
                                 .task_aborted_status = true,
                                 .software_write_protect = true,
                                 .queue_error = 3};
constexpr std::uint8_t kAllPages = 0x3F;
constexpr std::uint8_t kAllSubpages = 0xFF;

using PageBytes = std::array<std::byte, kMaxPageBytes>;

PageBytes make_page(const Page& page, const ModeValues& values, const ModeFacts& facts) {
  PageBytes octets{};
  store_number(octets, 0, 1, page.code);
  store_number(octets, 1, 1, page.bytes - 2);
  page.put(MutableByteSpan{octets}.first(page.bytes), values, facts);
  return octets;
}

// Long LBA mode parameter block descriptor, or the short one (SBC-3 §6.4.2).
void add_descriptor(ParameterData& data, bool long_lba, const ModeFacts& facts) {
  if (long_lba) {
    data.add(8, facts.blocks).add(4, 0).add(4, facts.block_bytes);
    return;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  data.add(4, std::min(facts.blocks, kMost)).add(4, facts.block_bytes);
}

// Where the pages of a parameter list begin, and whether its header and descriptor can be accepted.
Outcome<std::size_t> parse_header(bool ten, ByteSpan list, const ModeFacts& facts) {
  const std::size_t header = ten ? 8 : 4;
  if (list.size() < header) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const std::size_t descriptors = ten ? load16(list, 6) : load8(list, 3);
  const bool long_lba = ten && bit(list, 4, 0);
  if (descriptors == 0) {
    return header;
  }
  if (descriptors != (long_lba ? 16u : 8u)) {
    return invalid_field_in_parameters(ten ? 6 : 3);
  }
  if (list.size() < header + descriptors) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  // Neither the number of blocks nor their size can be changed here; 0 and all ones mean: as it is.
  const std::uint64_t blocks = load_number(list, header, long_lba ? 8 : 4);
  const std::uint64_t all_ones = long_lba ? std::numeric_limits<std::uint64_t>::max()
                                          : std::numeric_limits<std::uint32_t>::max();
  if (blocks != 0 && blocks != all_ones && blocks != facts.blocks) {
    return invalid_field_in_parameters(header);
  }
  const std::uint64_t bytes = load_number(list, header + descriptors - 3, 3);
  if (bytes != 0 && bytes != facts.block_bytes) {
    return invalid_field_in_parameters(header + descriptors - 3);
  }
  return header + descriptors;
}

// A page may only differ from the current one in changeable bits (SPC-4 §6.10).
std::optional<std::size_t> first_refused(const Page& page, ByteSpan sent, const ModeValues& values,
                                         const ModeFacts& facts) {
  const PageBytes current = make_page(page, values, facts);
  const PageBytes changeable = make_page(page, kChangeable, {});
  for (std::size_t i = 2; i < page.bytes; ++i) {
    if (((sent[i] ^ current[i]) & ~changeable[i]) != std::byte{0}) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Outcome<ParameterData> ModePages::sense(const ModeSenseRequest& request,
                                        const ModeFacts& facts) const {
  if (request.control == PageControl::Saved) {
    return illegal_request(SenseCode::SavingParametersNotSupported);
  }
  const bool all = request.page == kAllPages;
  if (request.subpage != 0 && !(all && request.subpage == kAllSubpages)) {
    return invalid_field_in_cdb(3, 7);
  }
  ModeValues values = values_;
  ModeFacts page_facts = facts;
  if (request.control == PageControl::Changeable) {
    values = kChangeable;
    page_facts = {};
  } else if (request.control == PageControl::Default) {
    values = defaults_;
  }
  const bool protect = facts.read_only || values_.software_write_protect;
  const std::uint8_t specific = (protect ? 0x80 : 0) | 0x10;  // WP, DPOFUA (SBC-3 §6.4.1)
  const std::size_t descriptor = request.no_descriptors ? 0 : request.long_lba ? 16 : 8;
  ParameterData data;
  if (request.ten) {
    data.add(2, 0).add(1, 0).add(1, specific).add(1, descriptor == 16 ? 1 : 0).add(1, 0);
    data.add(2, descriptor);
  } else {
    data.add(1, 0).add(1, 0).add(1, specific).add(1, descriptor);
  }
  if (descriptor != 0) {
    add_descriptor(data, request.long_lba, facts);
  }
  bool found = all;
  for (const Page& page : kPages) {
    if (all || page.code == request.page) {
      data.add(ByteSpan{make_page(page, values, page_facts)}.first(page.bytes));
      found = true;
    }
  }
  if (!found) {
    return invalid_field_in_cdb(2, 5);
  }
  data.set(0, request.ten ? 2 : 1, data.size() - (request.ten ? 2 : 1));
  return data;
}

Outcome<bool> ModePages::select(bool ten, ByteSpan parameters, const ModeFacts& facts) {
  if (parameters.empty()) {
    return false;  // SPC-4 §6.10: no error, nothing changes
  }
  const Outcome<std::size_t> begin = parse_header(ten, parameters, facts);
  if (!begin) {
    return std::unexpected(begin.error());
  }
  ModeValues values = values_;
  for (std::size_t at = *begin; at < parameters.size();) {
    const ByteSpan rest = parameters.subspan(at);
    const std::uint8_t code = load8(rest, 0) & 0x3F;
    const auto page = std::ranges::find(kPages, code, &Page::code);
    if (page == kPages.end() || (load8(rest, 0) & 0x40) != 0) {  // or SPF: no subpages here
      return invalid_field_in_parameters(at);
    }
    if (rest.size() < 2 || rest.size() < page->bytes) {
      return illegal_request(SenseCode::ParameterListLengthError);
    }
    if (load8(rest, 1) != page->bytes - 2) {
      return invalid_field_in_parameters(at + 1);
    }
    if (const auto refused = first_refused(*page, rest, values_, facts)) {
      return invalid_field_in_parameters(at + *refused);
    }
    page->get(rest.first(page->bytes), values);
    if (values.queue_error == 2) {  // reserved
      return invalid_field_in_parameters(at + 3);
    }
    at += page->bytes;
  }
  const bool changed = values != values_;
  values_ = values;
  return changed;
}

}  // namespace weft::scsi
