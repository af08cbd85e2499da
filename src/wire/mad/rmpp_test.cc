#include "wire/mad/rmpp.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(Rmpp, HasItsFlagsInTheLowBitsOfTheThirdByte) {  // IBTA vol 1 §13.6.2
  constexpr Rmpp kFirst{.version = kRmppVersion,
                        .type = RmppType::Data,
                        .response_time = 18,
                        .is_first = true,
                        .is_active = true,
                        .data1 = 1,
                        .data2 = 0x01020304};
  constexpr auto kBytes = pack(kFirst);
  EXPECT_EQ(kBytes[0], std::byte{1});
  EXPECT_EQ(kBytes[1], std::byte{1});
  EXPECT_EQ(kBytes[2], std::byte{18 << 3 | 2 | 1});
  EXPECT_EQ(kBytes[7], std::byte{1});
  EXPECT_EQ(kBytes[11], std::byte{4});
  EXPECT_EQ(pack(Rmpp{.is_last = true})[2], std::byte{4});
}

TEST(Rmpp, NamesItsTypesAndStatuses) {
  EXPECT_EQ(name_of(RmppType::Stop), "STOP");
  EXPECT_EQ(name_of(static_cast<RmppType>(9)), "");
  EXPECT_EQ(name_of(RmppStatus::TooManyRetries), "too many retries");
  EXPECT_EQ(name_of(static_cast<RmppStatus>(5)), "reserved");
  EXPECT_EQ(name_of(static_cast<RmppStatus>(200)), "class specific");
}

}  // namespace
}  // namespace weft::wire
