#include "ulp/ipoib/connection_data.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/address_text.h"

namespace weft::ipoib {
namespace {

TEST(IpoibConnectionData, LiesAsTheRfcSaysAndRoundTrips) {  // R-IPOIB-15
  EXPECT_EQ(wire::hex_text(wire::pack(ConnectionData{.qpn = Qpn{0x123456}, .receive_mtu = 65'524})),
            "001234560000fff4");
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    const auto data = wire::arbitrary<ConnectionData>(random);
    EXPECT_EQ(wire::unpack<ConnectionData>(wire::pack(data)), data);
  }
}

TEST(IpoibConnectionData, SaysBehindItWhatTheEndTakes) {  // R-IPOIB-31
  const ConnectionData data{.qpn = Qpn{0x123456}, .receive_mtu = 65'524};
  EXPECT_EQ(wire::hex_text(private_data_of(data, true)), "001234560000fff45745465400000001");
  EXPECT_EQ(wire::hex_text(private_data_of(data, false)), "001234560000fff4");
  // RDMA-CM fills up with zeros.
  for (const std::size_t bytes : {8U, 15U, 16U, 92U, 196U}) {
    auto said = private_data_of(data, true);
    said.resize(bytes);
    EXPECT_EQ(takes_partial_checksums(said), bytes >= 16) << bytes;
    EXPECT_EQ(wire::parse<ConnectionData>(said), data);
    auto said_nothing = private_data_of(data, false);
    said_nothing.resize(bytes);
    EXPECT_FALSE(takes_partial_checksums(said_nothing)) << bytes;
  }
  auto of_others = private_data_of(data, true);
  of_others[8] = std::byte{0};
  EXPECT_FALSE(takes_partial_checksums(of_others));
  EXPECT_FALSE(takes_partial_checksums({}));
}

}  // namespace
}  // namespace weft::ipoib
