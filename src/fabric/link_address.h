#pragma once

// Kinds of links and the addresses that a packet carries on them: 16-bit LIDs (InfiniBand), 24-bit
// extended LIDs (Omni-Path), or MAC addresses (Ethernet). fabric::validate refuses links of kinds
// other than InfiniBand until something can send on them. Values; no threads.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/identifiers.h"
#include "base/strong.h"

namespace weft::fabric {

enum class LinkType : std::uint8_t { InfiniBand = 1, Ethernet = 2, OmniPath = 3 };

/// The name in topology files.
[[nodiscard]] constexpr std::string_view name_of(LinkType type) {
  switch (type) {
    case LinkType::InfiniBand:
      return "InfiniBand";
    case LinkType::Ethernet:
      return "Ethernet";
    case LinkType::OmniPath:
      return "OmniPath";
  }
  return "reserved";
}

/// The inverse of name_of(); nullopt for an unknown name.
[[nodiscard]] constexpr std::optional<LinkType> find_link_type(std::string_view name) {
  for (const LinkType type : {LinkType::InfiniBand, LinkType::Ethernet, LinkType::OmniPath}) {
    if (name == name_of(type)) {
      return type;
    }
  }
  return std::nullopt;
}

using ExtendedLid = Ordered<struct ExtendedLidTag, std::uint32_t>;  // 24 bits
using MacAddress = std::array<std::uint8_t, 6>;

struct LidPair {
  Lid source;
  Lid destination;
  bool operator==(const LidPair&) const = default;
};

struct ExtendedLidPair {
  ExtendedLid source;
  ExtendedLid destination;
  bool operator==(const ExtendedLidPair&) const = default;
};

struct MacAddressPair {
  MacAddress source{};
  MacAddress destination{};
  bool operator==(const MacAddressPair&) const = default;
};

/// Source and destination address of a packet's link header.
class LinkAddress {
 public:
  constexpr LinkAddress(Lid source, Lid destination) : body_(LidPair{source, destination}) {}
  explicit constexpr LinkAddress(const ExtendedLidPair& lids) : body_(lids) {}
  explicit constexpr LinkAddress(const MacAddressPair& addresses) : body_(addresses) {}

  [[nodiscard]] constexpr LinkType type() const {
    constexpr std::array kTypes{LinkType::InfiniBand, LinkType::OmniPath, LinkType::Ethernet};
    return kTypes.at(body_.index());
  }
  /// Null unless the address is of that kind.
  [[nodiscard]] constexpr const LidPair* lids() const { return std::get_if<LidPair>(&body_); }
  [[nodiscard]] constexpr const ExtendedLidPair* extended_lids() const {
    return std::get_if<ExtendedLidPair>(&body_);
  }
  [[nodiscard]] constexpr const MacAddressPair* mac_addresses() const {
    return std::get_if<MacAddressPair>(&body_);
  }

  bool operator==(const LinkAddress&) const = default;

 private:
  std::variant<LidPair, ExtendedLidPair, MacAddressPair> body_;
};

}  // namespace weft::fabric
