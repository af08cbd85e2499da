#include "scsi/logical_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::cdb16;
using testing::Exchange;
using testing::with_naca;

const Bytes kReady = bytes({0, 0, 0, 0, 0, 0});

Exchange& read(Bench& bench, NexusId nexus, std::uint64_t lba,
               TaskAttribute attribute = TaskAttribute::Simple) {
  return bench.start(nexus, cdb10(0x28, lba, 1), {}, 512, attribute);
}

struct Held : Bench {
  explicit Held(const Options& options = {}) : Bench(options) {
    a = open(1);
    b = open(2);
    device.holds = true;
  }
  ~Held() {
    while (device.release()) {
    }
  }
  NexusId a;
  NexusId b;
};

TEST(TaskSet, OrderedWaitsForAllOlderAndSimpleForOrdered) {  // SAM-5 §8.6.2, §8.6.3
  Held bench;
  read(bench, bench.a, 0);
  read(bench, bench.b, 1);
  Exchange& ordered = read(bench, bench.a, 2, TaskAttribute::Ordered);
  Exchange& after = read(bench, bench.b, 3);
  EXPECT_EQ(bench.device.waiting(), 2u);
  bench.device.release(1);
  EXPECT_EQ(bench.device.waiting(), 1u);
  bench.device.release();
  EXPECT_EQ(bench.device.waiting(), 1u);  // the ordered one alone
  EXPECT_FALSE(after.answer.ended);
  bench.device.release();
  EXPECT_TRUE(ordered.answer.good());
  EXPECT_EQ(bench.device.waiting(), 1u);
  bench.device.release();
  EXPECT_TRUE(after.answer.good());
  EXPECT_EQ(bench.unit->tasks(), 0u);
}

TEST(TaskSet, HeadOfQueueOvertakesWhatWaits) {  // SAM-5 §8.6.4
  Held bench;
  read(bench, bench.a, 0);
  Exchange& ordered = read(bench, bench.a, 1, TaskAttribute::Ordered);
  Exchange& head = read(bench, bench.b, 2, TaskAttribute::HeadOfQueue);
  EXPECT_EQ(bench.device.waiting(), 2u);
  bench.device.release();
  EXPECT_FALSE(ordered.answer.ended);  // waits for the head of queue, too
  bench.device.release();
  EXPECT_TRUE(head.answer.good());
  EXPECT_EQ(bench.device.waiting(), 1u);
  bench.device.release();
  EXPECT_TRUE(ordered.answer.good());
}

TEST(TaskSet, OverlappingWritesKeepTheirOrderAndReadsRunTogether) {
  Held bench;
  bench.start(bench.a, cdb10(0x2A, 0, 4), Bytes(2048, std::byte{1}));
  Exchange& second = bench.start(bench.a, cdb10(0x2A, 2, 4), Bytes(2048, std::byte{2}));
  Exchange& beside = bench.start(bench.a, cdb10(0x2A, 10, 1), Bytes(512));
  Exchange& reader = read(bench, bench.b, 3);
  Exchange& reader_too = read(bench, bench.b, 3);
  EXPECT_EQ(bench.device.waiting(), 2u);
  bench.device.release(1);
  EXPECT_TRUE(beside.answer.good());
  bench.device.release();
  EXPECT_EQ(bench.device.waiting(), 1u);
  bench.device.release();
  EXPECT_TRUE(second.answer.good());
  EXPECT_EQ(bench.device.waiting(), 2u);
  bench.device.release();
  bench.device.release();
  EXPECT_EQ(reader.answer.data, Bytes(512, std::byte{2}));
  EXPECT_EQ(reader_too.answer.data, Bytes(512, std::byte{2}));
}

TEST(TaskSet, IsFullOrBusyAtItsLimits) {  // SAM-5 §5.3.1
  Held bench({
      .unit = {.serial = "SN01", .max_tasks = 3, .max_tasks_of_nexus = 2}
  });
  read(bench, bench.a, 0);
  read(bench, bench.a, 1);
  EXPECT_EQ(read(bench, bench.a, 2).answer.status(), Status::TaskSetFull);
  read(bench, bench.b, 3);
  EXPECT_EQ(read(bench, bench.b, 4).answer.status(), Status::TaskSetFull);
  bench.device.holds = false;
  const NexusId c = *bench.target.open_nexus(PortId{1}, Bench::initiator(3));
  EXPECT_EQ(read(bench, c, 5).answer.status(), Status::Busy);
}

TEST(TaskSet, ATagInUseAbortsTheCommandsOfItsNexus) {  // SAM-5 §5.11
  Held bench;
  Exchange& first = bench.start(bench.a, cdb10(0x28, 0, 1), {}, 512, TaskAttribute::Simple, 7);
  Exchange& other = read(bench, bench.b, 0);
  Exchange& again = bench.start(bench.a, cdb10(0x28, 1, 1), {}, 512, TaskAttribute::Simple, 7);
  EXPECT_EQ(again.answer.sense(),
            testing::sense(SenseKey::AbortedCommand, SenseCode::OverlappedCommandsAttempted));
  bench.device.release();
  EXPECT_TRUE(first.answer.ended);
  EXPECT_FALSE(first.answer.completion.has_status);
  bench.device.release();
  EXPECT_TRUE(other.answer.good());
}

TEST(Aca, BlocksTheTaskSetUntilItIsCleared) {  // SAM-5 §5.9
  Held bench;
  Exchange& running = read(bench, bench.b, 0);
  Exchange& failed = bench.start(bench.a, with_naca(cdb10(0x28, 9999, 1)), {}, 512);
  EXPECT_EQ(failed.answer.status(), Status::CheckCondition);
  EXPECT_EQ(bench.run(bench.a, kReady).status(), Status::AcaActive);
  EXPECT_EQ(bench.run(bench.b, kReady).status(), Status::Busy);
  EXPECT_EQ(bench.run(bench.b, with_naca(kReady)).status(), Status::AcaActive);
  bench.device.release();
  EXPECT_FALSE(running.answer.ended);  // blocked
  Exchange& aca = bench.start(bench.a, kReady, {}, 0, TaskAttribute::Aca);
  EXPECT_TRUE(aca.answer.good());
  EXPECT_EQ(**bench.manage(bench.b, TaskManagement::ClearAca), TaskManagementResponse::Rejected);
  EXPECT_EQ(**bench.manage(bench.a, TaskManagement::ClearAca), TaskManagementResponse::Complete);
  EXPECT_TRUE(running.answer.good());
  EXPECT_TRUE(bench.run(bench.a, kReady).good());
  EXPECT_EQ(bench.start(bench.a, kReady, {}, 0, TaskAttribute::Aca).answer.sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidMessage));
}

TEST(Aca, EndsWithAFailedCommandThatDoesNotWantAnother) {  // SAM-5 §5.9.5
  Bench bench;
  const NexusId a = bench.open(1);
  bench.start(a, with_naca(cdb10(0x28, 9999, 1)), {}, 512);
  EXPECT_EQ(bench.start(a, cdb10(0x28, 9999, 1), {}, 512, TaskAttribute::Aca).answer.status(),
            Status::CheckCondition);
  EXPECT_TRUE(bench.run(a, kReady).good());
}

TEST(TaskManagement, AbortTaskEndsWhenTheDeviceHasLetGo) {  // SAM-5 §7.2
  Held bench;
  Exchange& victim = bench.start(bench.a, cdb10(0x28, 0, 1), {}, 512, TaskAttribute::Simple, 5);
  EXPECT_EQ(**bench.manage(bench.b, TaskManagement::AbortTask, 5),
            TaskManagementResponse::TaskNotFound);  // another nexus
  EXPECT_EQ(**bench.manage(bench.a, TaskManagement::QueryTask, 5),
            TaskManagementResponse::Succeeded);
  const auto response = bench.manage(bench.a, TaskManagement::AbortTask, 5);
  EXPECT_FALSE(response->has_value());
  EXPECT_FALSE(victim.answer.ended);
  bench.device.release();
  EXPECT_EQ(**response, TaskManagementResponse::Complete);
  EXPECT_TRUE(victim.answer.ended);
  EXPECT_FALSE(victim.answer.completion.has_status);
  EXPECT_EQ(**bench.manage(bench.a, TaskManagement::QueryTask, 5),
            TaskManagementResponse::Complete);
}

TEST(TaskManagement, AbortTaskSetIsOfOneNexusAndFreesWhatWaits) {  // SAM-5 §7.3
  Held bench;
  Exchange& running = bench.start(bench.a, cdb10(0x2A, 0, 1), Bytes(512));
  Exchange& blocked = bench.start(bench.a, cdb10(0x2A, 0, 1), Bytes(512));
  Exchange& dormant = read(bench, bench.a, 5, TaskAttribute::Ordered);
  Exchange& other = read(bench, bench.b, 6);
  const auto response = bench.manage(bench.a, TaskManagement::AbortTaskSet);
  EXPECT_TRUE(blocked.answer.ended);
  EXPECT_TRUE(dormant.answer.ended);
  EXPECT_FALSE(running.answer.ended);
  EXPECT_FALSE(response->has_value());
  bench.device.release();
  EXPECT_TRUE(running.answer.ended);
  EXPECT_EQ(**response, TaskManagementResponse::Complete);
  bench.device.release();
  EXPECT_TRUE(other.answer.good());
}

TEST(TaskManagement, ClearTaskSetTellsOthersOrSendsTaskAborted) {  // SAM-5 §7.5, §5.6
  for (const bool task_aborted : {false, true}) {
    Held bench({
        .unit = {.serial = "SN01", .modes = {.task_aborted_status = task_aborted}}
    });
    Exchange& other = read(bench, bench.b, 0);
    const auto response = bench.manage(bench.a, TaskManagement::ClearTaskSet);
    bench.device.release();
    EXPECT_EQ(**response, TaskManagementResponse::Complete);
    EXPECT_EQ(other.answer.completion.has_status, task_aborted);
    const Answer next = bench.run(bench.b, kReady);
    if (task_aborted) {
      EXPECT_EQ(other.answer.status(), Status::TaskAborted);
      EXPECT_TRUE(next.good());
    } else {
      EXPECT_EQ(next.sense(), testing::sense(SenseKey::UnitAttention,
                                             SenseCode::CommandsClearedByAnotherInitiator));
    }
  }
}

TEST(TaskManagement, ResetsTellEveryNexus) {  // SAM-5 §6.3.2, §6.3.3
  Held bench;
  Exchange& victim = read(bench, bench.b, 0);
  const auto response = bench.manage(bench.a, TaskManagement::LogicalUnitReset);
  bench.device.release();
  EXPECT_EQ(**response, TaskManagementResponse::Complete);
  EXPECT_FALSE(victim.answer.completion.has_status);
  for (const NexusId nexus : {bench.a, bench.b}) {
    EXPECT_EQ(**bench.manage(nexus, TaskManagement::QueryAsyncEvent),
              TaskManagementResponse::Succeeded);
    EXPECT_EQ(bench.run(nexus, kReady).sense(),
              testing::sense(SenseKey::UnitAttention, SenseCode::BusDeviceResetOccurred));
    EXPECT_TRUE(bench.run(nexus, kReady).good());
  }
  EXPECT_EQ(**bench.manage(bench.a, TaskManagement::NexusReset), TaskManagementResponse::Complete);
  EXPECT_EQ(bench.run(bench.a, kReady).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::NexusLossOccurred));
  EXPECT_TRUE(bench.run(bench.b, kReady).good());
}

TEST(TaskManagement, QueueErrorAbortsTheTaskSet) {  // SPC-4 §7.5.7: QERR 01b
  Held bench({
      .unit = {.serial = "SN01", .modes = {.queue_error = 1}}
  });
  Exchange& other = read(bench, bench.b, 0);
  bench.run(bench.a, cdb10(0x28, 9999, 1), {}, 512);
  bench.device.release();
  EXPECT_TRUE(other.answer.ended);
  EXPECT_FALSE(other.answer.completion.has_status);
}

}  // namespace
}  // namespace weft::scsi
