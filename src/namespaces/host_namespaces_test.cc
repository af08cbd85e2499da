// Two hosts of one fabric, made as a user of this machine may make them.

#include "namespaces/host_namespaces.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>

namespace weft::namespaces {
namespace {

namespace fs = std::filesystem;

[[nodiscard]] std::string text_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "weft-namespaces-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    run_ = name;
    std::ofstream{run_ / "hosts"} << "127.0.0.1 localhost\n127.77.0.1 h1\n127.77.0.2 h2\n";
    auto made = make_fabric_namespaces();
    ASSERT_TRUE(made) << made.error().reason;
    fabric_ = std::move(*made);
    for (std::uint32_t index = 1; index <= hosts_.size(); ++index) {
      auto host = make_host_namespaces(
          fabric_,
          {
              .name = "h" + std::to_string(index),
              .addresses = {"127.77.0." + std::to_string(index), "fd77::" + std::to_string(index)},
              .index = index,
              .hosts_file = run_ / "hosts",
              .run_directory = run_,
              .fabric_id = "some fabric"
      });
      ASSERT_TRUE(host) << host.error().reason;
      hosts_[index - 1] = std::move(*host);
    }
  }
  void TearDown() override { fs::remove_all(run_); }

  /// What `work` says on the host (1 or 2), as a process of its own there.
  [[nodiscard]] pid_t start(std::size_t host, const std::function<bool()>& work) {
    const pid_t pid = fork();
    if (pid == 0) {
      const auto entered = enter(fabric_.user, hosts_.at(host - 1));
      if (!entered) {
        std::fprintf(stderr, "%s\n", entered.error().reason.c_str());
      }
      _exit(entered && work() ? 0 : 1);
    }
    return pid;
  }
  [[nodiscard]] static bool ended_well(pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, 0) == pid && status == 0;
  }
  [[nodiscard]] bool on(std::size_t host, const std::function<bool()>& work) {
    return ended_well(start(host, work));
  }

  fs::path run_;
  FabricNamespaces fabric_;
  std::array<HostNamespaces, 2> hosts_;
};

[[nodiscard]] sockaddr_in address(const char* text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

template <class Address>
[[nodiscard]] sockaddr* generic(Address& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

TEST_F(Namespaces, GiveEachHostItsNameAndItsRun) {
  const bool had = fs::exists("/run/weft-fabric");
  for (const std::size_t host : {1U, 2U}) {
    EXPECT_TRUE(on(host, [host, this] {
      std::array<char, 64> name{};
      gethostname(name.data(), name.size());
      std::ofstream{"/run/mine"} << name.data();
      return std::string{name.data()} == "h" + std::to_string(host) &&
             text_of("/etc/hosts") == text_of(run_ / "hosts") &&
             text_of("/run/weft-fabric") == "some fabric\n";
    }));
    EXPECT_TRUE(on(host, [host] { return text_of("/run/mine") == "h" + std::to_string(host); }));
  }
  EXPECT_FALSE(fs::exists("/run/mine")) << "the machine's own";
  EXPECT_EQ(fs::exists("/run/weft-fabric"), had);
}

TEST_F(Namespaces, ShowWhatIsWrittenToTheirSysAndDevFromOutside) {
  ASSERT_EQ(mkdirat(hosts_[0].sys_class.get(), "infiniband", 0755), 0);
  ASSERT_EQ(mkdirat(hosts_[0].dev_infiniband.get(), "folder", 0755), 0);
  EXPECT_TRUE(on(1, [] {
    return fs::is_directory("/sys/class/infiniband") &&
           fs::is_directory("/dev/infiniband/folder") && fs::is_directory("/sys/class/net/eth0/") &&
           fs::is_character_file("/dev/null") && fs::exists("/sys/class/misc");
  }));
  EXPECT_TRUE(on(2, [] { return !fs::exists("/sys/class/infiniband"); }));
}

TEST_F(Namespaces, CarryTcpBetweenTheHostsAddresses) {
  constexpr std::uint16_t kPort = 18'515;
  const pid_t server = start(2, [] {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in any = address("0.0.0.0", kPort);
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind(fd, generic(any), sizeof any) != 0 || listen(fd, 1) != 0) {
      return false;
    }
    const int connection = accept(fd, generic(peer), &length);
    return connection >= 0 && peer.sin_addr.s_addr == address("127.77.0.1", 0).sin_addr.s_addr;
  });
  EXPECT_TRUE(on(1, [] {
    sockaddr_in to = address("127.77.0.2", kPort);
    for (int tries = 0; tries < 200; ++tries) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, generic(to), sizeof to) == 0) {
        return true;
      }
      close(fd);
      usleep(50'000);
    }
    return false;
  }));
  EXPECT_TRUE(ended_well(server));
}

TEST_F(Namespaces, LetProgramsOfTwoHostsReachEachOthersMemory) {
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  static volatile char target = 'o';
  const pid_t owner = start(1, [&ready] {
    char go = 'g';
    if (write(ready[1], &go, 1) != 1) {
      return false;
    }
    for (int i = 0; i < 400 && target != 'n'; ++i) {
      usleep(50'000);
    }
    return target == 'n';
  });
  char go = 0;
  ASSERT_EQ(read(ready[0], &go, 1), 1);
  EXPECT_TRUE(on(2, [owner] {
    char value = 'n';
    const iovec from{&value, 1};
    const iovec to{const_cast<char*>(&target), 1};
    return process_vm_writev(owner, &from, 1, &to, 1, 0) == 1;
  }));
  EXPECT_TRUE(ended_well(owner));
}

TEST_F(Namespaces, StayWhereTheyAreWhenEnteredAgain) {
  EXPECT_TRUE(on(1, [this] { return enter(fabric_.user, hosts_[0]).has_value(); }));
  EXPECT_TRUE(on(1, [this] {  // from one host to another
    std::array<char, 64> name{};
    return enter(fabric_.user, hosts_[1]) && gethostname(name.data(), name.size()) == 0 &&
           std::string{name.data()} == "h2";
  }));
}

/// In a process of its own: a machine on which nobody has /dev/fuse.
[[nodiscard]] bool hide_fuse() {
  const auto own_ids = [](const char* file, unsigned id) {
    std::ofstream{file} << id << ' ' << id << " 1";
  };
  const unsigned user = geteuid();
  const unsigned group = getegid();
  if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) {
    return false;
  }
  if (user != 0) {
    std::ofstream{"/proc/self/setgroups"} << "deny";
    own_ids("/proc/self/uid_map", user);
    own_ids("/proc/self/gid_map", group);
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("/dev/null", "/dev/fuse", nullptr, MS_BIND, nullptr) == 0;
}

TEST_F(Namespaces, HaveAFileSystemForVirtualFunctionsWhoseRequestsSomebodyAnswers) {
  struct stat status{};
  ASSERT_EQ(fstat(hosts_[0].functions.get(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  hosts_[0].functions.reset();
  EXPECT_TRUE(on(1, [] {
    std::error_code error;
    const bool is_there = fs::exists("/sys/class/weft/weft0", error);
    return !is_there && error.value() == ENOTCONN;
  })) << "nobody waits for one who has gone";
}

TEST_F(Namespaces, HaveReadOnlyFilesOfVirtualFunctionsWithoutFuse) {
  const pid_t pid = fork();
  if (pid == 0) {
    auto fabric = hide_fuse() ? make_fabric_namespaces()
                              : Result<FabricNamespaces>{fail(ErrorCode::Io, "unshare")};
    auto host = fabric ? make_host_namespaces(*fabric, {.name = "h1",
                                                        .addresses = {"127.77.0.1"},
                                                        .index = 1,
                                                        .hosts_file = run_ / "hosts",
                                                        .run_directory = run_,
                                                        .fabric_id = "x"})
                       : Result<HostNamespaces>{std::unexpected(fabric.error())};
    if (!host) {
      std::fprintf(stderr, "%s\n", host.error().reason.c_str());
      _exit(1);
    }
    const os::UniqueFd file{
        openat(host->functions.get(), "sriov_numvfs", O_WRONLY | O_CREAT | O_CLOEXEC, 0444)};
    const bool is_filled = file && write(file.get(), "0\n", 2) == 2;
    const bool has_entered = is_filled && enter(fabric->user, *host);
    const bool is_refused = has_entered &&
                            open("/sys/class/weft/sriov_numvfs", O_WRONLY | O_CLOEXEC) < 0 &&
                            errno == EROFS;
    _exit(is_refused && text_of("/sys/class/weft/sriov_numvfs") == "0\n" ? 0 : 2);
  }
  EXPECT_TRUE(ended_well(pid));
}

}  // namespace
}  // namespace weft::namespaces
