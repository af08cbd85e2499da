#include "ulp/ipoib/listening.h"

#include <algorithm>
#include <array>

#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/layout.h"

namespace weft::ipoib {
namespace {

constexpr std::uint8_t kProtocolIgmp = 2;
constexpr std::uint8_t kProtocolIcmpv6 = 58;
constexpr std::uint8_t kHopByHop = 0;
constexpr std::size_t kIpv4GroupBytes = 4;
constexpr std::size_t kIpv6GroupBytes = 16;

// Types of messages.
constexpr std::uint8_t kIgmpReportV1 = 0x12;
constexpr std::uint8_t kIgmpReportV2 = 0x16;
constexpr std::uint8_t kIgmpLeave = 0x17;
constexpr std::uint8_t kIgmpReportV3 = 0x22;
constexpr std::uint8_t kMldReport = 131;
constexpr std::uint8_t kMldDone = 132;
constexpr std::uint8_t kMldReportV2 = 143;

/// Types of records (RFC 3376 §4.2.12, RFC 3810 §5.2.12).
enum class RecordType : std::uint8_t {
  IsInclude = 1,
  IsExclude = 2,
  ToInclude = 3,
  ToExclude = 4,
  AllowNewSources = 5,
  BlockOldSources = 6,
};

[[nodiscard]] std::uint8_t octet(ByteSpan bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}
[[nodiscard]] std::uint16_t number16(ByteSpan bytes, std::size_t at) {
  return static_cast<std::uint16_t>(octet(bytes, at) << 8 | octet(bytes, at + 1));
}

template <std::size_t kBytes>
[[nodiscard]] IpAddress address_at(ByteSpan bytes, std::size_t at) {
  std::array<std::byte, kBytes> octets{};
  copy_bytes(octets, bytes.subspan(at, kBytes));
  return IpAddress{octets};
}

/// Whether a group is listened to after such a record. An empty list of sources to include is
/// nobody; blocked sources leave the group as it is, which is listened to.
[[nodiscard]] bool is_member(std::uint8_t type, std::size_t sources) {
  const auto record = static_cast<RecordType>(type);
  return (record != RecordType::IsInclude && record != RecordType::ToInclude) || sources != 0;
}

/// The records of IGMPv3 and MLDv2 reports, which differ in the length of addresses only.
template <std::size_t kBytes>
std::vector<Listening> records_of(ByteSpan report) {
  constexpr std::size_t kHead = 8;
  constexpr std::size_t kRecordHead = 4;
  constexpr std::size_t kWord = 4;
  std::vector<Listening> listenings;
  if (report.size() < kHead) {
    return listenings;
  }
  std::size_t count = std::min<std::size_t>(number16(report, 6), kMaxReportedGroups);
  for (ByteSpan rest = report.subspan(kHead); count != 0 && rest.size() >= kRecordHead + kBytes;
       --count) {
    const std::size_t sources = number16(rest, 2);
    const std::size_t bytes =
        kRecordHead + kBytes + sources * kBytes + std::size_t{octet(rest, 1)} * kWord;
    if (bytes > rest.size()) {
      break;
    }
    const IpAddress group = address_at<kBytes>(rest, kRecordHead);
    if (group.is_multicast()) {
      listenings.push_back({.group = group, .is_member = is_member(octet(rest, 0), sources)});
    }
    rest = rest.subspan(bytes);
  }
  return listenings;
}

template <std::size_t kBytes>
std::vector<Listening> single_group(ByteSpan message, std::size_t at, bool is_member) {
  if (message.size() < at + kBytes) {
    return {};
  }
  const IpAddress group = address_at<kBytes>(message, at);
  return group.is_multicast() ? std::vector{Listening{group, is_member}}
                              : std::vector<Listening>{};
}

std::vector<Listening> look_at_igmp(ByteSpan message) {
  constexpr std::size_t kGroupAt = 4;
  switch (message.empty() ? 0 : octet(message, 0)) {
    case kIgmpReportV1:
    case kIgmpReportV2:
      return single_group<kIpv4GroupBytes>(message, kGroupAt, true);
    case kIgmpLeave:
      return single_group<kIpv4GroupBytes>(message, kGroupAt, false);
    case kIgmpReportV3:
      return records_of<kIpv4GroupBytes>(message);
    default:
      return {};
  }
}

std::vector<Listening> look_at_mld(ByteSpan message) {
  constexpr std::size_t kGroupAt = 8;
  switch (message.empty() ? 0 : octet(message, 0)) {
    case kMldReport:
      return single_group<kIpv6GroupBytes>(message, kGroupAt, true);
    case kMldDone:
      return single_group<kIpv6GroupBytes>(message, kGroupAt, false);
    case kMldReportV2:
      return records_of<kIpv6GroupBytes>(message);
    default:
      return {};
  }
}

std::vector<Listening> look_at_ipv4(ByteSpan packet) {
  const auto header = wire::parse<wire::Ipv4>(packet);
  const std::size_t length = header ? std::size_t{header->header_dwords} * 4 : 0;
  if (!header || header->protocol != kProtocolIgmp || length < wire::kSizeOf<wire::Ipv4> ||
      length > packet.size()) {
    return {};
  }
  return look_at_igmp(packet.subspan(length));
}

/// MLD comes behind a hop-by-hop header with the router alert option (RFC 3810 §5).
std::vector<Listening> look_at_ipv6(ByteSpan packet) {
  constexpr std::size_t kUnit = 8;
  const auto header = wire::parse<wire::Ipv6>(packet);
  if (!header) {
    return {};
  }
  ByteSpan rest = packet.subspan(wire::kSizeOf<wire::Ipv6>);
  std::uint8_t next = header->next_header;
  if (next == kHopByHop && rest.size() >= kUnit) {
    next = octet(rest, 0);
    const std::size_t length = (std::size_t{octet(rest, 1)} + 1) * kUnit;
    rest = rest.subspan(std::min(length, rest.size()));
  }
  return next == kProtocolIcmpv6 ? look_at_mld(rest) : std::vector<Listening>{};
}

[[nodiscard]] unsigned version_of(ByteSpan packet) {
  return packet.empty() ? 0 : octet(packet, 0) >> 4;
}

}  // namespace

std::vector<Listening> listenings_of(ByteSpan ip_packet) {
  switch (version_of(ip_packet)) {
    case 4:
      return look_at_ipv4(ip_packet);
    case 6:
      return look_at_ipv6(ip_packet);
    default:
      return {};
  }
}

std::optional<IpEnds> ends_of(ByteSpan ip_packet) {
  if (version_of(ip_packet) == 4) {
    const auto header = wire::parse<wire::Ipv4>(ip_packet);
    if (header && header->total_length <= ip_packet.size() &&
        header->total_length >= wire::kSizeOf<wire::Ipv4>) {
      return IpEnds{.source = IpAddress{header->source},
                    .destination = IpAddress{header->destination}};
    }
  } else if (version_of(ip_packet) == 6) {
    const auto header = wire::parse<wire::Ipv6>(ip_packet);
    if (header && wire::kSizeOf<wire::Ipv6> + header->payload_length <= ip_packet.size()) {
      return IpEnds{.source = IpAddress{header->source},
                    .destination = IpAddress{header->destination}};
    }
  }
  return std::nullopt;
}

}  // namespace weft::ipoib
