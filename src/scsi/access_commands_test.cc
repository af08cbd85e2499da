#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "scsi/command_table.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::BenchOptions;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::Exchange;

Bytes reserve_out(unsigned action, unsigned type = 0) {
  return bytes({0x5F, action, type, 0, 0, 0, 0, 0, 24, 0});
}
Bytes keys(std::uint64_t key, std::uint64_t action_key, unsigned flags = 0) {
  Bytes list(24);
  store_number(list, 0, 8, key);
  store_number(list, 8, 8, action_key);
  store_number(list, 20, 1, flags);
  return list;
}
Bytes report_one(unsigned options, unsigned opcode, unsigned action = 0) {
  return bytes({0xA3, 0x0C, options, opcode, 0, action, 0, 0, 1, 0, 0, 0});
}

TEST(AccessCommands, AReservationKeepsOthersOut) {  // SPC-4 §5.13
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  ASSERT_TRUE(bench.run(a, reserve_out(0), keys(0, 0xA)).good());
  ASSERT_TRUE(bench.run(a, reserve_out(1, 3), keys(0xA, 0)).good());
  EXPECT_EQ(bench.run(b, cdb10(0x28, 0, 1), {}, 512).status(), Status::ReservationConflict);
  EXPECT_TRUE(bench.run(b, bytes({0x12, 0, 0, 0, 36, 0}), {}, 36).good());
  EXPECT_TRUE(bench.run(b, cdb10(0x25, 0, 0), {}, 8).good());
  EXPECT_TRUE(bench.run(a, cdb10(0x28, 0, 1), {}, 512).good());
  const Answer read = bench.run(b, bytes({0x5E, 1, 0, 0, 0, 0, 0, 0, 255, 0}), {}, 255);
  ASSERT_EQ(read.data.size(), 24u);
  EXPECT_EQ(load64(read.data, 8), 0xAu);
  EXPECT_TRUE(bench.run(b, bytes({0x1B, 0, 0, 0, 1, 0})).good());  // START
  EXPECT_EQ(bench.run(b, bytes({0x1B, 0, 0, 0, 0, 0})).status(), Status::ReservationConflict);
}

TEST(AccessCommands, PreemptAndAbortEndsWhenTheVictimsCommandsHave) {  // SPC-4 §5.13.11.2.5
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  ASSERT_TRUE(bench.run(a, reserve_out(0), keys(0, 0xA)).good());
  ASSERT_TRUE(bench.run(b, reserve_out(0), keys(0, 0xB)).good());
  bench.device.holds = true;
  Exchange& write = bench.start(b, cdb10(0x2A, 0, 1), Bytes(512));
  Exchange& preempt = bench.start(a, reserve_out(5, 1), keys(0xA, 0xB));
  EXPECT_FALSE(preempt.answer.ended);
  ASSERT_TRUE(bench.device.release());
  EXPECT_TRUE(write.answer.ended);
  EXPECT_FALSE(write.answer.completion.has_status);
  EXPECT_TRUE(preempt.answer.good());
  const Answer first = bench.run(b, bytes({0, 0, 0, 0, 0, 0}));
  const Answer second = bench.run(b, bytes({0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(first.sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::RegistrationsPreempted));
  EXPECT_EQ(second.sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::CommandsClearedByAnotherInitiator));
}

class SlowStore final : public ReservationStore {
 public:
  void save(std::uint64_t number, std::vector<std::byte> image,
            std::function<void(bool)> done) override {
    numbers.push_back(number);
    last = std::move(image);
    waiting = std::move(done);
  }
  std::vector<std::uint64_t> numbers;
  std::vector<std::byte> last;
  std::function<void(bool)> waiting;
};

TEST(AccessCommands, AptplIsDurableBeforeItsStatus) {  // SPC-4 §5.13.5
  SlowStore store;
  Bench bench({
      .unit = {.serial = "SN01", .store = &store}
  });
  const NexusId a = bench.open(1);
  Exchange& saved = bench.start(a, reserve_out(0), keys(0, 0xA, 1));
  EXPECT_FALSE(saved.answer.ended);
  std::exchange(store.waiting, nullptr)(true);
  EXPECT_TRUE(saved.answer.good());
  Exchange& lost = bench.start(a, reserve_out(1, 1), keys(0xA, 0));
  std::exchange(store.waiting, nullptr)(false);
  EXPECT_EQ(lost.answer.sense(),
            testing::sense(SenseKey::HardwareError, SenseCode::InternalTargetFailure));
  EXPECT_EQ(store.numbers, (std::vector<std::uint64_t>{1, 2}));
  Bench restarted;
  ASSERT_TRUE(restarted.unit->restore_reservations(store.last).has_value());
  EXPECT_EQ(restarted.run(restarted.open(2), cdb10(0x2A, 0, 1), Bytes(512)).status(),
            Status::ReservationConflict);
  Bench without;
  EXPECT_EQ(without.run(without.open(1), reserve_out(0), keys(0, 1, 1)).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInParameterList));
}

TEST(AccessCommands, ReserveEndsWithItsNexusAndWithResets) {  // SPC-2 §5.5.1
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  ASSERT_TRUE(bench.run(a, bytes({0x16, 0, 0, 0, 0, 0})).good());
  EXPECT_EQ(bench.run(b, bytes({0, 0, 0, 0, 0, 0})).status(), Status::ReservationConflict);
  bench.target.close_nexus(a, [] {});
  EXPECT_TRUE(bench.run(b, bytes({0, 0, 0, 0, 0, 0})).good());
  ASSERT_TRUE(bench.run(b, bytes({0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0})).good());
  const NexusId c = bench.open(3);
  bench.manage(c, TaskManagement::LogicalUnitReset);
  EXPECT_EQ(bench.run(c, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::BusDeviceResetOccurred));
  EXPECT_TRUE(bench.run(c, cdb10(0x28, 0, 1), {}, 512).good());
}

TEST(AccessCommands, AccessStatesAdmitCommandsByPort) {  // SPC-4 §5.16.2.4 to §5.16.2.7
  Bench bench;
  const NexusId first = bench.open(1, 1);
  const NexusId second = bench.open(1, 2);
  const Bytes list = bytes({0, 0, 0, 0, 2, 0, 0, 2});  // group 2: standby
  EXPECT_TRUE(bench.run(first, bytes({0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0}), list).good());
  EXPECT_EQ(bench.run(second, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::AccessStateChanged));
  EXPECT_EQ(bench.run(second, cdb10(0x28, 0, 1), {}, 512).sense(),
            testing::sense(SenseKey::NotReady, SenseCode::StandbyAccessState));
  EXPECT_TRUE(bench.run(second, bytes({0x1A, 8, 8, 0, 255, 0}), {}, 255).good());
  EXPECT_TRUE(bench.run(first, cdb10(0x28, 0, 1), {}, 512).good());
  ASSERT_TRUE(bench.unit->set_access_state(2, AccessState::Unavailable).has_value());
  bench.run(second, bytes({0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bench.run(second, bytes({0x1A, 8, 8, 0, 255, 0}), {}, 255).sense(),
            testing::sense(SenseKey::NotReady, SenseCode::UnavailableAccessState));
  const Answer report =
      bench.run(second, bytes({0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}), {}, 256);
  ASSERT_EQ(report.data.size(), 28u);
  EXPECT_EQ(load8(report.data, 16), 3);
  EXPECT_FALSE(bench.unit->set_access_state(9, AccessState::Standby).has_value());
}

TEST(AccessCommands, SupportedCommandsAreThoseOfTheTable) {  // SPC-4 §6.35
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Answer all =
      bench.run(nexus, bytes({0xA3, 0x0C, 0x80, 0, 0, 0, 0, 0, 8, 0, 0, 0}), {}, 2048);
  constexpr std::size_t kOfType2 = 5;  // READ (32) and its like
  EXPECT_EQ(all.data.size(), 4 + 20 * (command_table().size() - kOfType2));
  EXPECT_EQ(load8(bench.run(nexus, report_one(2, 0x7F, 0x09), {}, 256).data, 1), 1);
  const Answer read = bench.run(nexus, report_one(1, 0x28), {}, 256);
  ASSERT_EQ(read.data.size(), 14u);
  EXPECT_EQ(load32(read.data, 0), 0x0003'000Au);
  EXPECT_EQ(load16(read.data, 4), 0x28FE);
  const Answer action = bench.run(nexus, report_one(2, 0x9E, 0x10), {}, 256);
  EXPECT_EQ(load16(action.data, 4), 0x9E10);
  EXPECT_EQ(load8(bench.run(nexus, report_one(1, 0x99), {}, 256).data, 1), 1);  // not supported
  EXPECT_EQ(load8(bench.run(nexus, report_one(2, 0x9E, 0x1F), {}, 256).data, 1), 1);
  EXPECT_FALSE(bench.run(nexus, report_one(1, 0x9E), {}, 256).good());
  EXPECT_FALSE(bench.run(nexus, report_one(2, 0x28), {}, 256).good());
  EXPECT_EQ(load8(bench.run(nexus, report_one(3, 0x28), {}, 256).data, 1), 3);
  EXPECT_EQ(
      load16(bench.run(nexus, bytes({0xA3, 0x0D, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0}), {}, 4).data, 0),
      0xFE07);
  BenchOptions type_2{.keeps_protection = true};
  type_2.unit.protection = ProtectionType::Type2;
  Bench protected_bench{type_2};
  const Answer long_read =
      protected_bench.run(protected_bench.open(1), report_one(2, 0x7F, 0x09), {}, 256);
  EXPECT_EQ(load8(long_read.data, 1), 3);
  EXPECT_EQ(load16(long_read.data, 2), 32);
}

}  // namespace
}  // namespace weft::scsi
