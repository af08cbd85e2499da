#pragma once

// The VEMA attributes whose length depends on a count: blocks of the MAC table, and lists of an
// interface's MACs. Input is not trusted. Value types.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/layout.h"
#include "wire/mac_address.h"

namespace weft::wire {

/// Octets of an attribute in a VEMA MAD.
inline constexpr std::size_t kVemaDataBytes = 2008;
inline constexpr std::size_t kMaxMacTableEntries = 2048;

/// An entry of the MAC table (opa_veswport_mactable_entry). An address of zero deletes.
struct MacTableEntry {
  static constexpr std::string_view kName = "OPA MAC table entry";
  static constexpr std::uint8_t kSourceMac = 0x20;  ///< bit 5 of the side data

  MacAddress mac{};
  MacAddress mask{};
  std::uint32_t dlid{};  ///< 24 bits
  std::uint8_t side_data{};
  bool operator==(const MacTableEntry&) const = default;

  /// The entry allows an address as a source, and does not say where to send to it.
  [[nodiscard]] constexpr bool is_source() const { return (side_data & kSourceMac) != 0; }

  // clang-format off
  using Wire = Layout<16,
      Octets<"MAC", 6, &MacTableEntry::mac>,
      Octets<"Mask", 6, &MacTableEntry::mask>,
      Field<"DLID", 24, &MacTableEntry::dlid>,
      Field<"SideData", 8, &MacTableEntry::side_data>>;
  // clang-format on
};

/// The head of a block of the MAC table (opa_veswport_mactable).
struct MacTableHeader {
  static constexpr std::string_view kName = "OPA MAC table";

  std::uint16_t offset{};  ///< of the first entry in the table
  std::uint16_t entries{};
  std::uint32_t digest{};  ///< the manager's, of the whole table
  bool operator==(const MacTableHeader&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"Offset", 16, &MacTableHeader::offset>,
      Field<"NumEntries", 16, &MacTableHeader::entries>,
      Field<"MACTableDigest", 32, &MacTableHeader::digest>>;
  // clang-format on
};

/// The head of a list of an interface's MACs (opa_veswport_iface_macs).
struct MacListHeader {
  static constexpr std::string_view kName = "OPA interface MACs";

  std::uint16_t start{};
  std::uint16_t in_message{};
  std::uint16_t total{};
  std::uint16_t generation{};
  bool operator==(const MacListHeader&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"StartIndex", 16, &MacListHeader::start>,
      Field<"NumMACsInMessage", 16, &MacListHeader::in_message>,
      Field<"TotalMACsInList", 16, &MacListHeader::total>,
      Field<"GenCount", 16, &MacListHeader::generation>>;
  // clang-format on
};

inline constexpr std::size_t kMaxEntriesInMessage =
    (kVemaDataBytes - kSizeOf<MacTableHeader>) / kSizeOf<MacTableEntry>;  // 125
inline constexpr std::size_t kMaxMacsInMessage =
    (kVemaDataBytes - kSizeOf<MacListHeader>) / MacAddress::kSize;  // 333

/// Whether such a block lies in the table and fits a message (vema_mac_tbl_req_ok, R-VN-6).
[[nodiscard]] constexpr bool is_valid_block(const MacTableHeader& header) {
  return header.entries <= kMaxEntriesInMessage &&
         std::size_t{header.offset} + header.entries <= kMaxMacTableEntries;
}

struct MacTableBlock {
  std::uint16_t offset{};
  std::uint32_t digest{};
  std::vector<MacTableEntry> entries;
  bool operator==(const MacTableBlock&) const = default;
};

struct MacList {
  std::uint16_t start{};
  std::uint16_t total{};
  std::uint16_t generation{};
  std::vector<MacAddress> macs;
  bool operator==(const MacList&) const = default;
};

/// Fails unless is_valid_block() and the data has all entries.
[[nodiscard]] Result<MacTableBlock> parse_mac_table(ByteSpan data);
/// At most kMaxEntriesInMessage entries (asserted).
[[nodiscard]] std::vector<std::byte> to_data(const MacTableBlock& block);

/// Fails if the data has fewer addresses than it says.
[[nodiscard]] Result<MacList> parse_mac_list(ByteSpan data);
/// At most kMaxMacsInMessage addresses (asserted).
[[nodiscard]] std::vector<std::byte> to_data(const MacList& list);

}  // namespace weft::wire
