#include "scsi/target.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::Exchange;

TEST(Target, ThreeCommandsAreAnsweredForUnitsThatAreNotThere) {  // SPC-4 §6.6.2, §6.33, §6.39
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.lun = 9ull << 48;
  const std::uint32_t missing =
      testing::sense(SenseKey::IllegalRequest, SenseCode::LogicalUnitNotSupported);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).sense(), missing);
  EXPECT_EQ(load8(bench.run(nexus, bytes({0x12, 0, 0, 0, 36, 0}), {}, 36).data, 0), 0x7F);
  EXPECT_EQ(bench.run(nexus, bytes({0x12, 1, 0, 0, 36, 0}), {}, 36).sense(), missing);
  EXPECT_EQ(load16(bench.run(nexus, bytes({3, 0, 0, 0, 18, 0}), {}, 18).data, 12), 0x2500);
  EXPECT_EQ(bench.run(nexus, bytes({0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0}), {}, 64).data.size(),
            16u);
  EXPECT_EQ(**bench.manage(nexus, TaskManagement::AbortTaskSet),
            TaskManagementResponse::IncorrectLun);
}

/// As Linux's ib_srp sends commands by a channel for each CPU.
TEST(Target, ChannelsOfOneNexusShareWhatUnitsKeepForIt) {
  Bench bench;
  const NexusId first = bench.open(1);
  const NexusId second = *bench.target.open_nexus(PortId{1}, Bench::initiator(1), true);
  const NexusId other = bench.open(2);
  const Bytes ready = bytes({0, 0, 0, 0, 0, 0});
  EXPECT_TRUE(bench.run(second, ready).good()) << "the nexus is not new";
  // MODE SELECT of the control page, with SWP.
  Bytes page = bytes({0, 0, 0, 0, 0x0A, 0x0A, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(bench.run(first, bytes({0x15, 0x10, 0, 0, 16, 0}), page).good());
  EXPECT_TRUE(bench.run(second, ready).good());
  EXPECT_EQ(bench.run(other, ready).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::ModeParametersChanged));
  bench.target.close_nexus(first, [] {});
  const NexusId third = *bench.target.open_nexus(PortId{1}, Bench::initiator(1), true);
  EXPECT_TRUE(bench.run(third, ready).good());
  // Of the nexus all commands are aborted, and all that it has reserved stays with the last one.
  ASSERT_TRUE(bench.run(second, bytes({0x16, 0, 0, 0, 0, 0})).good());
  bench.device.holds = true;
  const Exchange& running = bench.start(second, cdb10(0x28, 0, 1), {}, 512);
  const auto aborted = bench.manage(third, TaskManagement::AbortTaskSet);
  bench.device.release();
  EXPECT_EQ(**aborted, TaskManagementResponse::Complete);
  EXPECT_FALSE(running.answer.completion.has_status);
  bench.target.close_nexus(third, [] {});
  bench.device.holds = false;
  EXPECT_EQ(bench.run(other, cdb10(0x28, 0, 1), {}, 512).status(), Status::ReservationConflict);
  // Who logs in for a session of its own has a new nexus.
  const NexusId fresh = *bench.target.open_nexus(PortId{1}, Bench::initiator(1));
  EXPECT_EQ(bench.run(fresh, ready).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::PowerOnOccurred));
}

TEST(Target, AClosedNexusEndsItsCommandsWithoutStatus) {  // SAM-5 §6.3.4
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  bench.device.holds = true;
  Exchange& running = bench.start(a, cdb10(0x28, 0, 1), {}, 512);
  Exchange& dormant = bench.start(a, cdb10(0x28, 0, 1), {}, 512, TaskAttribute::Ordered);
  Exchange& other = bench.start(b, cdb10(0x28, 0, 1), {}, 512);
  bool closed = false;
  bench.target.close_nexus(a, [&] { closed = true; });
  EXPECT_TRUE(dormant.answer.ended);
  EXPECT_FALSE(closed);
  EXPECT_EQ(bench.target.nexuses(), 1u);
  EXPECT_FALSE(bench.run(a, bytes({0, 0, 0, 0, 0, 0})).completion.has_status);
  bench.device.release();
  EXPECT_TRUE(closed);
  EXPECT_FALSE(running.answer.completion.has_status);
  EXPECT_FALSE(dormant.answer.completion.has_status);
  bench.device.release();
  EXPECT_TRUE(other.answer.good());
  bool again = false;
  bench.target.close_nexus(a, [&] { again = true; });
  EXPECT_TRUE(again);
}

TEST(Target, RegistrationsOutliveTheirNexus) {  // SPC-4 §5.13.1
  Bench bench;
  const NexusId a = bench.open(1);
  Bytes keys(24);
  store_number(keys, 8, 8, 5);
  ASSERT_TRUE(bench.run(a, bytes({0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0}), keys).good());
  store_number(keys, 0, 8, 5);
  ASSERT_TRUE(bench.run(a, bytes({0x5F, 1, 3, 0, 0, 0, 0, 0, 24, 0}), keys).good());
  bench.target.close_nexus(a, [] {});
  EXPECT_EQ(bench.run(bench.open(2), cdb10(0x28, 0, 1), {}, 512).status(),
            Status::ReservationConflict);
  EXPECT_TRUE(bench.run(bench.open(1), cdb10(0x28, 0, 1), {}, 512).good());
  EXPECT_EQ(bench.run(bench.open(1, 2), cdb10(0x28, 0, 1), {}, 512).status(),
            Status::ReservationConflict);  // through another port
}

TEST(Target, ARemovedUnitLetsGoOfItsDevice) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  ASSERT_TRUE(bench.target.add_unit({.lun = Lun{1}}, *bench.ram).has_value());
  bench.run(nexus, bytes({0, 0, 0, 0, 0, 0}));
  bench.device.holds = true;
  Exchange& running = bench.start(nexus, cdb10(0x28, 0, 1), {}, 512);
  bool removed = false;
  ASSERT_TRUE(bench.target.remove_unit(Lun{0}, [&] { removed = true; }).has_value());
  EXPECT_FALSE(removed);
  bench.device.release();
  EXPECT_TRUE(removed);
  EXPECT_FALSE(running.answer.completion.has_status);
  EXPECT_FALSE(bench.target.remove_unit(Lun{0}, [] {}).has_value());
  bench.lun = 1ull << 48;
  bench.run(nexus, bytes({0, 0, 0, 0, 0, 0}));  // power on
  EXPECT_EQ(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::ReportedLunsDataChanged));
}

TEST(Target, RefusesWhatDoesNotFit) {
  Bench bench;
  EXPECT_EQ(bench.target.add_port({.id = PortId{1}}).error().code, ErrorCode::Exists);
  EXPECT_EQ(bench.target.add_port({.id = PortId{0}}).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(bench.target.add_unit({.lun = Lun{0}}, bench.device).error().code, ErrorCode::Exists);
  EXPECT_EQ(
      bench.target.add_unit({.lun = Lun{2}, .protection = ProtectionType::Type1}, bench.device)
          .error()
          .code,
      ErrorCode::InvalidArgument);
  EXPECT_EQ(bench.target.open_nexus(PortId{7}, Bench::initiator(1)).error().code,
            ErrorCode::NotFound);
}

// Threads with nexuses of their own increment counters in shared blocks by COMPARE AND WRITE.
class Incrementer final : public CommandClient {
 public:
  Incrementer(Target& target, unsigned name) : target_(target) {
    nexus_ = *target.open_nexus(PortId{1}, Bench::initiator(name));
  }
  void handle_completion(Command& /*command*/, const Completion& completion) override {
    completion_ = completion;
    ended_.store(true, std::memory_order_release);
  }
  void increment(unsigned times) {
    constexpr unsigned kMaxAttempts = 1'000'000;
    for (unsigned done = 0, attempts = 0; done < times; ++attempts) {
      ASSERT_LT(attempts, kMaxAttempts);
      Bytes block(512);
      if (!issue(testing::cdb16(0x88, 0, 1), {}, block)) {
        continue;  // the unit attention
      }
      Bytes both = block;
      both.insert(both.end(), block.begin(), block.end());
      store_number(both, 512, 8, load64(block, 0) + 1);
      Bytes cdb(16);
      store_number(cdb, 0, 1, 0x89);
      store_number(cdb, 13, 1, 1);
      done += issue(cdb, both, {}) ? 1 : 0;
    }
  }

 private:
  bool issue(const Bytes& cdb, const Bytes& out, MutableByteSpan in) {
    Command command{.nexus = nexus_, .tag = tag_++, .cdb = cdb, .data_out = out, .data_in = in};
    command.client = this;
    ended_.store(false, std::memory_order_relaxed);
    target_.submit(command);
    while (!ended_.load(std::memory_order_acquire)) {  // another thread may run what waited
      std::this_thread::yield();
    }
    return completion_.status == Status::Good;
  }

  Target& target_;
  NexusId nexus_;
  std::uint64_t tag_{};
  Completion completion_;
  std::atomic<bool> ended_{};
};

TEST(Target, ManyThreadsIncrementWithoutLosingAny) {
  constexpr unsigned kThreads = 3;
  constexpr unsigned kTimes = 200;
  const auto ram = *RamDevice::create({.bytes = 8192, .locks = LockPolicy::Spin});
  Target target({.locks = LockPolicy::Spin});
  ASSERT_TRUE(target.add_port({.id = PortId{1}}).has_value());
  ASSERT_TRUE(target.add_unit({}, *ram).has_value());
  std::vector<std::unique_ptr<Incrementer>> clients;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    clients.push_back(std::make_unique<Incrementer>(target, i));
    threads.emplace_back([client = clients.back().get()] { client->increment(kTimes); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Incrementer last(target, 99);
  last.increment(1);
  std::vector<std::byte> block(512);
  struct Reader final : BlockClient {
    void handle_block_result(BlockRequest& /*request*/, const BlockResult& /*result*/) override {}
  } reader;
  BlockRequest request{.operation = BlockOperation::Read, .blocks = 1, .read_into = block};
  request.client = &reader;
  ram->submit(request);
  EXPECT_EQ(load64(block, 0), kThreads * kTimes + 1);
}

}  // namespace
}  // namespace weft::scsi
