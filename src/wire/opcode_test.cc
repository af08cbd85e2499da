#include "wire/opcode.h"

#include <gtest/gtest.h>

namespace weft::wire {
namespace {

TEST(OpcodeTable, NamesEachOpcodeAsItsPartsDo) {
  for (const OpcodeInfo& info : opcode_table()) {
    EXPECT_EQ(opcode_info(info.opcode), &info);
    EXPECT_EQ(static_cast<unsigned>(info.opcode) >> 5, static_cast<unsigned>(info.transport));
    if (info.operation != Operation::CongestionNotification) {
      EXPECT_EQ(make_opcode(info.transport, info.operation, info.position,
                            info.headers.has(ExtensionHeader::Immediate),
                            info.headers.has(ExtensionHeader::Ieth)),
                info.opcode)
          << info.name;
    }
  }
  EXPECT_EQ(opcode_info(static_cast<Opcode>(0x15)), nullptr);
  EXPECT_EQ(make_opcode(Transport::Rc, Operation::AtomicWrite, Position::Only, false, false),
            static_cast<Opcode>(0x1D));
  EXPECT_EQ(make_opcode(Transport::Rc, Operation::Flush, Position::Only, false, false),
            static_cast<Opcode>(0x1C));
  EXPECT_EQ(make_opcode(Transport::Xrc, Operation::Flush, Position::Only, false, false),
            static_cast<Opcode>(0xBC));
  EXPECT_EQ(opcode_info(static_cast<Opcode>(0x40)), nullptr);
}

}  // namespace
}  // namespace weft::wire
