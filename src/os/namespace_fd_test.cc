#include "os/namespace_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "os/unique_fd.h"

namespace weft::os {
namespace {

[[nodiscard]] UniqueFd own(const char* kind) {
  return UniqueFd{open((std::string{"/proc/self/ns/"} + kind).c_str(), O_RDONLY | O_CLOEXEC)};
}

/// A child that has done `first` and then waits for its end.
class Child {
 public:
  explicit Child(const std::function<bool()>& first) {
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe(ready.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char said = first() ? 'y' : 'n';
      if (write(ready[1], &said, 1) == 1) {
        sleep(60);
      }
      _exit(0);
    }
    EXPECT_EQ(read(ready[0], &said_, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool did() const { return said_ == 'y'; }
  [[nodiscard]] UniqueFd ns(const char* kind) const {
    return UniqueFd{
        open(("/proc/" + std::to_string(pid_) + "/ns/" + kind).c_str(), O_RDONLY | O_CLOEXEC)};
  }

 private:
  pid_t pid_{};
  char said_{};
};

/// A new user namespace in which the user is root: without an id there one may not make more below.
[[nodiscard]] bool enter_new_user_namespace(int others) {
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  if (unshare(CLONE_NEWUSER | others) != 0) {
    return false;
  }
  std::ofstream{"/proc/self/setgroups"} << "deny";
  std::ofstream{"/proc/self/uid_map"} << user;
  std::ofstream{"/proc/self/gid_map"} << group;
  return geteuid() == 0;
}

[[nodiscard]] bool has(const std::vector<RunningProcess>& processes, pid_t pid) {
  return std::ranges::find(processes, pid, &RunningProcess::pid) != processes.end();
}

TEST(NamespaceFd, IsOfOneKind) {
  const UniqueFd user = own("user");
  EXPECT_TRUE(identify_namespace(user.get(), NamespaceKind::User));
  EXPECT_FALSE(identify_namespace(user.get(), NamespaceKind::Mount));
  const UniqueFd file{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  for (const auto kind :
       {NamespaceKind::User, NamespaceKind::Mount, NamespaceKind::Network, NamespaceKind::Uts}) {
    EXPECT_FALSE(identify_namespace(file.get(), kind));
  }
}

TEST(NamespaceFd, FindsWhoIsInAUserNamespaceAndBelowIt) {
  const Child outer{[] { return enter_new_user_namespace(CLONE_NEWNS | CLONE_NEWUTS); }};
  ASSERT_TRUE(outer.did());
  const auto id = identify_namespace(outer.ns("user").get(), NamespaceKind::User);
  ASSERT_TRUE(id) << id.error().reason;
  EXPECT_TRUE(belongs_to(outer.ns("uts").get(), *id));
  EXPECT_FALSE(belongs_to(own("uts").get(), *id));
  const UniqueFd user = outer.ns("user");
  const Child inner{
      [&user] { return setns(user.get(), CLONE_NEWUSER) == 0 && unshare(CLONE_NEWUSER) == 0; }};
  ASSERT_TRUE(inner.did());
  const auto found = processes_in_user_namespace(*id);
  EXPECT_TRUE(has(found, outer.pid()));
  EXPECT_TRUE(has(found, inner.pid()));
  EXPECT_FALSE(has(found, getpid()));
  const auto mounts = identify_namespace(outer.ns("mnt").get(), NamespaceKind::Mount);
  ASSERT_TRUE(mounts);
  const auto mounted = processes_in_mount_namespace(*mounts);
  EXPECT_TRUE(has(mounted, outer.pid()));
  EXPECT_FALSE(has(mounted, inner.pid()));
}

TEST(NamespaceFd, LeavesOutWhoHasEnded) {
  const Child child{[] { return unshare(CLONE_NEWUSER) == 0; }};
  ASSERT_TRUE(child.did());
  const UniqueFd user = child.ns("user");
  const auto id = identify_namespace(user.get(), NamespaceKind::User);
  ASSERT_TRUE(id);
  ASSERT_TRUE(has(processes_in_user_namespace(*id), child.pid()));
  kill(child.pid(), SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(has(processes_in_user_namespace(*id), child.pid())) << "it is only waited for";
}

TEST(NamespaceFd, FindsWhoSeesAFile) {
  std::string folder = "/tmp/weft-namespace-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/fabric";
  std::ofstream{path} << "/run/weft/default 12\n";
  EXPECT_TRUE(has(processes_that_see(path, "/run/weft/default"), getpid()));
  EXPECT_FALSE(has(processes_that_see(path, "/run/weft/def"), getpid())) << "a part of the word";
  EXPECT_FALSE(has(processes_that_see(folder + "/none", "/run/weft/default"), getpid()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::os
