// Copies of a socket: by dup(), in children of fork(), and in programs that were executed.

#include <fcntl.h>
#include <sys/wait.h>

#include <filesystem>

#include "netlink_host.h"

namespace weft {
namespace {

class Copies : public NetlinkHost {
 protected:
  static void ask(int fd) {
    const auto datagram = list_devices();
    ASSERT_EQ(send(fd, datagram.data(), datagram.size(), 0), static_cast<ssize_t>(datagram.size()))
        << std::strerror(errno);
    expect_devices(fd);
  }
  static int status_of(pid_t child) {
    int status{};
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(Copies, AreTheSameSocket) {
  os::UniqueFd fd = open_socket();
  ask(fd.get());
  const os::UniqueFd second{dup(fd.get())};
  const os::UniqueFd third{fcntl(fd.get(), F_DUPFD_CLOEXEC, 100)};
  const os::UniqueFd place{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const os::UniqueFd other_place{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  ASSERT_EQ(dup2(fd.get(), place.get()), place.get());
  ASSERT_EQ(dup3(fd.get(), other_place.get(), O_CLOEXEC), other_place.get());
  EXPECT_GE(third.get(), 100);
  fd.reset();
  for (const os::UniqueFd* each : {&second, &third, &place, &other_place}) {
    ask(each->get());
    sockaddr_nl address{};
    socklen_t length = sizeof address;
    ASSERT_EQ(getsockname(each->get(), generic(address), &length), 0);
    EXPECT_EQ(address.nl_pid, static_cast<std::uint32_t>(getpid()));
  }
}

TEST_F(Copies, OfAChildWork) {
  const os::UniqueFd fd = open_socket();
  ask(fd.get());
  const pid_t child = fork();
  if (child == 0) {
    const auto datagram = list_devices();
    std::array<char, 8'192> buffer{};
    const bool works = send(fd.get(), datagram.data(), datagram.size(), 0) > 0 &&
                       is_readable(fd.get()) && recv(fd.get(), buffer.data(), buffer.size(), 0) > 0;
    close(fd.get());
    _exit(works ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  std::array<char, 8'192> rest{};
  while (recv(fd.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
  }
  ask(fd.get());
}

TEST_F(Copies, SurviveAChildOfVforkThatCloses) {
  const os::UniqueFd fd = open_socket();
  const pid_t child = vfork();
  if (child == 0) {
    close(fd.get());  // its own copy; its memory is the parent's
    _exit(0);
  }
  EXPECT_EQ(status_of(child), 0);
  ask(fd.get());
}

TEST_F(Copies, WorkInAProgramThatIsExecuted) {
  const os::UniqueFd fd = open_socket(SOCK_RAW);
  const std::string number = std::to_string(fd.get());
  // Python's own socket and os modules; a netlink message of 16 octets: a dump of devices.
  constexpr const char* kProgram = R"(
import os, struct, sys
fd = int(sys.argv[1])
assert os.write(fd, struct.pack("=IHHII", 16, 5 << 10 | 1, 0x301, 9, 0)) == 16
answer = os.read(fd, 65536)
length, kind, flags, sequence, port = struct.unpack_from("=IHHII", answer)
assert kind == 5 << 10 | 1 and sequence == 9 and b"weft0" in answer, answer
)";
  const pid_t child = fork();
  if (child == 0) {
    // By its name alone: its folder's may have a space, at which LD_PRELOAD would end.
    const std::filesystem::path library{WEFT_NETLINK_LIBRARY};
    setenv("LD_LIBRARY_PATH", library.parent_path().c_str(), 1);
    setenv("LD_PRELOAD", library.filename().c_str(), 1);
    execlp("python3", "python3", "-c", kProgram, number.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace weft
