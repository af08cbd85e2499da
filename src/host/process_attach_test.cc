#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "host/process.h"
#include "host/testing/tables_daemon.h"
#include "os/clock.h"

/// What a program hears before it may send.
namespace weft::host {
namespace {

using ::testing::HasSubstr;

class NoEvents final : public ProcessEvents {
 public:
  void completion_event(std::uint32_t, hca::CompletionQueue&) override {}
  void async_event(std::uint32_t, const hca::AsyncEvent&) override {}
  void fabric_gone(std::string_view) override {}
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}
};

class AttachingProcess : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Process>> open() {
    return Process::open({.run = daemon_.run, .fabric = "test", .host = "h1", .limits = {}},
                         events_);
  }

  NoEvents events_;
  testing::TablesDaemon daemon_;
};

TEST_F(AttachingProcess, IsOpenOnceTheDaemonHasSaidWhatThereWasBefore) {
  std::atomic<bool> is_open{};
  bool was_open = true;
  daemon_.send_initial_state = [&] {
    const Instant start = os::now();
    while (os::now() - start < Duration::milliseconds(50)) {
      std::this_thread::yield();
    }
    was_open = is_open;
  };
  std::thread daemon{[&] { daemon_.admit_program(); }};
  const auto process = open();
  is_open = true;
  daemon.join();
  ASSERT_TRUE(process) << process.error().reason;
  EXPECT_FALSE(was_open);
}

TEST_F(AttachingProcess, IsToldOfADaemonThatEndsMeanwhile) {
  daemon_.send_initial_state = [&] { daemon_.control.close(); };
  std::thread daemon{[&] { daemon_.admit_program(); }};
  const auto process = open();
  daemon.join();
  ASSERT_FALSE(process);
  EXPECT_THAT(process.error().reason, HasSubstr("fabric test is gone"));
}

}  // namespace
}  // namespace weft::host
