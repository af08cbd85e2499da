#pragma once

// Base of the live tests: a fabric whose daemon runs in a thread of the test.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/daemon.h"
#include "fabric/topology.h"
#include "host/process.h"
#include "os/unique_fd.h"

namespace weft::daemon::testing {

/// A daemon in a thread of this test, with its own run directory.
class LiveFabric {
 public:
  explicit LiveFabric(std::string_view kind) : LiveFabric(*fabric::generate(kind)) {}
  explicit LiveFabric(const fabric::Topology& topology, bool has_subnet_manager = true,
                      std::string ibsim = {}) {
    char pattern[] = "/tmp/weft-test-XXXXXX";
    run_ = mkdtemp(pattern);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    lifeline_ = os::UniqueFd{ends[1]};
    auto daemon = Daemon::create({.run = run_,
                                  .fabric = "test",
                                  .topology = topology,
                                  .has_subnet_manager = has_subnet_manager,
                                  .ibsim = std::move(ibsim),
                                  .lifeline = os::UniqueFd{ends[0]}});
    EXPECT_TRUE(daemon) << daemon.error().reason;
    daemon_ = std::make_unique<Daemon>(std::move(*daemon));
    thread_ = std::thread{[this] { daemon_->run(); }};
  }
  ~LiveFabric() {
    end();
    std::filesystem::remove_all(run_);
  }
  void end() {
    lifeline_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
    daemon_.reset();
  }

  [[nodiscard]] host::ProcessOptions on(std::string host) const {
    return {.run = run_, .fabric = "test", .host = std::move(host), .limits = {}};
  }
  /// Drop-in libraries find it by the environment, as under `weft exec`.
  void show_to_this_process() const {
    setenv("WEFT_RUN", run_.c_str(), 1);
    setenv("WEFT_FABRIC", "test", 1);
  }

 private:
  std::string run_;
  os::UniqueFd lifeline_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

}  // namespace weft::daemon::testing
