#pragma once

// What is kept of a SANITIZE over a loss of power, after which it goes on, or is still known to
// have failed (SBC-3 §4.11.2, §4.11.3). Value types.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::scsi {

struct SanitizeMark {
  bool failed{};    ///< it is not to go on; else it begins again, with its first pass
  bool erases{};    ///< BLOCK ERASE; else OVERWRITE
  bool inverts{};   ///< OVERWRITE: the pattern, from pass to pass
  bool may_exit{};  ///< AUSE
  std::uint8_t passes{1};
  std::vector<std::byte> pattern{};  ///< OVERWRITE: a block
  bool operator==(const SanitizeMark&) const = default;

  [[nodiscard]] std::vector<std::byte> image() const;
  /// Io: these octets are none.
  [[nodiscard]] static Result<SanitizeMark> parse(ByteSpan image);
};

}  // namespace weft::scsi
