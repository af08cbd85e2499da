#include "scsi/protection.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace weft::scsi {
namespace {

std::vector<std::byte> blocks(std::size_t count) {
  std::vector<std::byte> data(count * 512);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 31 & 0xFF);
  }
  return data;
}

TEST(Protection, EachTagIsComparedInOrder) {
  const std::vector<std::byte> data = blocks(3);
  ProtectionCheck check{.expected_application = 0x1234, .expected_reference = 7};
  check.application_tag = true;
  std::vector<std::byte> tuples(3 * kTupleBytes);
  generate_protection(check, data, tuples);
  EXPECT_EQ(check_protection(check, data, tuples), std::nullopt);

  const auto damage = [&](std::size_t octet) {
    std::vector<std::byte> damaged = tuples;
    damaged[kTupleBytes + octet] ^= std::byte{1};
    return check_protection(check, data, damaged);
  };
  EXPECT_EQ(damage(0), (ProtectionError{ProtectionFault::Guard, 1}));
  EXPECT_EQ(damage(2), (ProtectionError{ProtectionFault::ApplicationTag, 1}));
  EXPECT_EQ(damage(7), (ProtectionError{ProtectionFault::ReferenceTag, 1}));
  check.application_mask = 0x00FF;
  EXPECT_EQ(damage(2), std::nullopt);
  check.type = ProtectionType::Type3;
  EXPECT_EQ(damage(7), std::nullopt);
}

TEST(Protection, TagsOfAllOnesMeanThatNothingIsChecked) {  // SBC-3 §4.22.2
  const std::vector<std::byte> data = blocks(1);
  std::vector<std::byte> tuple(kTupleBytes);
  store_tuple(tuple, {.guard = 1, .application_tag = 0xFFFF, .reference_tag = 5});
  EXPECT_EQ(check_protection({.type = ProtectionType::Type1}, data, tuple), std::nullopt);
  EXPECT_NE(check_protection({.type = ProtectionType::Type3}, data, tuple), std::nullopt);
  store_tuple(tuple, {.guard = 1, .application_tag = 0xFFFF, .reference_tag = 0xFFFF'FFFF});
  EXPECT_EQ(check_protection({.type = ProtectionType::Type3}, data, tuple), std::nullopt);
}

TEST(Protection, InterleavesAndSeparates) {
  const std::vector<std::byte> data = blocks(2);
  std::vector<std::byte> tuples(2 * kTupleBytes, std::byte{0xEE});
  std::vector<std::byte> joined(2 * (512 + kTupleBytes));
  interleave_protection(512, data, tuples, joined);
  EXPECT_EQ(joined[512], std::byte{0xEE});
  EXPECT_EQ(joined[520], data[512]);
  std::vector<std::byte> data_again(data.size());
  std::vector<std::byte> tuples_again(tuples.size());
  separate_protection(512, joined, data_again, tuples_again);
  EXPECT_EQ(data_again, data);
  EXPECT_EQ(tuples_again, tuples);
}

}  // namespace
}  // namespace weft::scsi
