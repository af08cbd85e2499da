// Where the daemon's answers come: in the pair of sockets that a process keeps, or in another.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "netlink_host.h"
#include "os/packet_socket.h"
#include "uabi/netlink_frames.h"

namespace weft {
namespace {

class Answers : public NetlinkHost {
 protected:
  static os::UniqueFd open_at(std::uint32_t port) {
    os::UniqueFd fd = open_socket();
    sockaddr_nl address = netlink_address(port);
    EXPECT_EQ(bind(fd.get(), generic(address), sizeof address), 0) << std::strerror(errno);
    return fd;
  }
  /// As the daemon says; none: it was not asked, or did not answer.
  static std::optional<std::uint32_t> port_of(int fd) {
    sockaddr_nl address{};
    socklen_t length = sizeof address;
    return getsockname(fd, generic(address), &length) == 0 ? std::optional{address.nl_pid}
                                                           : std::nullopt;
  }
  /// Whether each of so many answers is the socket's own.
  static bool are_own(int fd, std::uint32_t port, int questions) {
    for (int turn = 0; turn < questions; ++turn) {
      if (port_of(fd) != port) {
        return false;
      }
    }
    return true;
  }
  static std::set<int> descriptors() {
    std::set<int> all;
    for (int fd = 0; fd < 1'024; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) {
        all.insert(fd);
      }
    }
    return all;
  }
  /// What `question` leaves open.
  template <class Question>
  static std::vector<int> left_open(const Question& question) {
    const std::set<int> before = descriptors();
    question();
    std::vector<int> left;
    for (const int fd : descriptors()) {
      if (!before.contains(fd)) {
        left.push_back(fd);
      }
    }
    return left;
  }
  /// In a process without the fabric's descriptors in its way: true if it found that right.
  template <class Body>
  static bool is_right_in_a_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(body() ? 0 : 1);
    }
    int status{};
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

TEST_F(Answers, ComeInOnePairOfSocketsThatAProcessKeeps) {
  const os::UniqueFd fd = open_at(700);
  EXPECT_TRUE(is_right_in_a_child([&] {
    const auto ask = [&] { static_cast<void>(port_of(fd.get())); };
    return left_open(ask).size() == 2 && left_open(ask).empty() && are_own(fd.get(), 700, 100);
  }));
}

/// As programs do that close everything they do not know.
TEST_F(Answers, ComeThoughAProgramOpensItsOwnFilesInThePlaceOfThePair) {
  const os::UniqueFd fd = open_at(701);
  for (const std::size_t closed : {1U, 2U}) {
    EXPECT_TRUE(is_right_in_a_child([&] {
      const auto pair = left_open([&] { static_cast<void>(port_of(fd.get())); });
      for (std::size_t end = 0; end < closed; ++end) {
        syscall(SYS_close, pair.at(end));
      }
      std::array<int, 2> pipe_ends{};
      struct stat before{};
      struct stat after{};
      const bool is_there = pipe2(pipe_ends.data(), O_CLOEXEC) == 0 && pipe_ends[0] == pair.at(0) &&
                            fstat(pipe_ends[0], &before) == 0;
      return is_there && are_own(fd.get(), 701, 2) && !is_readable(pipe_ends[0], 0) &&
             fstat(pipe_ends[0], &after) == 0 && after.st_ino == before.st_ino &&
             fcntl(pipe_ends[1], F_GETFD) >= 0;
    })) << closed;
  }
}

TEST_F(Answers, OfAParentAndItsChildDoNotMix) {
  const os::UniqueFd parents = open_at(702);
  const os::UniqueFd childs = open_at(703);
  ASSERT_EQ(port_of(parents.get()), 702U);
  constexpr int kQuestions = 2'000;
  const pid_t child = fork();
  if (child == 0) {
    _exit(are_own(childs.get(), 703, kQuestions) ? 0 : 1);
  }
  EXPECT_TRUE(are_own(parents.get(), 702, kQuestions));
  int status{};
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Answers, OfThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const os::UniqueFd fd = open_at(710 + i);
      EXPECT_TRUE(are_own(fd.get(), 710 + i, 500)) << i;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

/// Here is the daemon, which answers what opens a socket, and ends at the next question.
TEST_F(Answers, ThatNeverComeEndWithTheConnection) {
  const os::UniqueFd before = open_at(720);
  char folder[] = "/tmp/weft-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::filesystem::path fabric = std::filesystem::path{folder} / "test";
  std::filesystem::create_directory(fabric);
  const auto listener = os::listen_at(fabric / uabi::kNetlinkSocket);
  ASSERT_TRUE(listener);
  std::thread daemon{[&] {
    ASSERT_TRUE(is_readable(listener->get()));
    const os::PacketSocket socket{os::UniqueFd{accept(listener->get(), nullptr, nullptr)}};
    std::array<std::byte, 256> room{};
    std::vector<os::UniqueFd> held;  // the first answer's way stays open: its end tells nothing
    for (int question = 0; question < 2; ++question) {
      ASSERT_TRUE(is_readable(socket.fd()));
      auto received = socket.receive(room);
      ASSERT_TRUE(received && received->descriptors.size() == 1);
      held.push_back(std::move(received->descriptors.front()));
      const uabi::NetlinkAnswer answer{.port = 1};
      if (question == 0) {
        ASSERT_EQ(send(held.back().get(), &answer, sizeof answer, 0),
                  static_cast<ssize_t>(sizeof answer));
      }
    }
  }};
  const char* const run = std::getenv("WEFT_RUN");
  const std::string own_run = run == nullptr ? "" : run;
  setenv("WEFT_RUN", folder, 1);
  const os::UniqueFd fd = open_socket();
  setenv("WEFT_RUN", own_run.c_str(), 1);
  EXPECT_EQ(port_of(fd.get()), std::nullopt);
  EXPECT_EQ(errno, ECONNREFUSED);
  daemon.join();
  EXPECT_TRUE(are_own(before.get(), 720, 10));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
