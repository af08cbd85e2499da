// What APTPL keeps over a loss of power (SPC-4 §5.13.5), as octets of our own format:
//   0 "WPR1"   4 CRC-16 of what follows octet 8   6 zero   8 PRGENERATION   12 type, persists
//   14 index of the holder, FFFFh for none   16 registrations, each: key 8, port 2, all ports 1,
//   zero 1, length 2, TransportID

#include <algorithm>
#include <utility>

#include "scsi/protection.h"
#include "scsi/reservations.h"

namespace weft::scsi {
namespace {

constexpr std::uint32_t kMagic = 0x57505231;
constexpr std::size_t kImageHeaderBytes = 16;
constexpr std::size_t kEntryBytes = 14;
constexpr std::size_t kMaxTransportIdBytes = 1024;
constexpr std::uint16_t kNoHolder = 0xFFFF;

bool is_known_type(std::uint8_t type) {
  constexpr std::uint16_t kTypes = 0b1'1110'1011;  // bits 0, 1, 3, 5 to 8
  return type < 9 && (kTypes >> type & 1) != 0;
}

}  // namespace

std::vector<std::byte> Reservations::image() const {
  ParameterData data;
  data.add(4, kMagic).add(4, 0).add(4, generation_);
  const auto holder = std::ranges::find(registrations_, holder_, &Registration::nexus);
  const bool held = persists_ && is_reserved() && holder != registrations_.end();
  data.add(1, persists_ ? std::to_underlying(type_) : 0).add(1, persists_ ? 1 : 0);
  data.add(2, held ? static_cast<std::uint64_t>(holder - registrations_.begin()) : kNoHolder);
  for (const Registration& registration : registrations_) {
    if (!persists_) {
      break;
    }
    data.add(8, registration.key).add(2, registration.nexus.port.value());
    data.add(1, registration.all_ports ? 1 : 0).add(1, 0);
    data.add(2, registration.nexus.initiator.size()).add(registration.nexus.initiator);
  }
  data.set(4, 2, crc_t10_dif(data.octets().subspan(8)));
  return {data.octets().begin(), data.octets().end()};
}

Result<void> Reservations::restore(ByteSpan image) {
  if (image.size() < kImageHeaderBytes || load32(image, 0) != kMagic ||
      load16(image, 4) != crc_t10_dif(image.subspan(8)) || !is_known_type(load8(image, 12))) {
    return fail(ErrorCode::Io, "{} octets are no image of reservations", image.size());
  }
  std::vector<Registration> registrations;
  for (ByteSpan rest = image.subspan(kImageHeaderBytes); !rest.empty();) {
    const std::size_t length = rest.size() < kEntryBytes ? 0 : load16(rest, 12);
    if (length == 0 || length > kMaxTransportIdBytes || rest.size() - kEntryBytes < length ||
        registrations.size() == kMaxRegistrations) {
      return fail(ErrorCode::Io, "registration {} of the image is damaged", registrations.size());
    }
    const ByteSpan id = rest.subspan(kEntryBytes, length);
    registrations.push_back({
        .nexus = {.initiator = {id.begin(), id.end()}, .port = PortId{load16(rest, 8)}},
        .key = load64(rest, 0),
        .all_ports = load8(rest, 10) != 0
    });
    rest = rest.subspan(kEntryBytes + length);
  }
  const auto type = static_cast<ReservationType>(load8(image, 12));
  const std::uint16_t holder = load16(image, 14);
  const bool of_all = is_all_registrants(type);
  const bool needs_holder = type != ReservationType::None && !of_all;
  if (needs_holder != (holder != kNoHolder) || (needs_holder && holder >= registrations.size()) ||
      (of_all && registrations.empty())) {
    return fail(ErrorCode::Io, "the holder in the image is no registrant");
  }
  registrations_ = std::move(registrations);
  generation_ = load32(image, 8);
  persists_ = load8(image, 13) != 0;
  type_ = type;
  holder_ = needs_holder ? registrations_[holder].nexus : NexusName{};
  return {};
}

}  // namespace weft::scsi
