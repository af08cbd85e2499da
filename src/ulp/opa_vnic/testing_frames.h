#pragma once

// Ethernet frames for tests.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wire/ethernet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/mac_address.h"
#include "wire/vlan.h"

namespace weft::opa_vnic::testing {

struct FrameText {
  std::uint64_t destination{};
  std::uint64_t source{};
  std::optional<std::uint8_t> priority{};
  std::uint16_t ether_type{0x88B5};  ///< for local experiments
  std::uint8_t protocol{};           ///< of IPv4 and IPv6
  std::uint16_t source_port{};
  std::uint32_t number{};  ///< at the end, so that a test knows its frames
  std::size_t bytes{100};  ///< at least what the headers need
};

template <class Header>
void append(std::vector<std::byte>& frame, const Header& header) {
  const auto packed = wire::pack(header);
  frame.insert(frame.end(), packed.begin(), packed.end());
}

[[nodiscard]] inline std::vector<std::byte> make_frame(const FrameText& text) {
  std::vector<std::byte> frame;
  append(frame,
         wire::Ethernet{.destination = wire::MacAddress::from_number(text.destination).octets(),
                        .source = wire::MacAddress::from_number(text.source).octets(),
                        .ether_type = text.priority ? wire::kEtherTypeVlan : text.ether_type});
  if (text.priority) {
    append(frame,
           wire::Vlan{.priority = *text.priority, .vlan_id = 1, .ether_type = text.ether_type});
  }
  if (text.ether_type == wire::kEtherTypeIpv4) {
    append(frame, wire::Ipv4{.protocol = text.protocol});
  } else if (text.ether_type == wire::kEtherTypeIpv6) {
    append(frame, wire::Ipv6{.next_header = text.protocol});
  }
  frame.push_back(static_cast<std::byte>(text.source_port >> 8));
  frame.push_back(static_cast<std::byte>(text.source_port));
  frame.resize(std::max(frame.size() + 4, text.bytes));
  for (std::size_t i = 0; i < 4; ++i) {
    frame[frame.size() - 1 - i] = static_cast<std::byte>(text.number >> (8 * i));
  }
  return frame;
}

/// FrameText::number of a frame that was not padded.
[[nodiscard]] inline std::uint32_t number_of(std::span<const std::byte> frame) {
  std::uint32_t number = 0;
  for (const std::byte octet : frame.last(4)) {
    number = number << 8 | std::to_integer<std::uint32_t>(octet);
  }
  return number;
}

}  // namespace weft::opa_vnic::testing
