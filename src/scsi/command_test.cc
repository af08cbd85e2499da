#include "scsi/command.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

#include "scsi/lun.h"

namespace weft::scsi {
namespace {

TEST(TransportId, OfSrpHasThePortIdentifierInItsLast16Octets) {  // SPC-4 §7.6.4.4
  const std::vector<std::byte> port(16, std::byte{0xAB});
  const TransportId id = srp_transport_id(port);
  ASSERT_EQ(id.size(), 24u);
  EXPECT_EQ(id[0], std::byte{4});
  EXPECT_EQ(id[7], std::byte{0});
  EXPECT_EQ(id[8], std::byte{0xAB});
}

TEST(TransportId, OfIscsiIsNullTerminatedTextOfAMultipleOfFourOctets) {  // SPC-4 §7.6.4.6
  const TransportId id = iscsi_transport_id("iqn.2026-01.test:x", 0x80'0000'0001);
  EXPECT_EQ(id[0], std::byte{0x45});
  EXPECT_EQ(id.size() % 4, 0u);
  EXPECT_EQ(std::to_integer<std::size_t>(id[3]), id.size() - 4);
  EXPECT_EQ(id.back(), std::byte{0});
  std::string text;
  for (std::size_t i = 4; id[i] != std::byte{0}; ++i) {
    text.push_back(static_cast<char>(id[i]));
  }
  EXPECT_EQ(text, "iqn.2026-01.test:x,i,0x008000000001");
}

TEST(LunAddress, PeripheralAndFlatFormsNameTheSameUnit) {  // SAM-5 §4.7
  EXPECT_EQ(parse_lun(0x0005'0000'0000'0000), Lun{5});
  EXPECT_EQ(parse_lun(0x4005'0000'0000'0000), Lun{5});
  EXPECT_EQ(parse_lun(0x7FFF'0000'0000'0000), Lun{0x3FFF});
  EXPECT_EQ(parse_lun(0x0105'0000'0000'0000), std::nullopt);  // bus 1
  EXPECT_EQ(parse_lun(0x0005'0001'0000'0000), std::nullopt);  // a second level
  EXPECT_EQ(parse_lun(0xC101'0000'0000'0000), std::nullopt);  // well known
  for (const std::uint16_t lun : std::initializer_list<std::uint16_t>{0, 255, 256, 16383}) {
    EXPECT_EQ(parse_lun(lun_address(Lun{lun})), Lun{lun});
  }
}

}  // namespace
}  // namespace weft::scsi
