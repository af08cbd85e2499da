#include "wire/wire_types.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/testing/golden.h"

namespace weft::wire {
namespace {

template <class T>
class WireStructure : public ::testing::Test {};

struct StructureName {
  template <class T>
  static std::string GetName(int) {
    std::string name{T::kName};
    std::ranges::replace(name, ' ', '_');
    // A filter of tests takes '-' for the begin of what it leaves out.
    std::ranges::replace(name, '-', '_');
    return name;
  }
};
TYPED_TEST_SUITE(WireStructure, AllWireTypes::As<::testing::Types>, StructureName);

TYPED_TEST(WireStructure, RoundTrips) {  // R-PACK-3, part of T-PACK-1
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    const auto value = arbitrary<TypeParam>(random);
    const auto bytes = pack(value);
    ASSERT_EQ(unpack<TypeParam>(bytes), value);
  }
}

/// One bit for each bit of the structure: whether a named field has it.
template <WireType T>
std::vector<bool> named_bits() {
  struct Mark {
    std::vector<bool>& bits;
    void number(std::string_view, std::size_t at, unsigned width, ByteSpan) { mark(at, width); }
    void octets(std::string_view, std::size_t at, ByteSpan member) { mark(at, member.size() * 8); }
    void reserved(std::size_t, unsigned) {}
    void mark(std::size_t at, std::size_t width) {
      for (std::size_t i = at; i < at + width; ++i) {
        EXPECT_FALSE(bits[i]) << "two fields have bit " << i;
        bits[i] = true;
      }
    }
  };
  std::vector<bool> bits(kSizeOf<T> * 8);
  locate(T{}, Mark{bits});
  return bits;
}

TYPED_TEST(WireStructure, SendsReservedBitsAsZeroAndIgnoresThemOnReceipt) {  // R-PACK-2
  std::array<std::byte, kSizeOf<TypeParam>> ones{};
  ones.fill(std::byte{0xFF});
  const auto packed = pack(unpack<TypeParam>(ones));
  const std::vector<bool> named = named_bits<TypeParam>();
  for (std::size_t bit = 0; bit < named.size(); ++bit) {
    const bool sent = (packed[bit / 8] & static_cast<std::byte>(0x80U >> bit % 8)) != std::byte{};
    ASSERT_EQ(sent, named[bit]) << "bit " << bit;
  }
}

TYPED_TEST(WireStructure, RefusesTooFewBytes) {
  const std::array<std::byte, kSizeOf<TypeParam>> bytes{};
  EXPECT_TRUE(parse<TypeParam>(bytes).has_value());
  const auto refused = parse<TypeParam>(std::span{bytes}.first(bytes.size() - 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason.find(TypeParam::kName), 0U) << refused.error().reason;
}

TEST(WireTypes, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  AllWireTypes::for_each([&]<class T>() { names.insert(T::kName); });
  EXPECT_EQ(names.size(), AllWireTypes::kCount);
}

/// One line a field: structure, field, bit offset, width in bits.
std::string dump_of_all_layouts() {
  struct Lines {
    std::string& text;
    std::string_view structure;
    void line(std::string_view field, std::size_t at, std::size_t width) {
      text += fmt::format("{}, {}, {}, {}\n", structure, field, at, width);
    }
    void number(std::string_view name, std::size_t at, unsigned width, ByteSpan) {
      line(name, at, width);
    }
    void octets(std::string_view name, std::size_t at, ByteSpan member) {
      line(name, at, member.size() * 8);
    }
    void reserved(std::size_t at, unsigned width) { line("reserved", at, width); }
  };
  std::string text;
  AllWireTypes::for_each([&]<class T>() { locate(T{}, Lines{text, T::kName}); });
  return text;
}

TEST(WireTypes, LieAsInTheGoldenLayouts) {
  const std::string path = weft::testing::golden("layouts.txt");
  const std::string dump = dump_of_all_layouts();
  if (std::getenv("WEFT_WRITE_GOLDEN") != nullptr) {
    std::ofstream{path} << dump;
  }
  std::ifstream file{path};
  ASSERT_TRUE(file) << path;
  const std::string golden{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(dump, golden)
      << "a deliberate change: run this test with WEFT_WRITE_GOLDEN=1, and read "
         "the difference against the specification";
}

}  // namespace
}  // namespace weft::wire
