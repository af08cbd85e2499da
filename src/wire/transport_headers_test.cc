#include "wire/transport_headers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace weft::wire {
namespace {

TransportHeaders arbitrary_headers(Opcode opcode, Random& random) {
  TransportHeaders headers;
  headers.bth = arbitrary<Bth>(random);
  headers.bth.opcode = opcode;
  const ExtensionHeaders has = opcode_info(opcode)->headers;
  const auto fill = [&]<class T>(ExtensionHeader extension, T& header) {
    if (has.has(extension)) {
      header = arbitrary<T>(random);
    }
  };
  fill(ExtensionHeader::Deth, headers.deth);
  fill(ExtensionHeader::Xrceth, headers.xrceth);
  fill(ExtensionHeader::Feth, headers.feth);
  fill(ExtensionHeader::Reth, headers.reth);
  fill(ExtensionHeader::AtomicEth, headers.atomic_eth);
  fill(ExtensionHeader::Aeth, headers.aeth);
  fill(ExtensionHeader::AtomicAckEth, headers.atomic_ack_eth);
  fill(ExtensionHeader::Immediate, headers.immdt);
  fill(ExtensionHeader::Ieth, headers.ieth);
  return headers;
}

TEST(TransportHeaders, RoundTripForEveryOpcode) {
  Random random{11};
  for (const OpcodeInfo& info : opcode_table()) {
    const TransportHeaders headers = arbitrary_headers(info.opcode, random);
    std::array<std::byte, kMaxTransportHeaderBytes> bytes{};
    const std::size_t size = pack(headers, bytes);
    EXPECT_EQ(size, transport_header_bytes(info)) << info.name;
    const auto again = parse_transport_headers(std::span{bytes}.first(size));
    ASSERT_TRUE(again) << info.name << ": " << again.error().reason;
    EXPECT_EQ(*again, headers) << info.name;
    EXPECT_FALSE(parse_transport_headers(std::span{bytes}.first(size - 1))) << info.name;
  }
}

TEST(TransportHeaders, RefuseAReservedOpcode) {
  std::array<std::byte, kMaxTransportHeaderBytes> bytes{};
  bytes[0] = std::byte{0x15};
  const auto refused = parse_transport_headers(bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "BTH opcode 0x15 is reserved or not known");
}

TEST(TransportHeaders, FollowTheBthInTheSpecificationsOrder) {
  std::vector<std::string_view> names;
  TransportHeaders headers;
  headers.bth.opcode = Opcode::XrcRdmaWriteOnlyWithImmediate;
  for_each_header(headers, [&]<class T>(const T&) { names.push_back(T::kName); });
  EXPECT_EQ(names, (std::vector<std::string_view>{"BTH", "XRCETH", "RETH", "ImmDt"}));
  names.clear();
  headers.bth.opcode = Opcode::XrcFlush;
  for_each_header(headers, [&]<class T>(const T&) { names.push_back(T::kName); });
  EXPECT_EQ(names, (std::vector<std::string_view>{"BTH", "XRCETH", "FETH", "RETH"}));
}

TEST(TransportHeaders, OfAFlushSayWhereDataMustBeAndWhichData) {  // IBTA vol 1 annex A19
  TransportHeaders headers;
  headers.bth.opcode = Opcode::RcFlush;
  headers.feth = {.selectivity = 1, .placement = kPlacementGlobal | kPlacementPersistent};
  headers.reth = {.virtual_address = 0x0102'0304'0506'0708, .rkey = RKey{9}, .dma_length = 10};
  std::array<std::byte, kMaxTransportHeaderBytes> bytes{};
  ASSERT_EQ(pack(headers, bytes), 12U + 4 + 16);
  EXPECT_EQ(bytes[0], std::byte{0x1C});
  EXPECT_EQ(bytes[12], std::byte{0});
  EXPECT_EQ(bytes[15], std::byte{0x13});  // SEL 5..4, PLT 3..0
  EXPECT_EQ(bytes[16], std::byte{1});     // the RETH
}

}  // namespace
}  // namespace weft::wire
