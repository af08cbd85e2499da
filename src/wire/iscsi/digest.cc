#include "wire/iscsi/digest.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <climits>

#include "base/wide_registers.h"

namespace weft::wire::iscsi {

void Digest::add(ByteSpan piece) {
  // ISA-L takes the length as an int, and the data as not const, though it only reads it.
  while (!piece.empty()) {
    const ByteSpan part = piece.first(std::min<std::size_t>(piece.size(), INT_MAX / 2));
    const void* const data = part.data();
    state_ = crc32_iscsi(const_cast<unsigned char*>(static_cast<const unsigned char*>(data)),
                         static_cast<int>(part.size()), state_);
    leave_wide_registers();
    piece = piece.subspan(part.size());
  }
}

std::array<std::byte, Digest::kBytes> Digest::bytes() const {
  const std::uint32_t value = ~state_;
  return {static_cast<std::byte>(value), static_cast<std::byte>(value >> 8),
          static_cast<std::byte>(value >> 16), static_cast<std::byte>(value >> 24)};
}

}  // namespace weft::wire::iscsi
