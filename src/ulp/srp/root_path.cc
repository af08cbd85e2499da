#include "ulp/srp/root_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "ulp/srp/port_name.h"

namespace weft::srp {
namespace {

constexpr std::string_view kScheme = "ib_srp";
constexpr std::size_t kFields = 9;
constexpr std::array<std::string_view, kFields> kNames{
    "SGID",          "initiator id_ext", "initiator HCA GUID", "DGID", "P_Key", "service ID", "LUN",
    "target id_ext", "IOC GUID"};
constexpr std::array<std::size_t, kFields> kOctets{16, 8, 8, 16, 2, 8, 8, 8, 8};

using Value = std::array<std::byte, 16>;  // right-aligned

[[nodiscard]] std::uint64_t number(const Value& value) {
  std::uint64_t sum = 0;
  for (const std::byte octet : std::span{value}.subspan(8)) {
    sum = sum << 8 | std::to_integer<std::uint64_t>(octet);
  }
  return sum;
}

[[nodiscard]] Result<Value> parse_field(std::string_view text, std::size_t field) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != '-'; });
  if (digits.size() % 2 != 0) {
    digits.insert(digits.begin(), '0');
  }
  const auto value = parse_port_id(digits);
  if (!value || digits.size() > 2 * kOctets[field] || digits.starts_with("0x")) {
    return fail(ErrorCode::InvalidArgument, "the {} '{}' is not of up to {} hexadecimal digits",
                kNames[field], text, 2 * kOctets[field]);
  }
  return *value;
}

void set_half(wire::SrpPortId& id, std::size_t half, const Value& value) {
  std::copy_n(value.begin() + 8, 8, id.begin() + static_cast<std::ptrdiff_t>(8 * half));
}

void set_field(BootSession& session, std::size_t field, const Value& value) {
  switch (field) {
    case 0:
      session.source_gid = Gid{value};
      break;
    case 1:
      set_half(session.initiator_port_id, 0, value);
      break;
    case 2:
      set_half(session.initiator_port_id, 1, value);
      break;
    case 3:
      session.destination_gid = Gid{value};
      break;
    case 4:
      session.pkey = PKey{static_cast<std::uint16_t>(number(value))};
      break;
    case 5:
      session.service_id = number(value);
      break;
    case 6:
      session.lun = number(value);
      break;
    case 7:
      set_half(session.target_port_id, 0, value);
      break;
    default:
      set_half(session.target_port_id, 1, value);
      break;
  }
}

[[nodiscard]] std::string hex(ByteSpan octets) {
  std::string text;
  for (const std::byte octet : octets) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(octet));
  }
  return text;
}

[[nodiscard]] std::uint8_t sum_of(ByteSpan octets) {
  unsigned sum = 0;
  for (const std::byte octet : octets) {
    sum += std::to_integer<unsigned>(octet);
  }
  return static_cast<std::uint8_t>(sum);
}

template <std::size_t kBytes>
[[nodiscard]] std::array<std::byte, kBytes> text_of(std::string_view text) {
  std::array<std::byte, kBytes> octets{};
  copy_bytes(octets, std::as_bytes(std::span{text}).first(std::min(text.size(), kBytes)));
  return octets;
}

template <wire::WireType T>
[[nodiscard]] Result<T> part(ByteSpan table, std::uint16_t offset) {
  if (offset < wire::kSizeOf<wire::SrpBootTable> || offset > table.size()) {
    return fail(ErrorCode::Io, "the {} part at {} of a table of {} octets", T::kName, offset,
                table.size());
  }
  return wire::parse<T>(table.subspan(offset));
}

}  // namespace

Result<BootSession> parse_root_path(std::string_view path, const BootSession& defaults) {
  if (!path.starts_with(kScheme) || path.substr(kScheme.size(), 1) != ":") {
    return fail(ErrorCode::InvalidArgument, "'{}' does not begin with 'ib_srp:'", path);
  }
  BootSession session = defaults;
  std::string_view rest = path.substr(kScheme.size() + 1);
  for (std::size_t field = 0;; ++field) {
    if (field == kFields) {
      return fail(ErrorCode::InvalidArgument, "a root path has {} fields, '{}' has more", kFields,
                  path);
    }
    const std::size_t end = rest.find(':');
    const std::string_view text = rest.substr(0, end);
    if (!text.empty()) {
      const auto value = parse_field(text, field);
      if (!value) {
        return std::unexpected(value.error());
      }
      set_field(session, field, *value);
    }
    if (end == std::string_view::npos) {
      return session;
    }
    rest.remove_prefix(end + 1);
  }
}

std::string to_root_path(const BootSession& session) {
  const ByteSpan initiator{session.initiator_port_id};
  const ByteSpan target{session.target_port_id};
  return fmt::format("{}:{}:{}:{}:{}:{:04x}:{:016x}:{:016x}:{}:{}", kScheme,
                     hex(session.source_gid.octets()), hex(initiator.first(8)),
                     hex(initiator.last(8)), hex(session.destination_gid.octets()),
                     session.pkey.value(), session.service_id, session.lun, hex(target.first(8)),
                     hex(target.last(8)));
}

std::vector<std::byte> to_boot_table(const BootSession& session) {
  constexpr std::size_t kScsiAt = wire::kSizeOf<wire::SrpBootTable>;
  constexpr std::size_t kSrpAt = kScsiAt + wire::kSizeOf<wire::SrpBootScsiPart>;
  constexpr std::size_t kIbAt = kSrpAt + wire::kSizeOf<wire::SrpBootSrpPart>;
  constexpr std::size_t kBytes = kIbAt + wire::kSizeOf<wire::SrpBootIbPart>;
  using Offset = wire::LittleEndian<std::uint16_t>;
  wire::SrpBootTable head{.signature = text_of<4>("sBFT"),
                          .length = wire::LittleEndian<std::uint32_t>::of(kBytes),
                          .revision = 1,
                          .oem_id = text_of<6>("WEFT"),
                          .oem_table_id = text_of<8>("SRPBOOT"),
                          .scsi_offset = Offset::of(kScsiAt),
                          .srp_offset = Offset::of(kSrpAt),
                          .ib_offset = Offset::of(kIbAt)};
  std::vector<std::byte> table;
  const auto append = [&table](const auto& octets) {
    table.insert(table.end(), octets.begin(), octets.end());
  };
  append(wire::pack(head));
  append(wire::pack(wire::SrpBootScsiPart{.lun = session.lun}));
  append(wire::pack(wire::SrpBootSrpPart{.initiator_port_id = session.initiator_port_id,
                                         .target_port_id = session.target_port_id}));
  append(wire::pack(wire::SrpBootIbPart{.source_gid = session.source_gid,
                                        .destination_gid = session.destination_gid,
                                        .service_id = session.service_id,
                                        .pkey = session.pkey}));
  head.checksum = static_cast<std::uint8_t>(0x100 - sum_of(table));
  std::ranges::copy(wire::pack(head), table.begin());
  return table;
}

Result<BootSession> parse_boot_table(ByteSpan table) {
  const auto head = wire::parse<wire::SrpBootTable>(table);
  if (!head) {
    return std::unexpected(head.error());
  }
  if (head->signature != text_of<4>("sBFT")) {
    return fail(ErrorCode::Io, "the signature is not sBFT");
  }
  const std::size_t length = head->length.number();
  if (length < wire::kSizeOf<wire::SrpBootTable> || length > table.size()) {
    return fail(ErrorCode::Io, "a table of {} octets in {}", length, table.size());
  }
  table = table.first(length);
  if (sum_of(table) != 0) {
    return fail(ErrorCode::Io, "the checksum of the sBFT is wrong");
  }
  const auto scsi = part<wire::SrpBootScsiPart>(table, head->scsi_offset.number());
  const auto srp = part<wire::SrpBootSrpPart>(table, head->srp_offset.number());
  const auto ib = part<wire::SrpBootIbPart>(table, head->ib_offset.number());
  if (!scsi || !srp || !ib) {
    return std::unexpected(!scsi ? scsi.error() : !srp ? srp.error() : ib.error());
  }
  return BootSession{.source_gid = ib->source_gid,
                     .destination_gid = ib->destination_gid,
                     .pkey = ib->pkey,
                     .service_id = ib->service_id,
                     .lun = scsi->lun,
                     .initiator_port_id = srp->initiator_port_id,
                     .target_port_id = srp->target_port_id};
}

}  // namespace weft::srp
