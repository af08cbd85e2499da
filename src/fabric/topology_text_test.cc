#include "fabric/topology_text.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace weft::fabric::internal {
namespace {

TEST(TopologyText, FindsTheWordThatWasMeant) {
  static constexpr std::array<std::string_view, 3> kKnown = {"name", "ports", "port"};
  EXPECT_EQ(nearest("prots", kKnown), "ports");
  EXPECT_EQ(nearest("nam", kKnown), "name");
  EXPECT_EQ(nearest("", kKnown), "name");  // as far away as others, and first
}

TEST(TopologyText, ReadsWholeNumbersInEitherBase) {
  EXPECT_EQ(read_integer("17"), 17U);
  EXPECT_EQ(read_integer("0x11"), 17U);
  EXPECT_EQ(read_integer("0xFFFFFFFFFFFFFFFF"), ~std::uint64_t{0});
  for (const std::string_view none : {"", "0x", "-1", "1 ", "0x1g", "18446744073709551616"}) {
    EXPECT_FALSE(read_integer(none)) << none;
  }
}

TEST(TopologyText, AllowsForeignOctetsInStringsAndCommentsOnly) {
  EXPECT_FALSE(line_of_foreign_octet("a = \"\xC3\xA9\" # \xC3\xA9\nb = '\xC3\xA9'\n"));
  EXPECT_FALSE(line_of_foreign_octet("a = \"\"\"x\n\xC3\xA9\"\"\"\n"));
  EXPECT_FALSE(line_of_foreign_octet("a = \"\\\"\xC3\xA9\"\n"));
  EXPECT_EQ(line_of_foreign_octet("a = 1\n\xC3\xA9 = 2\n"), 2U);
  EXPECT_EQ(line_of_foreign_octet("a = \"open\n\xC3\xA9\n"), 2U);  // a line ends a short string
}

}  // namespace
}  // namespace weft::fabric::internal
