#include "host/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "os/shared_memory.h"

namespace weft::host {
namespace {

struct Ends {
  Ends() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    a = ControlSocket{os::UniqueFd{fds[0]}};
    b = ControlSocket{os::UniqueFd{fds[1]}};
  }
  ControlSocket a;
  ControlSocket b;
};

TEST(ControlSocket, CarriesMessagesWithTheirDescriptors) {
  Ends ends;
  const auto file = os::publish_memory("test", bytes_of(7));
  ASSERT_TRUE(file);
  ASSERT_TRUE(ends.a.send(uabi::TablesChanged{}, std::array{file->get()}));
  auto received = ends.b.receive(Duration::seconds(5));
  ASSERT_TRUE(received);
  EXPECT_TRUE(received->message.holds<uabi::TablesChanged>());
  ASSERT_EQ(received->descriptors.size(), 1U);
  EXPECT_TRUE(os::map_published(received->descriptors[0], 64));
}

TEST(ControlSocket, RefusesAMessageWithoutItsDescriptors) {
  Ends ends;
  ASSERT_TRUE(ends.a.send(uabi::TablesChanged{}));
  const auto received = ends.b.receive(Duration::seconds(5));
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::Io);
}

TEST(ControlSocket, RefusesForeignBytes) {
  Ends ends;
  ASSERT_EQ(write(ends.a.fd(), "hello", 5), 5);
  const auto received = ends.b.receive(Duration::seconds(5));
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::Io);
}

TEST(ControlSocket, TellsNothingYetFromGoneFromLate) {
  Ends ends;
  EXPECT_EQ(ends.b.receive().error().code, ErrorCode::TryAgain);
  EXPECT_EQ(ends.b.receive(Duration::milliseconds(5)).error().code, ErrorCode::TimedOut);
  ends.a.close();
  EXPECT_EQ(ends.b.receive().error().code, ErrorCode::Refused);
}

TEST(ControlSocket, NeverWaitsForAReaderWhoDoesNotRead) {
  Ends ends;
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) {
    sent = ends.a.send(uabi::TapReady{.capture = 1});
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::TryAgain);
}

TEST(ControlSocket, SaysHowToStartADaemonWhenThereIsNone) {
  const auto socket = ControlSocket::connect("/tmp/weft-no-such-socket");
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, ErrorCode::Refused);
  EXPECT_NE(socket.error().reason.find("weft up"), std::string::npos);
}

}  // namespace
}  // namespace weft::host
