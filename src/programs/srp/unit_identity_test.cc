#include "programs/srp/unit_identity.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace weft::programs::srp {
namespace {

using Octets = std::vector<std::byte>;

[[nodiscard]] Octets octets(std::initializer_list<unsigned> values) {
  Octets made;
  for (const unsigned value : values) {
    made.push_back(static_cast<std::byte>(value));
  }
  return made;
}

TEST(SrpUnitIdentity, IsOfTheUnitAndNotOfThePort) {
  const Octets page =
      octets({0,    0x83, 0, 26,                            //
              0x01, 0x03, 0, 4,  0xA, 0xB, 0xC, 0xD,        // NAA of the unit
              0x01, 0x14, 0, 4,  0,   0,   0,   1,          // relative target port
              0x02, 0x01, 0, 6,  1,   2,   3,   4,   5, 6,  // T10 vendor ID of the unit
              0xEE, 0xEE});                                 // beyond the page
  EXPECT_EQ(*unit_designators(page),
            octets({0x01, 0x03, 0, 4, 0xA, 0xB, 0xC, 0xD, 0x02, 0x01, 0, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(SrpUnitIdentity, RefusesPagesThatSayNothing) {
  for (const Octets& page :
       {octets({}), octets({0, 0x83, 0}), octets({0, 0x80, 0, 0}), octets({0, 0x83, 0, 0}),
        octets({0, 0x83, 0, 9, 1, 3, 0, 1, 7}), octets({0, 0x83, 0, 5, 1, 3, 0, 9, 7}),
        octets({0, 0x83, 0, 5, 1, 0x13, 0, 1, 7})}) {
    EXPECT_FALSE(unit_designators(page).has_value());
  }
}

}  // namespace
}  // namespace weft::programs::srp
