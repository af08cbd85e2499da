#include "station/one_sided.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::station {
namespace {

TEST(OneSided, AreRequestsThatTheApplicationOfTheResponderDoesNotSee) {
  using enum wire::Opcode;
  for (const wire::Opcode opcode : {RcRdmaWriteFirst, RcRdmaWriteOnly, RcRdmaReadRequest,
                                    RcCompareSwap, RcFetchAdd, UcRdmaWriteOnly}) {
    EXPECT_TRUE(is_one_sided(opcode)) << static_cast<int>(opcode);
  }
  for (const wire::Opcode opcode : {RcSendOnly, RcRdmaWriteOnlyWithImmediate, RcAcknowledge,
                                    RcRdmaReadResponseOnly, UdSendOnly}) {
    EXPECT_FALSE(is_one_sided(opcode)) << static_cast<int>(opcode);
  }
}

TEST(OneSided, IsToldByTheFirstByteOfARecord) {
  const std::array record{std::byte{static_cast<std::uint8_t>(wire::Opcode::RcRdmaWriteOnly)},
                          std::byte{0}};
  EXPECT_TRUE(is_one_sided(ByteSpan{record}));
  EXPECT_FALSE(is_one_sided(ByteSpan{record}.subspan(1))) << "an RC SEND First";
  EXPECT_FALSE(is_one_sided(ByteSpan{})) << "no record";
}

TEST(SeriesUrgency, IsThatOfTheLastPacket) {
  SeriesUrgency series;
  EXPECT_FALSE(series.take()) << "nothing was sent";
  series.note(wire::Opcode::RcSendOnly);
  series.note(wire::Opcode::RcRdmaWriteOnly);
  EXPECT_TRUE(series.take()) << "a program may poll the memory that the WRITE changes";
  EXPECT_FALSE(series.take()) << "it was taken";
  series.note(wire::Opcode::RcRdmaWriteOnly);
  series.note(wire::Opcode::RcSendOnly);
  EXPECT_FALSE(series.take()) << "a program that waits for the SEND polls, and takes both";
}

}  // namespace
}  // namespace weft::station
