#pragma once

// The MAC table of a virtual port: which LID a destination has, and which sources may send. A table
// never changes: a Set makes a new one, so that a reader sees all of the old or all of the new
// (R-VN-18).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "wire/mac_address.h"
#include "wire/opa/mac_messages.h"

namespace weft::opa_vnic {

inline constexpr std::uint16_t kMaxSourceMacEntries = 256;

class MacTable {
 public:
  /// An empty table, with digest 0.
  MacTable() = default;

  /// This table with a block of it replaced; entries without an address are deleted.
  /// OutOfMemory: more than kMaxSourceMacEntries would be for sources. The block lies in the table
  /// (wire::is_valid_block).
  [[nodiscard]] Result<std::shared_ptr<const MacTable>> with_block(
      const wire::MacTableBlock& block) const;

  /// `count` entries from `offset` on; where there is none, one of zeros.
  [[nodiscard]] wire::MacTableBlock block(std::uint16_t offset, std::uint16_t count) const;

  /// The DLID of a destination: of the entry with this address, else of the entry that fits by its
  /// mask, of these the one with most bits in the mask.
  [[nodiscard]] std::optional<std::uint32_t> find_destination(const wire::MacAddress& mac) const;
  /// Whether the table lists sources, and this address is none of them.
  [[nodiscard]] bool refuses_source(const wire::MacAddress& mac) const;

  [[nodiscard]] std::uint32_t digest() const { return digest_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::size_t kBuckets = 256;

  void index();

  std::map<std::uint16_t, wire::MacTableEntry> entries_;  // by place in the table
  std::uint32_t digest_{};
  // Of exact destinations, by the address's last octet, as the kernel's driver.
  std::array<std::vector<wire::MacTableEntry>, kBuckets> exact_;
  std::vector<wire::MacTableEntry> masked_;  // most bits first
  std::vector<wire::MacTableEntry> sources_;
};

}  // namespace weft::opa_vnic
