#pragma once

// Kinds of links and the addresses that a packet carries on them: 16-bit LIDs (InfiniBand), 24-bit
// extended LIDs (Omni-Path), or MAC addresses (Ethernet). fabric::validate refuses Ethernet until
// something can send on it. Values; no threads.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/identifiers.h"
#include "base/strong.h"

namespace weft::fabric {

enum class LinkType : std::uint8_t { InfiniBand = 1, Ethernet = 2, OmniPath = 3 };

/// What a kind of link is called: in messages, and as the `link` of topology files.
struct LinkTypeNames {
  LinkType type{};
  std::string_view name;
  std::string_view key;
};

inline constexpr std::array<LinkTypeNames, 3> kLinkTypes = {
    {
     {LinkType::InfiniBand, "InfiniBand", "infiniband"},
     {LinkType::Ethernet, "Ethernet", "ethernet"},
     {LinkType::OmniPath, "OmniPath", "opa"},
     }
};

[[nodiscard]] constexpr std::string_view name_of(LinkType type) {
  for (const LinkTypeNames& row : kLinkTypes) {
    if (row.type == type) {
      return row.name;
    }
  }
  return "reserved";
}

/// The word of topology files.
[[nodiscard]] constexpr std::string_view key_of(LinkType type) {
  for (const LinkTypeNames& row : kLinkTypes) {
    if (row.type == type) {
      return row.key;
    }
  }
  return "reserved";
}

/// The inverse of name_of() and key_of(); nullopt for an unknown name.
[[nodiscard]] constexpr std::optional<LinkType> find_link_type(std::string_view name) {
  for (const LinkTypeNames& row : kLinkTypes) {
    if (name == row.name || name == row.key) {
      return row.type;
    }
  }
  return std::nullopt;
}

/// Omni-Path's local identifier, 24 bits. The ranges are those of the kernel's opa_addr.h: four set
/// bits on top mean more than one receiver, and a fifth a collective, which nothing here sends.
class ExtendedLid {
 public:
  using value_type = std::uint32_t;

  constexpr ExtendedLid() = default;
  constexpr explicit ExtendedLid(value_type value) : value_(value) {}

  [[nodiscard]] constexpr value_type value() const { return value_; }
  [[nodiscard]] constexpr bool is_unicast() const { return value_ >= 1 && value_ < kFirstGroup; }
  [[nodiscard]] constexpr bool is_multicast() const {
    return value_ >= kFirstGroup && value_ < kFirstCollective;
  }
  [[nodiscard]] constexpr bool is_permissive() const { return value_ == kPermissive; }

  static constexpr value_type kFirstGroup = 0xF0'0000;
  static constexpr value_type kFirstCollective = 0xF8'0000;
  static constexpr value_type kPermissive = 0xFF'FFFF;

  friend constexpr auto operator<=>(ExtendedLid, ExtendedLid) = default;

 private:
  value_type value_{};
};

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
