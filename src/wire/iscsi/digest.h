#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace weft::wire::iscsi {

/// Header and data digests (RFC 7143 §13.1): CRC-32C over pieces in order.
class Digest {
 public:
  static constexpr std::size_t kBytes = 4;

  void add(ByteSpan piece);

  /// The four octets in wire order.
  [[nodiscard]] std::array<std::byte, kBytes> bytes() const;

 private:
  std::uint32_t state_{0xFFFF'FFFF};
};

}  // namespace weft::wire::iscsi
