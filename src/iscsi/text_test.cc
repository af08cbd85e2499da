#include "iscsi/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/bytes.h"

namespace weft::iscsi {
namespace {

using std::string_view_literals::operator""sv;

TEST(Text, IsPairsEachEndedByANull) {  // RFC 7143 §6.1
  const auto pairs = parse_text("InitiatorName=iqn.a\0X-empty=\0A=b=c\0"sv);
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(*pairs, (TextPairs{
                        {"InitiatorName", "iqn.a"},
                        {"X-empty",       ""     },
                        {"A",             "b=c"  }
  }));
  EXPECT_EQ(find_value(*pairs, "A"), "b=c");
  EXPECT_EQ(find_value(*pairs, "B"), std::nullopt);
  EXPECT_TRUE(parse_text("A=1\0\0\0"sv)->size() == 1) << "nulls that pad are harmless";
}

TEST(Text, RefusesWhatIsNoPair) {
  const std::string long_key(64, 'K');
  for (const std::string_view text :
       {"A=1"sv, "A\0"sv, "=1\0"sv, "1A=1\0"sv, "A B=1\0"sv, "A=1\0B\0"sv}) {
    EXPECT_FALSE(parse_text(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_text(long_key + std::string("=1\0", 3)).has_value());
  std::string many;
  for (std::size_t i = 0; i <= kMaxPairs; ++i) {
    many += std::string("A=1\0", 4);
  }
  EXPECT_FALSE(parse_text(many).has_value());
}

TEST(Text, IsWrittenAsItIsRead) {
  TextWriter writer;
  writer.add("A", "1").add("B", "");
  EXPECT_EQ(writer.text(), "A=1\0B=\0"sv);
  EXPECT_EQ(writer.take(), "A=1\0B=\0"sv);
  EXPECT_TRUE(writer.empty());
}

TEST(Text, HasDecimalAndHexadecimalNumbers) {
  EXPECT_EQ(parse_number("0"), 0U);
  EXPECT_EQ(parse_number("8192"), 8192U);
  EXPECT_EQ(parse_number("0x2000"), 8192U);
  EXPECT_EQ(parse_number("0XfF"), 255U);
  for (const std::string_view value :
       {"", "-1", "+1", "1 ", "0x", "0xg", "1x", "99999999999999999999"}) {
    EXPECT_EQ(parse_number(value), std::nullopt) << value;
  }
}

TEST(Text, HasHexadecimalAndBase64BinaryValues) {
  const auto hex = parse_binary("0x1aF", 16);
  ASSERT_TRUE(hex.has_value());
  EXPECT_EQ(to_binary_value(*hex), "0x01af");
  const auto base64 = parse_binary("0bAa8=", 16);
  ASSERT_TRUE(base64.has_value());
  EXPECT_EQ(*base64, *hex);
  for (const std::string_view value : {"", "0x", "1af", "0xzz", "0bA", "0bA===", "0b*AAA"}) {
    EXPECT_FALSE(parse_binary(value, 16).has_value()) << value;
  }
  EXPECT_FALSE(parse_binary("0x112233", 2).has_value());
}

TEST(Text, SplitsLists) {
  EXPECT_EQ(split_list("CHAP,None"), (std::vector<std::string_view>{"CHAP", "None"}));
  EXPECT_EQ(split_list(""), (std::vector<std::string_view>{""}));
}

}  // namespace
}  // namespace weft::iscsi
