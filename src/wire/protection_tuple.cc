#include "wire/protection_tuple.h"

#include <isa-l/crc.h>

#include "base/wide_registers.h"

namespace weft::wire {

std::uint16_t crc_t10_dif(ByteSpan data, std::uint16_t seed) {
  if (data.empty()) {
    return seed;
  }
  const void* const octets = data.data();
  const std::uint16_t made =
      crc16_t10dif(seed, static_cast<const unsigned char*>(octets), data.size());
  leave_wide_registers();
  return made;
}

std::uint16_t ip_checksum(ByteSpan data, std::uint16_t seed) {
  std::uint64_t sum = seed;
  for (std::size_t i = 0; i < data.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum & 0xFFFF);
}

}  // namespace weft::wire
