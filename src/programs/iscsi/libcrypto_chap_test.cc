#include "programs/iscsi/libcrypto_chap.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "iscsi/text.h"

namespace weft::programs::iscsi {
namespace {

using weft::iscsi::ChapAlgorithm;
using weft::iscsi::to_binary_value;
using weft::iscsi::to_octets;

TEST(LibcryptoChap, HashesPiecesInOrder) {  // RFC 1321 §A.5, FIPS 180-4, FIPS 202: "abc"
  LibcryptoChap library;
  const auto a = to_octets("a");
  const auto bc = to_octets("bc");
  const std::array<ByteSpan, 2> pieces{a, bc};
  EXPECT_EQ(to_binary_value(library.hash(ChapAlgorithm::Md5, pieces)),
            "0x900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(to_binary_value(library.hash(ChapAlgorithm::Sha1, pieces)),
            "0xa9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(to_binary_value(library.hash(ChapAlgorithm::Sha256, pieces)),
            "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_binary_value(library.hash(ChapAlgorithm::Sha3With256, pieces)),
            "0x3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
}

TEST(LibcryptoChap, RandomOctetsDiffer) {
  LibcryptoChap library;
  std::array<std::byte, 32> first{};
  std::array<std::byte, 32> second{};
  library.fill_random(first);
  library.fill_random(second);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace weft::programs::iscsi
