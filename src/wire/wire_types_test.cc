#include "wire/wire_types.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/testing/golden.h"
#include "wire/field.h"

namespace weft::wire {
namespace {

template <WireType T>
void expect_round_trips() {
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    const auto value = arbitrary<T>(random);
    ASSERT_TRUE(unpack<T>(pack(value)) == value) << T::kName << ", value " << i;
  }
}

TEST(WireStructure, RoundTrips) {  // R-PACK-3, part of T-PACK-1
  AllWireTypes::for_each([]<class T>() { expect_round_trips<T>(); });
}

/// What users of ib_pack describe at run time says of the type what its layout says.
template <WireType T>
void expect_descriptors_agree() {
  const auto fields = descriptors_of<T>();
  ASSERT_TRUE(is_sound(fields)) << T::kName;
  Random random{7};
  for (int i = 0; i < 200; ++i) {
    const auto value = arbitrary<T>(random);
    std::array<std::byte, kSizeOf<T>> bytes;
    bytes.fill(static_cast<std::byte>(random()));
    ib_pack(fields, &value, bytes);
    ASSERT_TRUE(bytes == pack(value)) << T::kName << ", value " << i;
    T back{};
    ib_unpack(fields, bytes, &back);
    ASSERT_TRUE(back == value) << T::kName << ", value " << i;
  }
}

TEST(Descriptors, SayTheSameAsTheLayout) {  // R-PACK-3, part of T-PACK-1
  AllWireTypes::for_each([]<class T>() { expect_descriptors_agree<T>(); });
}

/// Where a field lies, in bits. That of reserved bits has no name.
struct Place {
  std::string_view field;
  std::size_t at = 0;
  std::size_t width = 0;
};

/// What locate() reports, of every structure by one visitor: each more is compiled for each of
/// them.
class Places {
 public:
  template <WireType T>
  static std::vector<Place> of() {
    Places places;
    locate(T{}, places);
    return std::move(places.places_);
  }

  void number(std::string_view field, std::size_t at, unsigned width, ByteSpan) {
    places_.push_back({field, at, width});
  }
  void octets(std::string_view field, std::size_t at, ByteSpan member) {
    places_.push_back({field, at, member.size() * 8});
  }
  void reserved(std::size_t at, unsigned width) { places_.push_back({{}, at, width}); }

 private:
  std::vector<Place> places_;
};

/// One bit for each of `size` bits: whether a named field has it.
std::vector<bool> named_bits(const std::vector<Place>& places, std::size_t size) {
  std::vector<bool> bits(size);
  for (const Place& place : places) {
    for (std::size_t i = place.at; !place.field.empty() && i < place.at + place.width; ++i) {
      EXPECT_FALSE(bits[i]) << "two fields have bit " << i;
      bits[i] = true;
    }
  }
  return bits;
}

/// `sent` is what goes out of a structure whose bits were all one when it came in.
void expect_named_bits_alone(std::string_view structure, const std::vector<Place>& places,
                             ByteSpan sent) {
  const std::vector<bool> named = named_bits(places, sent.size() * 8);
  for (std::size_t bit = 0; bit < named.size(); ++bit) {
    const bool one = (sent[bit / 8] & static_cast<std::byte>(0x80U >> bit % 8)) != std::byte{};
    ASSERT_EQ(one, named[bit]) << structure << ", bit " << bit;
  }
}

TEST(WireStructure, SendsReservedBitsAsZeroAndIgnoresThemOnReceipt) {  // R-PACK-2
  AllWireTypes::for_each([]<class T>() {
    std::array<std::byte, kSizeOf<T>> ones{};
    ones.fill(std::byte{0xFF});
    expect_named_bits_alone(T::kName, Places::of<T>(), pack(unpack<T>(ones)));
  });
}

TEST(WireStructure, RefusesTooFewBytes) {
  AllWireTypes::for_each([]<class T>() {
    const std::array<std::byte, kSizeOf<T>> bytes{};
    EXPECT_TRUE(parse<T>(bytes).has_value()) << T::kName;
    const auto refused = parse<T>(std::span{bytes}.first(bytes.size() - 1));
    EXPECT_TRUE(!refused && refused.error().reason.starts_with(T::kName)) << T::kName;
  });
}

TEST(WireTypes, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  AllWireTypes::for_each([&]<class T>() { names.insert(T::kName); });
  EXPECT_EQ(names.size(), AllWireTypes::kCount);
}

/// One line a field: structure, field, bit offset, width in bits.
std::string dump_of_all_layouts() {
  std::string text;
  AllWireTypes::for_each([&]<class T>() {
    for (const Place& place : Places::of<T>()) {
      text += fmt::format("{}, {}, {}, {}\n", T::kName,
                          place.field.empty() ? "reserved" : place.field, place.at, place.width);
    }
  });
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
