// Hosts as namespaces, kept by a whole daemon: what a command is told, what a program on the host
// then sees, and the end.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "host/control_socket.h"
#include "namespaces/host_namespaces.h"
#include "os/namespace_fd.h"
#include "os/run_directory.h"

namespace weft::daemon {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::LiveFabric;

constexpr Duration kWaitLimit = Duration::seconds(20);

[[nodiscard]] std::string text_of(const fs::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

class HostsAsNamespaces : public ::testing::Test {
 protected:
  [[nodiscard]] host::ControlSocket connected() const {
    return std::move(*host::ControlSocket::connect(os::control_path(run(), "test")));
  }
  [[nodiscard]] std::string run() const { return fabric_->on("h1").run; }

  [[nodiscard]] static host::Received answer(const host::ControlSocket& socket,
                                             const uabi::Message& request,
                                             const std::vector<int>& descriptors = {}) {
    EXPECT_TRUE(socket.send(request, descriptors));
    auto received = socket.receive(kWaitLimit);
    EXPECT_TRUE(received) << received.error().reason;
    return received ? std::move(*received)
                    : host::Received{.message = uabi::Hello{}, .descriptors = {}};
  }
  [[nodiscard]] static std::string refusal(const host::Received& received) {
    const auto* const refused = received.message.get_if<uabi::Refused>();
    return refused != nullptr ? refused->reason : "";
  }
  [[nodiscard]] static os::NamespaceId id_of(const host::Received& received, std::size_t which,
                                             os::NamespaceKind kind) {
    const auto id = os::identify_namespace(received.descriptors.at(which).get(), kind);
    EXPECT_TRUE(id) << id.error().reason;
    return id.value_or(os::NamespaceId{});
  }
  [[nodiscard]] static host::Received ask(const host::ControlSocket& socket, std::string host) {
    return answer(socket, uabi::AskNamespaces{.version = uabi::kVersion, .host = std::move(host)});
  }
  [[nodiscard]] static host::Received make_fabric(const host::ControlSocket& socket,
                                                  std::string host) {
    const auto made = namespaces::make_fabric_namespaces();
    EXPECT_TRUE(made) << made.error().reason;
    return answer(socket,
                  uabi::KeepFabricNamespaces{.version = uabi::kVersion, .host = std::move(host)},
                  {made->user.get(), made->hub.get()});
  }
  [[nodiscard]] host::Received make_host(const host::ControlSocket& socket, std::string host,
                                         host::Received wanted) const {
    const auto& plan = wanted.message.get<uabi::HostWanted>().plan;
    const namespaces::FabricNamespaces fabric{.user = std::move(wanted.descriptors[0]),
                                              .hub = std::move(wanted.descriptors[1])};
    const auto made = namespaces::make_host_namespaces(fabric, {.name = host,
                                                                .addresses = plan.addresses,
                                                                .index = plan.hub_port,
                                                                .hosts_file = plan.hosts_file,
                                                                .run_directory = run(),
                                                                .fabric_id = plan.fabric_id});
    EXPECT_TRUE(made) << made.error().reason;
    return answer(socket,
                  uabi::KeepHostNamespaces{.version = uabi::kVersion, .host = std::move(host)},
                  {made->mount.get(), made->network.get(), made->uts.get(), made->sys_class.get(),
                   made->dev_infiniband.get(), made->functions.get()});
  }

  /// A process on the host, which is made if it is missing; it has entered when this returns.
  [[nodiscard]] pid_t start(const std::string& host, const std::function<bool()>& work,
                            sighandler_t on_sigterm = SIG_DFL) const {
    const auto socket = connected();
    host::Received kept = ask(socket, host);
    if (kept.message.holds<uabi::FabricWanted>()) {
      kept = make_fabric(socket, host);
    }
    if (kept.message.holds<uabi::HostWanted>()) {
      kept = make_host(socket, host, std::move(kept));
    }
    EXPECT_TRUE(kept.message.holds<uabi::HostKept>()) << refusal(kept);
    if (kept.descriptors.size() != uabi::kHostKeptDescriptors) {
      return -1;
    }
    std::array<int, 2> entered{};
    EXPECT_EQ(pipe(entered.data()), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(entered[0]);
      signal(SIGTERM, on_sigterm);  // the daemon in this test has a handler
      const namespaces::HostNamespaces all{.mount = std::move(kept.descriptors[1]),
                                           .network = std::move(kept.descriptors[2]),
                                           .uts = std::move(kept.descriptors[3]),
                                           .sys_class = {},
                                           .dev_infiniband = {},
                                           .functions = {}};
      const bool has_entered = namespaces::enter(kept.descriptors[0], all).has_value();
      close(entered[1]);
      _exit(has_entered && work() ? 0 : 1);
    }
    close(entered[1]);
    char end{};
    EXPECT_EQ(read(entered[0], &end, 1), 0) << "the end of the pipe, once it has entered";
    close(entered[0]);
    return pid;
  }
  [[nodiscard]] static bool ended_well(pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, 0) == pid && status == 0;
  }
  [[nodiscard]] bool on(const std::string& host, const std::function<bool()>& work) const {
    return ended_well(start(host, work));
  }
  [[nodiscard]] std::string read_on(const std::string& host, const std::string& path) const {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    const pid_t pid = start(host, [&] {
      const std::string text = text_of(path);
      return write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    });
    close(ends[1]);
    std::array<char, 4096> text{};
    const ssize_t count = read(ends[0], text.data(), text.size());
    close(ends[0]);
    EXPECT_TRUE(ended_well(pid));
    return {text.data(), count < 0 ? 0 : static_cast<std::size_t>(count)};
  }
  [[nodiscard]] std::string command(const uabi::Message& message) const {
    return refusal(answer(connected(), message));
  }

  std::unique_ptr<LiveFabric> fabric_ = std::make_unique<LiveFabric>(roomy_star());

 private:
  [[nodiscard]] static fabric::Topology roomy_star() {
    fabric::Topology topology = *fabric::generate_star(2);
    topology.switches.front().port_count = 8;
    return topology;
  }
};

TEST_F(HostsAsNamespaces, AreMadeOnceAndGivenToWhoComesLater) {
  const auto first = connected();
  const auto second = connected();
  EXPECT_TRUE(ask(first, "h1").message.holds<uabi::FabricWanted>());
  EXPECT_TRUE(ask(second, "h1").message.holds<uabi::FabricWanted>());
  host::Received wanted = make_fabric(first, "h1");
  ASSERT_TRUE(wanted.message.holds<uabi::HostWanted>()) << refusal(wanted);
  // Two hosts with one address on the hub: ARP would keep whichever answered first.
  ASSERT_TRUE(second.send(uabi::AskNamespaces{.version = uabi::kVersion, .host = "h1"}));
  EXPECT_FALSE(second.receive(Duration::milliseconds(50))) << "it waits for the first";
  const os::NamespaceId user = id_of(wanted, 0, os::NamespaceKind::User);
  const host::Received kept = make_host(first, "h1", std::move(wanted));
  ASSERT_TRUE(kept.message.holds<uabi::HostKept>()) << refusal(kept);
  const auto also = second.receive(kWaitLimit);
  ASSERT_TRUE(also && also->message.holds<uabi::HostKept>());
  EXPECT_EQ(id_of(*also, 0, os::NamespaceKind::User), user) << "of the one that came first";
  EXPECT_EQ(id_of(kept, 1, os::NamespaceKind::Mount), id_of(*also, 1, os::NamespaceKind::Mount));
}

TEST_F(HostsAsNamespaces, AreMadeByTheNextIfTheirMakerDies) {
  auto first = std::make_unique<host::ControlSocket>(connected());
  const auto second = connected();
  host::Received wanted = ask(*first, "h1");
  wanted = make_fabric(*first, "h1");
  const auto hub_port = wanted.message.get<uabi::HostWanted>().plan.hub_port;
  ASSERT_TRUE(second.send(uabi::AskNamespaces{.version = uabi::kVersion, .host = "h1"}));
  first.reset();
  auto mine = second.receive(kWaitLimit);
  ASSERT_TRUE(mine && mine->message.holds<uabi::HostWanted>());
  EXPECT_NE(mine->message.get<uabi::HostWanted>().plan.hub_port, hub_port)
      << "the first may have used it";
  const host::Received kept = make_host(second, "h1", std::move(*mine));
  EXPECT_TRUE(kept.message.holds<uabi::HostKept>()) << refusal(kept);
}

TEST_F(HostsAsNamespaces, RefusesSwitchesStrangersAndForeignDescriptors) {
  EXPECT_THAT(refusal(ask(connected(), "s1")), HasSubstr("s1 is a switch"));
  EXPECT_THAT(refusal(ask(connected(), "h9")), HasSubstr("has no host or switch h9"));
  EXPECT_THAT(refusal(answer(connected(), uabi::AskNamespaces{.version = 1, .host = "h1"})),
              HasSubstr("version"));
  const os::UniqueFd null{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  EXPECT_THAT(refusal(answer(connected(),
                             uabi::KeepFabricNamespaces{.version = uabi::kVersion, .host = "h1"},
                             {null.get(), null.get()})),
              HasSubstr("not a fabric's"));
}

TEST_F(HostsAsNamespaces, ShowEachHostItsDevicesAndItsNeighbours) {
  const std::string port = "/sys/class/infiniband/weft0/ports/1/";
  EXPECT_EQ(read_on("h1", port + "state"), "4: ACTIVE\n");
  EXPECT_NE(read_on("h1", port + "lid"), read_on("h2", port + "lid"));
  EXPECT_EQ(read_on("h2", "/etc/hosts"), text_of(run() + "/test/hosts"));
  EXPECT_THAT(read_on("h2", "/etc/hosts"), HasSubstr("127.77.0.1\th1\n"));
  EXPECT_TRUE(on("h2", [] { return fs::exists("/dev/infiniband/uverbs0"); }));
}

TEST_F(HostsAsNamespaces, FollowChangesOfPortsAndHosts) {
  const std::string state = "/sys/class/infiniband/weft0/ports/1/state";
  ASSERT_EQ(read_on("h1", state), "4: ACTIVE\n");
  ASSERT_EQ(command(uabi::ChangePort{.version = uabi::kVersion, .port = "h1", .change = "unplug"}),
            "");
  EXPECT_EQ(read_on("h1", state), "1: DOWN\n");
  ASSERT_EQ(command(uabi::ChangeNode{.version = uabi::kVersion, .change = "add host h9 link=s1:7"}),
            "");
  EXPECT_THAT(read_on("h1", "/etc/hosts"), HasSubstr("127.77.0.3\th9\n"));
  const pid_t inside = start("h9", [] { return sleep(60) == 0; });
  ASSERT_EQ(command(uabi::ChangeNode{.version = uabi::kVersion, .change = "remove h9"}), "");
  int status = 0;
  ASSERT_EQ(waitpid(inside, &status, 0), inside);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << "its host is gone";
  EXPECT_EQ(read_on("h1", "/etc/hosts").find("h9"), std::string::npos);
}

TEST_F(HostsAsNamespaces, TellWhoEntersTooLateThatItsHostIsGone) {
  ASSERT_EQ(command(uabi::ChangeNode{.version = uabi::kVersion, .change = "add host h9 link=s1:7"}),
            "");
  EXPECT_EQ(read_on("h9", "/proc/sys/kernel/hostname"), "h9\n");
  const auto late = connected();
  EXPECT_TRUE(ask(late, "h9").message.holds<uabi::HostKept>());
  ASSERT_EQ(command(uabi::ChangeNode{.version = uabi::kVersion, .change = "remove h9"}), "");
  EXPECT_THAT(refusal(ask(late, "h9")), HasSubstr("has no host or switch h9"));
}

TEST_F(HostsAsNamespaces, CountPacketsWhenTheyAreLookedAt) {
  const std::string counter = "/sys/class/infiniband/weft0/ports/1/counters/port_xmit_packets";
  const auto before = std::stoull(read_on("h1", counter));
  // Any request of the manager crosses h1's link: a port that goes down and up again.
  ASSERT_EQ(command(uabi::ChangePort{.version = uabi::kVersion, .port = "h1", .change = "reset"}),
            "");
  unsigned long long after = before;
  for (int i = 0; i < 400 && after <= before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    after = std::stoull(read_on("h1", counter));
  }
  EXPECT_GT(after, before);
}

TEST_F(HostsAsNamespaces, EndWithTheFabric) {
  const pid_t inside = start("h1", [] { return sleep(60) == 0; });
  const pid_t stubborn = start("h2", [] { return sleep(60) == 0; }, SIG_IGN);
  const std::string directory = run() + "/test";
  auto socket = connected();
  ASSERT_TRUE(socket.send(uabi::Down{}));
  const auto said = socket.receive(kWaitLimit);
  ASSERT_TRUE(said) << said.error().reason;
  const auto* const text = said->message.get_if<uabi::Text>();
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(text->text, "2 processes on its hosts were ended, 1 of them by SIGKILL");
  int status = 0;
  ASSERT_EQ(waitpid(inside, &status, 0), inside);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  ASSERT_EQ(waitpid(stubborn, &status, 0), stubborn);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  fabric_->end();
  EXPECT_FALSE(fs::exists(directory));
}

/// Of a process on a host: 0, or the errno of a write.
[[nodiscard]] int write_file(const std::string& path, std::string_view text) {
  const os::UniqueFd file{open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC)};
  const bool is_written =
      file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return is_written ? 0 : errno;
}

TEST_F(HostsAsNamespaces, MakeVirtualFunctionsByTheFilesOfOperators) {
  const std::string device = "/sys/class/infiniband/weft0/device/";
  const auto write_on = [&](const std::string& file, std::string_view text, int error) {
    return on("h1", [&] { return write_file(device + file, text) == error; });
  };
  EXPECT_EQ(read_on("h1", device + "sriov_totalvfs"), "247\n");
  EXPECT_EQ(read_on("h1", device + "sriov_numvfs"), "0\n");
  EXPECT_TRUE(write_on("sriov_numvfs", "2\n", 0));
  EXPECT_EQ(read_on("h1", device + "sriov_numvfs"), "2\n");
  EXPECT_TRUE(write_on("sriov_numvfs", "3\n", EBUSY));
  EXPECT_TRUE(write_on("sriov_numvfs", "248\n", ERANGE));
  EXPECT_TRUE(write_on("sriov_numvfs", "two\n", EINVAL));
  EXPECT_TRUE(write_on("sriov_totalvfs", "2\n", EACCES));
  EXPECT_TRUE(write_on("sriov/2/port", "00:11:22:33:44:55:66:77\n", ENOENT)) << "0 and 1 are there";
  EXPECT_TRUE(write_on("sriov/1/port", "00:11:22:33:44:55:66:77\n", 0));
  EXPECT_EQ(read_on("h1", device + "sriov/1/port"), "00:11:22:33:44:55:66:77\n");
  EXPECT_TRUE(write_on("sriov/0/port", "00:11:22:33:44:55:66:77\n", EEXIST));
  EXPECT_TRUE(write_on("sriov/0/node", "00:11:22:33:44:55:66:88\n", 0));
  EXPECT_EQ(read_on("h1v1", "/sys/class/infiniband/weft0/node_guid"), "0011:2233:4455:6688\n");
  EXPECT_TRUE(on("h1v1", [&] { return !fs::exists(device + "sriov_numvfs"); }));
  EXPECT_EQ(command(uabi::ChangeNode{.version = uabi::kVersion, .change = "add vf v9 of=h1"}), "");
  EXPECT_EQ(read_on("h1", device + "sriov_numvfs"), "3\n") << "however they came";
  const pid_t inside = start("h1v2", [] { return sleep(60) == 0; });
  EXPECT_TRUE(write_on("sriov_numvfs", "0\n", 0));
  int status = 0;
  ASSERT_EQ(waitpid(inside, &status, 0), inside);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << "its host is gone";
  EXPECT_EQ(read_on("h1", device + "sriov_numvfs"), "0\n");
  EXPECT_THAT(refusal(ask(connected(), "h1v1")), HasSubstr("has no host or switch h1v1"));
}

}  // namespace
}  // namespace weft::daemon
