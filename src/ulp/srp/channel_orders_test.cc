// The order in which the CM and the QP report what happens to a channel is not the channel's to
// choose: random orders, each of which must end the channel once.

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>

#include "base/random.h"
#include "ulp/srp/testing/bench_channel.h"

namespace weft::srp {
namespace {

using scsi::testing::cdb10;
using testing::TargetBench;

class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed) {}

  void run() {
    const auto login = bench_.log_in();
    bool freed = false;
    int steps = 0;
    while (bench_.target.channel(login.id) != nullptr) {
      ASSERT_LT(++steps, 400) << "the channel does not end";
      const ChannelState before = bench_.channel(login).state();
      step(login);
      Channel* const channel = bench_.target.channel(login.id);
      if (channel != nullptr) {
        ASSERT_GE(channel->state(), before) << name_of(before);
        channel->check_invariants();
      }
      if (steps == 20) {
        std::ignore = bench_.target.release_port(TargetBench::kPort, [&] {
          ASSERT_FALSE(freed) << "freed_channels fires once";
          freed = true;
        });
      }
    }
    if (steps < 20) {
      std::ignore = bench_.target.release_port(TargetBench::kPort, [&] { freed = true; });
    }
    ASSERT_TRUE(freed);
    bench_.target.collect();
    ASSERT_EQ(bench_.target.channels(), 0U);
    ASSERT_EQ(bench_.disk.target.nexuses(), 0U);
    ASSERT_EQ(bench_.disk.unit->tasks(), 0U);
  }

 private:
  void step(const TargetBench::Login& login) {
    Channel& channel = bench_.channel(login);
    switch (random_.below(12)) {
      case 0:
        channel.handle_rtu();
        break;
      case 1:
        unlikely([&] { channel.handle_dreq(); });
        break;
      case 2:
        unlikely([&] { channel.handle_drep(); });
        break;
      case 3:
        unlikely([&] { channel.handle_timewait_exit(); });
        break;
      case 4:
        unlikely([&] { channel.disconnect(); });
        break;
      case 5:
        unlikely([&] { login.connection->has_failed = true; });
        break;
      case 6:
        bench_.disk.device.holds = random_.chance(1, 2);
        bench_.disk.device.release();
        break;
      case 7:
      case 8:
        if (channel.request_limit().available() > 0) {
          request(login);
        }
        break;
      default:
        bench_.report_one(login.id, *login.connection);
        break;
    }
  }
  void unlikely(auto what) {
    if (random_.chance(1, 4)) {
      what();
    }
  }
  void request(const TargetBench::Login& login) {
    const std::uint64_t tag = next_tag_++;
    if (random_.chance(1, 4)) {
      bench_.manage(login, wire::SrpTaskFunction::AbortTask, tag, tag - 1);
      return;
    }
    auto write = TargetBench::command(tag, cdb10(random_.chance(1, 2) ? 0x2A : 0x28, 0, 1));
    const wire::SrpDataBuffer buffer{.format = wire::SrpBufferFormat::Direct,
                                     .descriptors = {bench_.memory.allocate(512)},
                                     .length = 512};
    (write.header.cdb[0] == std::byte{0x2A} ? write.data_out : write.data_in) = buffer;
    bench_.request(login, write);
  }

  Random random_;
  TargetBench bench_;
  std::uint64_t next_tag_{1};
};

// T-SRPT-6
TEST(SrpChannelOrders, EveryOrderOfEventsGoesForwardAndEndsOnce) {
  constexpr std::uint64_t kOrders = 100'000;
  for (std::uint64_t seed = 1; seed <= kOrders; ++seed) {
    Life life{seed};
    life.run();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::srp
