#include "sriov/tunnel.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>

namespace weft::sriov {
namespace {

constexpr Tunnel::Buffer kBuffer{};

Tunnel active_tunnel(std::size_t slots) {
  Tunnel tunnel{slots};
  EXPECT_TRUE(tunnel.handle(TunnelInput::Open).has_value());
  EXPECT_TRUE(tunnel.handle(TunnelInput::Opened).has_value());
  return tunnel;
}

TEST(SriovTunnel, GoesThroughItsStatesInOrderOnly) {  // R-SRI-5
  using enum TunnelState;
  constexpr std::array kStates{Down, Starting, Active, Downing};
  constexpr std::array kInputs{TunnelInput::Open, TunnelInput::Opened, TunnelInput::Close,
                               TunnelInput::Closed};
  const std::optional<TunnelState> none;
  const std::array<std::array<std::optional<TunnelState>, 4>, 4> expected{
      {
       {Starting, none, none, none},
       {none, Active, Downing, none},
       {none, none, Downing, none},
       {none, none, none, Down},
       }
  };
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    for (std::size_t j = 0; j < kInputs.size(); ++j) {
      EXPECT_EQ(next_state(kStates[i], kInputs[j]), expected[i][j])
          << name_of(kStates[i]) << " input " << j;
    }
  }
  Tunnel tunnel;
  EXPECT_FALSE(tunnel.handle(TunnelInput::Opened).has_value());
  EXPECT_EQ(tunnel.state(), Down);
}

TEST(SriovTunnel, TakesNothingUnlessItIsActive) {  // R-SRI-5
  Tunnel tunnel;
  const auto refused = [&] {
    const auto sent = tunnel.post_send(Qpn{1}, kBuffer);
    const auto received = tunnel.post_receive(kBuffer);
    return !sent && sent.error().code == ErrorCode::TryAgain && !received &&
           received.error().code == ErrorCode::TryAgain;
  };
  EXPECT_TRUE(refused());
  EXPECT_TRUE(tunnel.handle(TunnelInput::Open).has_value());
  EXPECT_TRUE(refused());
  EXPECT_TRUE(tunnel.handle(TunnelInput::Opened).has_value());
  EXPECT_TRUE(tunnel.post_send(Qpn{1}, kBuffer).has_value());
  EXPECT_TRUE(tunnel.handle(TunnelInput::Close).has_value());
  EXPECT_EQ(tunnel.completed_sends(), 1U);  // flushed
  EXPECT_FALSE(tunnel.take_send().has_value());
  EXPECT_TRUE(refused());
  tunnel.check_invariants();
}

// T-SRI-7
TEST(SriovTunnel, OverrunIsTryAgainAndLaterRecovers) {
  Tunnel tunnel = active_tunnel(Tunnel::kRingSlots);
  for (std::size_t i = 0; i < 512; ++i) {
    ASSERT_TRUE(tunnel.post_send(Qpn{1}, kBuffer).has_value());
    ASSERT_TRUE(tunnel.post_receive(kBuffer).has_value());
  }
  const auto send = tunnel.post_send(Qpn{1}, kBuffer);
  ASSERT_FALSE(send.has_value());
  EXPECT_EQ(send.error().code, ErrorCode::TryAgain);
  EXPECT_EQ(tunnel.post_receive(kBuffer).error().code, ErrorCode::TryAgain);
  EXPECT_TRUE(tunnel.take_send().has_value());
  EXPECT_TRUE(tunnel.post_send(Qpn{1}, kBuffer).has_value());
  EXPECT_FALSE(tunnel.post_send(Qpn{1}, kBuffer).has_value());
  EXPECT_TRUE(tunnel.take_receive().has_value());
  EXPECT_TRUE(tunnel.post_receive(kBuffer).has_value());
  tunnel.check_invariants();
}

TEST(SriovTunnel, EveryFunctionPortAndSpecialQpHasAPairOfItsOwn) {  // R-SRI-1
  std::set<Qpn> numbers;
  std::size_t count = 0;
  for (const auto port : std::to_array<std::uint8_t>({1, 2})) {
    const TunnelNumbers of{
        .proxy_base = Qpn{0x400}, .tunnel_base = Qpn{0x10000}, .port = PortNumber{port}};
    for (std::uint16_t function = 0; function < 300; ++function) {
      for (const SpecialQp qp : {SpecialQp::Smi, SpecialQp::Gsi}) {
        numbers.insert(of.proxy(FunctionId{function}, qp));
        numbers.insert(of.tunnel(FunctionId{function}, qp));
        count += 2;
      }
    }
  }
  EXPECT_EQ(numbers.size(), count);
}

}  // namespace
}  // namespace weft::sriov
