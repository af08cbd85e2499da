#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint8_t kProtocolTcp = 6;  // of Ipv4::protocol and Ipv6::next_header

/// TCP header without options (RFC 9293 §3.1).
struct Tcp {
  static constexpr std::string_view kName = "TCP";

  std::uint16_t source_port{};
  std::uint16_t destination_port{};
  std::uint32_t sequence{};
  std::uint32_t acknowledgment{};
  std::uint8_t header_dwords{5};  // options included
  std::uint8_t reserved{};
  bool cwr{};
  bool ece{};
  bool urg{};
  bool ack{};
  bool psh{};
  bool rst{};
  bool syn{};
  bool fin{};
  std::uint16_t window{};
  std::uint16_t checksum{};
  std::uint16_t urgent{};
  bool operator==(const Tcp&) const = default;

  // clang-format off
  using Wire = Layout<20,
      Field<"SourcePort", 16, &Tcp::source_port>,
      Field<"DestinationPort", 16, &Tcp::destination_port>,
      Field<"Sequence", 32, &Tcp::sequence>,
      Field<"Acknowledgment", 32, &Tcp::acknowledgment>,
      Field<"DataOffset", 4, &Tcp::header_dwords>,
      Field<"Rsrvd", 4, &Tcp::reserved>,
      Field<"CWR", 1, &Tcp::cwr>,
      Field<"ECE", 1, &Tcp::ece>,
      Field<"URG", 1, &Tcp::urg>,
      Field<"ACK", 1, &Tcp::ack>,
      Field<"PSH", 1, &Tcp::psh>,
      Field<"RST", 1, &Tcp::rst>,
      Field<"SYN", 1, &Tcp::syn>,
      Field<"FIN", 1, &Tcp::fin>,
      Field<"Window", 16, &Tcp::window>,
      Field<"Checksum", 16, &Tcp::checksum>,
      Field<"Urgent", 16, &Tcp::urgent>>;
  // clang-format on
};

}  // namespace weft::wire
