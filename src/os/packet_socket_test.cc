#include "os/packet_socket.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/bytes.h"

namespace weft::os {
namespace {

struct Ends {
  Ends() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    a = PacketSocket{UniqueFd{fds[0]}};
    b = PacketSocket{UniqueFd{fds[1]}};
  }
  PacketSocket a;
  PacketSocket b;
};

TEST(PacketSocket, KeepsTheBoundsOfPackets) {
  Ends ends;
  const std::array<std::byte, 3> first{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::array<std::byte, 1> second{std::byte{4}};
  ASSERT_TRUE(ends.a.send(first, {}));
  ASSERT_TRUE(ends.a.send(second, {}));
  std::array<std::byte, 16> room{};
  EXPECT_EQ(ends.b.receive(room)->bytes, 3U);
  EXPECT_EQ(room[2], std::byte{3});
  EXPECT_EQ(ends.b.receive(room)->bytes, 1U);
  EXPECT_EQ(room[0], std::byte{4});
  EXPECT_EQ(ends.b.receive(room).error().code, ErrorCode::TryAgain);
}

TEST(PacketSocket, PassesDescriptorsThatTheReceiverOwns) {
  Ends ends;
  const UniqueFd counter{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const std::array<std::byte, 1> packet{};
  ASSERT_TRUE(ends.a.send(packet, std::array{counter.get(), counter.get()}));
  std::array<std::byte, 1> room{};
  const auto received = ends.b.receive(room);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->descriptors.size(), 2U);
  EXPECT_NE(received->descriptors[0].get(), counter.get());
  const std::uint64_t one = 1;
  ASSERT_EQ(write(received->descriptors[0].get(), &one, sizeof one), ssize_t{sizeof one});
  std::uint64_t count{};
  EXPECT_EQ(read(counter.get(), &count, sizeof count), ssize_t{sizeof count});
}

TEST(PacketSocket, RefusesAPacketThatIsLongerThanItsRoom) {
  Ends ends;
  const std::array<std::byte, 8> packet{};
  ASSERT_TRUE(ends.a.send(packet, {}));
  std::array<std::byte, 7> room{};
  const auto received = ends.b.receive(room);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::Io);
}

TEST(PacketSocket, NeverWaitsForAReaderWhoDoesNotRead) {
  Ends ends;
  const std::array<std::byte, 64> packet{};
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) {
    sent = ends.a.send(packet, {});
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::TryAgain);
}

TEST(PacketSocket, TellsThatThePeerIsGone) {
  Ends ends;
  ends.a.close();
  std::array<std::byte, 1> room{};
  EXPECT_EQ(ends.b.receive(room).error().code, ErrorCode::Refused);
  EXPECT_EQ(ends.b.send(room, {}).error().code, ErrorCode::Refused);
}

TEST(PacketSocket, TellsInTheSameWordsThatThePeerWentWithoutReading) {
  Ends ends;
  const std::array<std::byte, 1> packet{};
  ASSERT_TRUE(ends.b.send(packet, {}));
  ends.a.close();
  std::array<std::byte, 1> room{};
  const auto reset = ends.b.receive(room);
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().code, ErrorCode::Refused);
  EXPECT_EQ(reset.error().reason, "the other end closed the connection");
  EXPECT_EQ(ends.b.send(packet, {}).error().reason, reset.error().reason);
}

TEST(PacketSocket, RefusesAPathThatNoAddressHasRoomFor) {
  const std::string path(200, 'x');
  EXPECT_EQ(PacketSocket::connect(path).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(listen_at(path).error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::os
