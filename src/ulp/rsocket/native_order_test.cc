#include "ulp/rsocket/native_order.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"
#include "ulp/rsocket/stream_protocol.h"

namespace weft::rsockets {
namespace {

/// As rdma-core has it: struct rs_sge { uint64_t addr; uint32_t key; uint32_t length; }.
TEST(NativeOrder, IsThatOfAStructureOfTheSameFields) {
  struct Sge {
    std::uint64_t address;
    std::uint32_t key;
    std::uint32_t length;
  };
  constexpr Sge kSge{.address = 0x0102'0304'0506'0708, .key = 0x090A'0B0C, .length = 0x0D0E'0F10};
  const Target target{.address = kSge.address, .key = kSge.key, .length = kSge.length};
  EXPECT_EQ(pack_native(target), (std::bit_cast<std::array<std::byte, kTargetBytes>>(kSge)));
}

/// struct rs_iomap { uint64_t offset; struct rs_sge sge; }.
TEST(NativeOrder, OfAMapEntryIsItsOffsetsThenTheBuffers) {
  struct Entry {
    std::uint64_t offset;
    std::uint64_t address;
    std::uint32_t key;
    std::uint32_t length;
  };
  constexpr Entry kEntry{.offset = 1, .address = 2, .key = 3, .length = 4};
  EXPECT_EQ(pack_native(IoMapEntry{.offset = 1, .address = 2, .key = 3, .length = 4}),
            (std::bit_cast<std::array<std::byte, kIoMapEntryBytes>>(kEntry)));
}

TEST(NativeOrder, RoundTrips) {
  Random random{7};
  for (int i = 0; i < 100; ++i) {
    const auto target = wire::arbitrary<Target>(random);
    EXPECT_EQ(unpack_native<Target>(pack_native(target)), target);
    const auto entry = wire::arbitrary<IoMapEntry>(random);
    EXPECT_EQ(unpack_native<IoMapEntry>(pack_native(entry)), entry);
  }
}

}  // namespace
}  // namespace weft::rsockets
