#include "os/capabilities.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace weft::os {
namespace {

/// What the kernel says of this process itself.
[[nodiscard]] bool has_net_admin() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  EXPECT_EQ(syscall(SYS_capget, &header, data.data()), 0);
  return (data[0].effective >> CAP_NET_ADMIN & 1) != 0;
}

TEST(Capabilities, AreWhatTheKernelSays) {
  EXPECT_EQ(may_administer_network(getpid()), has_net_admin());
}

TEST(Capabilities, OfAProcessThatGaveThemUpAreNone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const std::array<__user_cap_data_struct, 2> none{};
    const char octet = syscall(SYS_capset, &header, none.data()) == 0 ? 'y' : 'n';
    static_cast<void>(!write(ends[1], &octet, 1));
    pause();
    _exit(0);
  }
  char octet{};
  ASSERT_EQ(read(ends[0], &octet, 1), 1);
  EXPECT_EQ(octet, 'y');
  EXPECT_FALSE(may_administer_network(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(may_administer_network(child)) << "it is gone";
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weft::os
