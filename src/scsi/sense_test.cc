#include "scsi/sense.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::scsi {
namespace {

using ::testing::ElementsAre;

std::vector<int> numbers(const SenseData& data) {
  std::vector<int> values;
  for (const std::byte octet : data.octets()) {
    values.push_back(std::to_integer<int>(octet));
  }
  return values;
}

TEST(Sense, FixedFormatHasKeyCodeAndInformation) {  // SPC-4 §4.5.3, Table 53
  const Sense sense{.key = SenseKey::MediumError,
                    .code = SenseCode::UnrecoveredReadError,
                    .information = 0x0102'0304};
  EXPECT_THAT(numbers({sense, SenseData::Format::Fixed}),
              ElementsAre(0xF0, 0, 3, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0));
}

TEST(Sense, FixedFormatLeavesOutInformationOfMoreThan32Bits) {  // SPC-4 §4.5.3: VALID
  const Sense sense{.key = SenseKey::MediumError,
                    .code = SenseCode::UnrecoveredReadError,
                    .information = std::uint64_t{1} << 32};
  EXPECT_THAT(numbers({sense, SenseData::Format::Fixed}),
              ElementsAre(0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0));
}

TEST(Sense, DescriptorFormatHasInformationOf64Bits) {  // SPC-4 §4.5.2.2
  const Sense sense{.key = SenseKey::MediumError,
                    .code = SenseCode::UnrecoveredReadError,
                    .information = 0x0102'0304'0506'0708};
  EXPECT_THAT(numbers({sense, SenseData::Format::Descriptor}),
              ElementsAre(0x72, 3, 0x11, 0, 0, 0, 0, 12, 0, 0x0A, 0x80, 0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Sense, FieldPointersNameOctetAndBit) {  // SPC-4 §4.5.2.4.2
  const Sense sense = invalid_field_in_cdb(14, 5).error().sense;
  EXPECT_THAT(numbers({sense, SenseData::Format::Fixed}),
              ElementsAre(0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xCD, 0, 14));
  EXPECT_THAT(numbers({sense, SenseData::Format::Descriptor}),
              ElementsAre(0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xCD, 0, 14, 0));
  const Sense list = invalid_field_in_parameters(0x123).error().sense;
  EXPECT_THAT(numbers({list, SenseData::Format::Descriptor}),
              ElementsAre(0x72, 5, 0x26, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, 1, 0x23, 0));
}

}  // namespace
}  // namespace weft::scsi
