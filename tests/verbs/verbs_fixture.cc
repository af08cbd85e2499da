// The fabric of this program's tests.

#include "verbs_fixture.h"

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <string>
#include <thread>

#include "daemon/daemon.h"

namespace {

/// One fabric for all tests of this program, which is a program on h1.
class Fabric : public ::testing::Environment {
 public:
  void SetUp() override {
    char pattern[] = "/tmp/weft-verbs-XXXXXX";
    run_ = mkdtemp(pattern);
    setenv("WEFT_RUN", run_.c_str(), 1);
    setenv("WEFT_FABRIC", "verbs", 1);
    setenv("WEFT_HOST", "h1", 1);
    setenv("WEFT_EXPLAIN", "1", 1);
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    lifeline_ = weft::host::UniqueFd{ends[1]};
    auto daemon = weft::daemon::Daemon::create({.run = run_,
                                                .fabric = "verbs",
                                                .topology = weft::fabric::generate_pair(),
                                                .lifeline = weft::host::UniqueFd{ends[0]}});
    ASSERT_TRUE(daemon) << daemon.error().reason;
    thread_ = std::thread{[owned = std::move(*daemon)]() mutable { owned.run(); }};
  }
  void TearDown() override {
    lifeline_.reset();
    thread_.join();
    std::filesystem::remove_all(run_);
  }

 private:
  std::string run_;
  weft::host::UniqueFd lifeline_;
  std::thread thread_;
};

const auto* const kFabric = ::testing::AddGlobalTestEnvironment(new Fabric);

}  // namespace
