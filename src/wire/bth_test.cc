#include "wire/bth.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(Bth, PacksAsCaptured) {  // part of T-PACK-2
  constexpr Bth kBth{.opcode = Opcode::RcRdmaWriteOnly,
                     .solicited = false,
                     .migrated = true,
                     .pad_count = 2,
                     .transport_version = 0,
                     .pkey = PKey{0x2487},
                     .fecn = false,
                     .becn = false,
                     .dest_qp = Qpn{0x87B1B3},
                     .ack_request = false,
                     .psn = Psn{0x0DEC2A}};
  constexpr auto kBytes = pack(kBth);
  static_assert(kBytes[0] == std::byte{0x0A});
  static_assert(kBytes[1] == std::byte{0x60});
  static_assert(unpack<Bth>(kBytes) == kBth);
}

}  // namespace
}  // namespace weft::wire
