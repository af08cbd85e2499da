// The files of virtual functions, as a process on a host meets them.

#include "daemon/namespaces/function_file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "namespaces/host_namespaces.h"

namespace weft::daemon {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int kWaitLimitMs = 20'000;
constexpr int kFailed = 255;
const std::string kFolder{"/sys/class/weft/"};

/// Of a process on the host: what it reads, or the errno.
[[nodiscard]] int read_file(const std::string& path, std::string& text) {
  const os::UniqueFd file{open((kFolder + path).c_str(), O_RDONLY | O_CLOEXEC)};
  std::array<char, 8192> bytes{};
  const ssize_t count = file ? read(file.get(), bytes.data(), bytes.size()) : -1;
  if (count < 0) {
    return errno;
  }
  text.assign(bytes.data(), static_cast<std::size_t>(count));
  return 0;
}

/// As a shell does with `>`.
[[nodiscard]] int write_file(const std::string& path, std::string_view text) {
  const os::UniqueFd file{open((kFolder + path).c_str(), O_WRONLY | O_TRUNC | O_CREAT, 0666)};
  const bool is_written =
      file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return is_written ? 0 : errno;
}

class FunctionFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "weft-functions-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    run_ = name;
    std::ofstream{run_ / "hosts"} << "127.77.0.1 h1\n";
    auto fabric = namespaces::make_fabric_namespaces();
    ASSERT_TRUE(fabric) << fabric.error().reason;
    fabric_ = std::move(*fabric);
    auto host = namespaces::make_host_namespaces(fabric_, {.name = "h1",
                                                           .addresses = {"127.77.0.1"},
                                                           .index = 1,
                                                           .hosts_file = run_ / "hosts",
                                                           .run_directory = run_,
                                                           .fabric_id = "x"});
    ASSERT_TRUE(host) << host.error().reason;
    host_ = std::move(*host);
    device_ = host_.functions.get();
    auto files = FunctionFileSystem::create(loop_, std::move(host_.functions),
                                            [this](const std::string& path, std::string_view text) {
                                              written_.emplace_back(path, text);
                                              if (on_write_) {
                                                on_write_();
                                              }
                                              return answer_;
                                            });
    ASSERT_TRUE(files) << files.error().reason;
    files_ = std::move(*files);
    files_->show(tree("0\n"));
  }
  void TearDown() override {
    files_.reset();
    fs::remove_all(run_);
  }

  [[nodiscard]] static host_view::FunctionTree tree(std::string count) {
    return {
        .folders = {"weft0",                                        "weft0/sriov"},
        .files = {{"weft0/sriov_numvfs", std::move(count), true},
                    {"weft0/sriov_totalvfs", "247\n"}                            }
    };
  }
  [[nodiscard]] static host_view::FunctionTree tree_with_a_function() {
    host_view::FunctionTree tree = FunctionFileSystemTest::tree("1\n");
    tree.folders.emplace_back("weft0/sriov/0");
    tree.files.push_back({"weft0/sriov/0/policy", "Follow\n", true});
    return tree;
  }

  [[nodiscard]] pid_t start(const std::function<int()>& work) const {
    const pid_t pid = fork();
    if (pid == 0) {
      close(device_);  // as every other process, which does not keep the file system alive
      _exit(namespaces::enter(fabric_.user, host_) ? work() : kFailed);
    }
    return pid;
  }
  /// Its exit status; none: it was still there after all that time.
  [[nodiscard]] std::optional<int> wait_for(pid_t pid) {
    int status = 0;
    for (int waited = 0; waited < kWaitLimitMs; waited += 5) {
      loop_.run_for(std::chrono::milliseconds{5});
      loop_.restart();
      if (waitpid(pid, &status, WNOHANG) == pid) {
        return WIFEXITED(status) ? std::optional{WEXITSTATUS(status)} : std::nullopt;
      }
      if (!files_) {
        usleep(5'000);  // the loop has nothing to wait for
      }
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return std::nullopt;
  }
  [[nodiscard]] std::optional<int> on(const std::function<int()>& work) {
    return wait_for(start(work));
  }

  fs::path run_;
  namespaces::FabricNamespaces fabric_;
  namespaces::HostNamespaces host_;
  asio::io_context loop_;
  std::vector<std::pair<std::string, std::string>> written_;
  std::function<void()> on_write_;
  int answer_{};
  int device_{-1};
  std::unique_ptr<FunctionFileSystem> files_;
};

/// Whether a file has this content.
[[nodiscard]] bool holds(const std::string& path, std::string_view content) {
  std::string text;
  return read_file(path, text) == 0 && text == content;
}

TEST_F(FunctionFileSystemTest, ShowsWhatThereIsNow) {
  const auto has_none = [] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator{kFolder + "weft0"}) {
      names.insert(entry.path().filename());
    }
    struct stat count{};
    struct stat total{};
    const bool has_modes = stat((kFolder + "weft0/sriov_numvfs").c_str(), &count) == 0 &&
                           stat((kFolder + "weft0/sriov_totalvfs").c_str(), &total) == 0 &&
                           count.st_mode == (S_IFREG | 0644) && total.st_mode == (S_IFREG | 0444);
    return names == std::set<std::string>{"sriov", "sriov_numvfs", "sriov_totalvfs"} && has_modes &&
                   holds("weft0/sriov_numvfs", "0\n") && holds("weft0/sriov_totalvfs", "247\n") &&
                   fs::is_empty(kFolder + "weft0/sriov")
               ? 0
               : 1;
  };
  EXPECT_EQ(on(has_none), 0);
  files_->show(tree_with_a_function());
  EXPECT_EQ(on([] {
              return holds("weft0/sriov_numvfs", "1\n") && holds("weft0/sriov/0/policy", "Follow\n")
                         ? 0
                         : 1;
            }),
            0);
  files_->show(tree("0\n"));
  EXPECT_EQ(on([] { return fs::exists(kFolder + "weft0/sriov/0") ? 1 : 0; }), 0);
  EXPECT_EQ(on(has_none), 0);
}

TEST_F(FunctionFileSystemTest, PassesWritesOnAndSaysWhatBecameOfThem) {
  EXPECT_EQ(on([] { return write_file("weft0/sriov_numvfs", "4\n"); }), 0);
  answer_ = EBUSY;
  EXPECT_EQ(on([] { return write_file("weft0/sriov_numvfs", "5\n"); }), EBUSY);
  EXPECT_THAT(written_,
              ElementsAre(Pair("weft0/sriov_numvfs", "4\n"), Pair("weft0/sriov_numvfs", "5\n")));
  written_.clear();
  answer_ = 0;
  EXPECT_EQ(on([] { return write_file("weft0/sriov_totalvfs", "5\n"); }), EACCES);
  EXPECT_EQ(on([] { return write_file("weft0/other", "5\n"); }), EACCES) << "nothing is made here";
  EXPECT_EQ(on([] { return write_file("weft0/sriov_numvfs", std::string(5000, '4')); }), EINVAL);
  EXPECT_EQ(on([] { return unlink((kFolder + "weft0/sriov_numvfs").c_str()) == 0 ? 0 : errno; }),
            EPERM);
  EXPECT_EQ(on([] { return mkdir((kFolder + "weft0/sriov/7").c_str(), 0777) == 0 ? 0 : errno; }),
            EPERM);
  EXPECT_EQ(
      on([] { return chmod((kFolder + "weft0/sriov_numvfs").c_str(), 0666) == 0 ? 0 : errno; }),
      EPERM);
  EXPECT_TRUE(written_.empty());
}

TEST_F(FunctionFileSystemTest, ShowsInTheSameWriteWhatItHasChanged) {
  files_->show(tree_with_a_function());
  on_write_ = [this] { files_->show(tree("0\n")); };
  EXPECT_EQ(on([] {
              const os::UniqueFd open_still{
                  open((kFolder + "weft0/sriov/0/policy").c_str(), O_RDWR | O_CLOEXEC)};
              char byte{};
              if (!open_still || write_file("weft0/sriov_numvfs", "0\n") != 0 ||
                  !holds("weft0/sriov_numvfs", "0\n")) {
                return 1;
              }
              const bool is_gone = read(open_still.get(), &byte, 1) < 0 && errno == ENODEV &&
                                   write(open_still.get(), "Up\n", 3) < 0 && errno == ENODEV;
              return is_gone ? 0 : 2;
            }),
            0);
  EXPECT_EQ(written_.size(), 1U);
}

TEST_F(FunctionFileSystemTest, LetsNobodyWaitForAnOwnerThatIsGone) {
  const auto read_count = [] {
    std::string text;
    return read_file("weft0/sriov_numvfs", text);
  };
  EXPECT_EQ(on(read_count), 0);
  const pid_t waiting = start(read_count);
  usleep(100'000);  // nobody answers meanwhile
  EXPECT_EQ(waitpid(waiting, nullptr, WNOHANG), 0) << "it waits for its answer";
  files_.reset();
  const auto status = wait_for(waiting);
  ASSERT_TRUE(status);
  EXPECT_TRUE(*status == ECONNABORTED || *status == ENOTCONN) << *status;
  EXPECT_EQ(on(read_count), ENOTCONN);
  EXPECT_EQ(on([] { return fs::exists("/sys/class/net") && fs::exists("/dev/null") ? 0 : 1; }), 0)
      << "the rest of the host is as before";
}

TEST(FunctionFileSystems, AreOfNothingButFuse) {
  asio::io_context loop;
  os::UniqueFd null{open("/dev/null", O_RDWR | O_CLOEXEC)};
  EXPECT_FALSE(is_fuse_device(null));
  const auto refused = FunctionFileSystem::create(loop, std::move(null), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_FALSE(is_fuse_device(os::UniqueFd{}));
}

}  // namespace
}  // namespace weft::daemon
