#include "wire/field.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {
namespace {

// A 16-byte structure written by hand, as users of ib_pack would.
struct Sample {
  std::uint8_t version;
  std::uint32_t flow;
  std::uint64_t id;
  std::array<std::byte, 12> name;
};

constexpr std::array kSample{
    FieldDescriptor{offsetof(Sample, version), 1, 0, 0, 4, "version", false},
    FieldDescriptor{0, 0, 0, 4, 8, "reserved", false},
    FieldDescriptor{offsetof(Sample, flow), 4, 0, 12, 20, "flow", false},
    FieldDescriptor{offsetof(Sample, id), 8, 1, 0, 64, "id", false},
    FieldDescriptor{offsetof(Sample, name), 12, 3, 8, 96, "name", false}
};
static_assert(is_sound(kSample));

template <std::size_t kIndex>
constexpr auto changed(FieldDescriptor to) {
  auto fields = kSample;
  fields[kIndex] = to;
  return fields;
}

// T-PACK-3: overlapping and unsuitable descriptors fail to compile.
static_assert(!is_sound(changed<2>({offsetof(Sample, flow), 4, 0, 11, 20, "overlaps", false})));
static_assert(!is_sound(changed<3>({offsetof(Sample, id), 4, 1, 0, 64, "too wide", false})));
static_assert(!is_sound(changed<3>({offsetof(Sample, id), 3, 1, 0, 24, "no number", false})));
static_assert(!is_sound(changed<4>({offsetof(Sample, name), 12, 3, 4, 96, "misaligned", false})));
static_assert(!is_sound(changed<4>({offsetof(Sample, name), 12, 3, 8, 95, "rounded", false})));
static_assert(!is_sound(changed<0>({offsetof(Sample, version), 1, 0, 32, 4, "beyond the word",
                                    false})));
static_assert(!is_sound(changed<0>({offsetof(Sample, version), 1, 0, 0, 0, "empty", false})));

TEST(IbPack, MovesFieldsBothWays) {  // R-PACK-1, R-PACK-2
  Sample from{.version = 6, .flow = 0x12345, .id = 0x0102'0304'0506'0708, .name = {}};
  from.name.fill(std::byte{0x5A});
  std::array<std::byte, 26> buffer;
  buffer.fill(std::byte{0xFF});
  ib_pack(kSample, &from, buffer);
  constexpr std::array kStart{0x60, 0x01, 0x23, 0x45, 1, 2, 3, 4, 5, 6, 7, 8};
  for (std::size_t i = 0; i < kStart.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(buffer[i]), kStart[i]) << "byte " << i;
  }
  EXPECT_EQ(buffer[12], std::byte{0xFF}) << "bits of no field stay as they were";
  EXPECT_EQ(buffer[13], std::byte{0x5A});
  EXPECT_EQ(buffer[24], std::byte{0x5A});
  EXPECT_EQ(buffer[25], std::byte{0xFF});
  buffer[0] = std::byte{0x6F};  // reserved bits on the wire are nobody's
  Sample to{};
  ib_unpack(kSample, buffer, &to);
  EXPECT_EQ(to.version, from.version);
  EXPECT_EQ(to.flow, from.flow);
  EXPECT_EQ(to.id, from.id);
  EXPECT_EQ(to.name, from.name);
}

}  // namespace
}  // namespace weft::wire
