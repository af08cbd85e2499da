// The fabric of this program's tests.

#include "verbs_fixture.h"

#include <stdlib.h>

#include <memory>

#include "daemon/testing/live_fabric.h"

namespace {

/// One fabric for all tests of this program, which is a program on h1.
class Fabric : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric_ = std::make_unique<weft::daemon::testing::LiveFabric>("pair");
    fabric_->show_to_this_process();
    setenv("WEFT_HOST", "h1", 1);
    setenv("WEFT_EXPLAIN", "1", 1);
  }
  void TearDown() override { fabric_.reset(); }

 private:
  std::unique_ptr<weft::daemon::testing::LiveFabric> fabric_;
};

const auto* const kFabric = ::testing::AddGlobalTestEnvironment(new Fabric);

}  // namespace
