#include "wire/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace weft::wire {
namespace {

struct Wide {
  std::array<std::byte, 16> octets{};
  std::uint8_t lead{};
};
static_assert(
    Layout<17, Field<"Lead", 8, &Wide::lead>, Octets<"Octets", 16, &Wide::octets>>::is_aligned());
static_assert(!Layout<17, Field<"Lead", 4, &Wide::lead>, Octets<"Octets", 16, &Wide::octets>,
                      Reserved<4>>::is_aligned());
static_assert(!Layout<18, Field<"Lead", 8, &Wide::lead>,
                      Octets<"Octets", 16, &Wide::octets>>::tiles());  // T-PACK-3

struct Inner {
  [[maybe_unused]] static constexpr std::string_view kName = "Inner";
  std::uint8_t high{};
  std::uint16_t low{};
  bool operator==(const Inner&) const = default;
  // clang-format off
  using Wire = Layout<2, Field<"High", 4, &Inner::high>, Field<"Low", 12, &Inner::low>>;
  // clang-format on
};

struct Outer {
  [[maybe_unused]] static constexpr std::string_view kName = "Outer";
  std::uint8_t lead{};
  Inner inner;
  std::uint64_t tail{};
  bool operator==(const Outer&) const = default;
  // clang-format off
  using Wire = Layout<12,
      Field<"Lead", 8, &Outer::lead>,
      Nested<&Outer::inner>,
      Reserved<9>,
      Field<"Tail", 63, &Outer::tail>>;
  // clang-format on
};
static_assert(
    !Layout<3, Field<"Lead", 4, &Outer::lead>, Nested<&Outer::inner>, Reserved<4>>::is_aligned());

/// Bit by bit, most significant first.
[[nodiscard]] std::uint64_t bits_one_by_one(const std::byte* bytes, std::size_t at,
                                            unsigned width) {
  std::uint64_t value = 0;
  for (std::size_t bit = at; bit != at + width; ++bit) {
    value = value << 1 | (std::to_integer<std::uint64_t>(bytes[bit / 8]) >> (7 - bit % 8) & 1);
  }
  return value;
}

TEST(Layout, ReadsAndWritesEveryWidthAtEveryBitAndNothingBesideIt) {
  Random random{1};
  for (std::size_t at = 0; at < 64; ++at) {
    for (unsigned width = 1; width <= 64; ++width) {
      std::array<std::byte, 17> before{};
      std::ranges::generate(before, [&] { return static_cast<std::byte>(random()); });
      EXPECT_EQ(internal::read_bits(before.data(), at, width),
                bits_one_by_one(before.data(), at, width));
      const std::uint64_t value = random() & internal::mask_of(width);
      auto after = before;
      internal::write_bits(after.data(), at, width, value);
      EXPECT_EQ(bits_one_by_one(after.data(), at, width), value);
      for (std::size_t bit = 0; bit < after.size() * 8; ++bit) {
        if (bit < at || bit >= at + width) {
          EXPECT_EQ(bits_one_by_one(after.data(), bit, 1), bits_one_by_one(before.data(), bit, 1));
        }
      }
    }
  }
}

TEST(Layout, PacksAStructureInsideAnotherAtItsPlace) {
  const Outer outer{
      .lead = 0xAA, .inner = {.high = 0xB, .low = 0xCDE},
           .tail = 0x123
  };
  const auto bytes = pack(outer);
  EXPECT_EQ(bytes[0], std::byte{0xAA});
  EXPECT_EQ(bytes[1], std::byte{0xBC});
  EXPECT_EQ(bytes[2], std::byte{0xDE});
  EXPECT_EQ(bytes[10], std::byte{0x01});
  EXPECT_EQ(bytes[11], std::byte{0x23});
  EXPECT_EQ(unpack<Outer>(bytes), outer);
}

struct Seen {
  std::vector<std::string>& seen;
  void number(std::string_view name, unsigned bits, std::uint64_t value) {
    seen.push_back(fmt::format("{}:{}={:x}", name, bits, value));
  }
  void octets(std::string_view name, ByteSpan octets) {
    seen.push_back(fmt::format("{}:{}", name, octets.size()));
  }
};

TEST(Layout, VisitsTheFieldsOfANestedStructureAsItsOwn) {
  std::vector<std::string> seen;
  visit(
      Outer{
          .lead = 1, .inner = {.high = 2, .low = 3},
               .tail = 4
  },
      Seen{seen});
  EXPECT_EQ(seen, (std::vector<std::string>{"Lead:8=1", "High:4=2", "Low:12=3", "Tail:63=4"}));
}

struct Places {
  std::vector<std::string>& places;
  void number(std::string_view name, std::size_t at, unsigned bits, ByteSpan member) {
    places.push_back(fmt::format("{}@{}+{} of {}", name, at, bits, member.size()));
  }
  void octets(std::string_view name, std::size_t at, ByteSpan member) {
    places.push_back(fmt::format("{}@{}+{}", name, at, member.size() * 8));
  }
  void reserved(std::size_t at, unsigned bits) {
    places.push_back(fmt::format("@{}+{}", at, bits));
  }
};

TEST(Layout, LocatesEveryFieldReservedOnesToo) {
  std::vector<std::string> places;
  locate(Outer{}, Places{places});
  EXPECT_EQ(places, (std::vector<std::string>{"Lead@0+8 of 1", "High@8+4 of 1", "Low@12+12 of 2",
                                              "@24+9", "Tail@33+63 of 8"}));
}

}  // namespace
}  // namespace weft::wire
