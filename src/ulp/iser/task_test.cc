// A task's PDU before it is sent, management tasks, sessions, and how memory is registered.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "ulp/iser/task.h"
#include "ulp/iser/testing/world.h"
#include "ulp/iser/transmit_descriptor.h"
#include "wire/iscsi/nop.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using testing::WorldOptions;
using wire::iscsi::Opcode;
using wire::iscsi::ScsiResponse;

/// Lists that the driver was given to map and not yet to unmap; of one test at a time.
struct Mapped {
  std::multiset<std::uint64_t> addresses;
  bool refuses{};
};
Mapped mapped;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a driver's hook

core::DeviceOperations operations_that_map() {
  core::DeviceOperations operations = core::engine::engine_operations();
  operations.map_list = [](core::Device&, std::span<const core::ScatterEntry> list,
                           core::DmaDirection direction) -> Result<void> {
    EXPECT_EQ(direction, core::DmaDirection::ToDevice);
    if (mapped.refuses) {
      return fail(ErrorCode::Io, "no window is left");
    }
    mapped.addresses.insert(list.front().address);
    return {};
  };
  operations.unmap_list = [](core::Device&, std::span<const core::ScatterEntry> list,
                             core::DmaDirection) {
    EXPECT_EQ(mapped.addresses.erase(list.front().address), 1U);
  };
  return operations;
}

class IserTask : public ::testing::Test {
 protected:
  IserTask() { mapped = {}; }
  World world_{1, {.initiator_device = {.operations = operations_that_map}}};
  PduLog log_;
};

// R-ISER-13.
TEST_F(IserTask, HasAPlaceForHeadersAsLongAsTheyMayBe) {
  Task task;
  const MutableByteSpan place = task.allocate_pdu(Opcode::TaskManagementRequest);
  EXPECT_EQ(place.size(), 48U + 1'020U);
  EXPECT_EQ(place[0], std::byte{0x02});
  EXPECT_TRUE(std::ranges::all_of(place.subspan(1, 3), [](auto o) { return o == std::byte{}; }));
  std::ranges::fill(place.subspan(1), std::byte{0xFF});
  EXPECT_EQ(task.allocated_headers().size(), place.size());
  EXPECT_EQ(task.allocate_pdu(Opcode::NopOut)[4], std::byte{});  // as new
  EXPECT_EQ(task.allocated_headers().size(), 48U);
}

// R-ISER-15: a command whose headers the iSCSI layer wrote itself.
TEST_F(IserTask, SendsTheHeadersThatWereWrittenInTheirPlace) {
  world_.connect(log_);
  world_.login(log_);
  std::vector<std::byte> memory(4'096, std::byte{0xAA});
  Task model;
  world_.set_up(model, false, 3, memory);
  auto task = std::make_unique<Task>();
  task->data_in = model.data_in;
  std::ranges::copy(wire::pack(model.command), task->allocate_pdu(Opcode::ScsiCommand).begin());
  ASSERT_TRUE(world_.link().initialise_task(*task));
  EXPECT_EQ(task->command, model.command);
  EXPECT_EQ(world_.link().mapped_headers(), mapped.addresses.size());
  ASSERT_TRUE(world_.link().transmit(*task));
  EXPECT_EQ(world_.next<ScsiResponse>(log_).status, 0);
  EXPECT_EQ(memory, std::vector<std::byte>(4'096));
  EXPECT_TRUE(world_.link().cleanup_task(*task));
  EXPECT_EQ(task->descriptor, nullptr);
  task.reset();
  // The HCA may send them again until a later completion says that it will not.
  EXPECT_FALSE(mapped.addresses.empty());
  world_.initiator->stop(*world_.connection, StopFlag::Terminate);
  EXPECT_TRUE(mapped.addresses.empty());
}

// R-ISER-14, R-ISER-15.
TEST_F(IserTask, CannotBeReadyWithoutMemoryOrWithoutADevice) {
  world_.connect(log_);
  world_.login(log_);
  mapped.refuses = true;
  Task task;
  task.allocate_pdu(Opcode::TaskManagementRequest);
  const auto full = world_.link().initialise_task(task);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::OutOfMemory);
  EXPECT_NE(full.error().reason.find("no window is left"), std::string::npos);
  mapped.refuses = false;
  EXPECT_TRUE(world_.link().initialise_task(task));
  const std::size_t before = mapped.addresses.size();
  EXPECT_TRUE(world_.link().initialise_task(task));  // once is enough
  EXPECT_EQ(mapped.addresses.size(), before);
  // A task management function that comes while the connection ends.
  world_.link().begin_termination("test");
  Task late;
  late.allocate_pdu(Opcode::TaskManagementRequest);
  const auto gone = world_.link().initialise_task(late);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::NoSuchDevice);
  EXPECT_FALSE(late.descriptor->is_mapped());
  world_.network.host(0).unregister_device();
  EXPECT_TRUE(mapped.addresses.empty());
  EXPECT_FALSE(task.descriptor->is_mapped());  // and its end asks no device
}

// R-ISER-16.
TEST_F(IserTask, OfManagementIsSentOrToBeTriedAgain) {
  world_.connect(log_, {.max_commands = 1, .signal_interval = 1});
  world_.login(log_);
  std::vector<std::unique_ptr<Task>> pings;
  const auto ping = [&](std::uint32_t tag) {
    auto task = std::make_unique<Task>();
    wire::iscsi::NopOut nop;
    nop.immediate = true;
    nop.initiator_task_tag = tag;
    nop.cmd_sn = world_.cmd_sn;
    nop.exp_stat_sn = world_.exp_stat_sn;
    std::ranges::copy(wire::pack(nop), task->allocate_pdu(Opcode::NopOut).begin());
    task->management_data = iscsi::to_octets("ping " + std::to_string(tag));
    pings.push_back(std::move(task));
    return world_.link().transmit_management(*pings.back());
  };
  std::uint32_t sent = 0;
  Result<void> outcome = ping(1);
  while (outcome && sent < 1'000) {
    ++sent;
    outcome = ping(1 + sent);
  }
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::TryAgain);
  EXPECT_FALSE(pings.back()->is_sent);
  EXPECT_EQ(sent, world_.link().channel()->sends().total() - 2);  // but login and its probe
  for (std::uint32_t i = 0; i < sent; ++i) {
    std::vector<std::byte> data;
    EXPECT_EQ(world_.next<wire::iscsi::NopIn>(log_, &data).initiator_task_tag, 1 + i);
    EXPECT_EQ(data, iscsi::to_octets("ping " + std::to_string(1 + i)));
  }
  EXPECT_TRUE(world_.link().transmit_management(*pings.back()));
  EXPECT_EQ(world_.next<wire::iscsi::NopIn>(log_).initiator_task_tag, 1 + sent);
  Task command;
  command.allocate_pdu(Opcode::ScsiCommand);
  const auto refused = world_.link().transmit_management(command);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
}

// R-ISER-11.
TEST(IserSessions, HaveAHostAsLargeAsTheirConnectionAndGoWithTheirConnections) {
  World world;
  PduLog log;
  const auto endpoint = world.initiator->connect_endpoint("1", {.max_commands = 16}, true);
  ASSERT_TRUE(endpoint);
  Session* const session = world.initiator->create_session(
      *endpoint, {.max_commands = 64, .queue_depth = 32, .initial_cmd_sn = 7});
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->options().max_commands, 16U);
  EXPECT_EQ(session->options().initial_cmd_sn, 7U);
  EXPECT_EQ(session->host().max_commands, 16U);
  EXPECT_EQ(session->host().commands_per_unit, 16U);
  EXPECT_EQ(session->host().max_transfer_bytes, 1U << 20);
  SessionConnection* const connection = world.initiator->create_connection(*session, 0);
  ASSERT_TRUE(world.initiator->bind(*connection, *endpoint, true, log));
  ASSERT_TRUE(world.initiator->start(*connection));
  world.initiator->destroy_session(*session);
  EXPECT_EQ(world.initiator->sessions(), 0U);
  EXPECT_EQ(log.losses, 1U);
  world.initiator->disconnect_endpoint(*endpoint);
  world.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(world.initiator->connections(), 0U);
  EXPECT_EQ(world.initiator->create_session(*endpoint, {}), nullptr);
}

core::DeviceOperations operations_of_old() {
  core::DeviceOperations operations = core::engine::engine_operations();
  operations.query_device = [](core::Device& device) {
    auto attributes = core::engine::engine_operations().query_device(device);
    attributes->capabilities =
        attributes->capabilities.without(core::DeviceCapability::MemoryManagementExtensions);
    return attributes;
  };
  return operations;
}

// R-ISER-20: on a device without fast registration, through more maps than a region bears.
TEST(IserFmr, EachCommandFindsItsRegion) {
  World world{1, WorldOptions{.initiator_device = {.operations = operations_of_old}}};
  PduLog log;
  world.connect(log, {.max_commands = 4});
  world.login(log);
  RegistrationPool& pool = *world.link().registrations();
  ASSERT_EQ(pool.scheme(), RegistrationScheme::Fmr);
  EXPECT_FALSE(world.link().uses_remote_invalidation());
  const std::size_t all = pool.free();
  std::vector<std::byte> memory(3 * 4'096 + 512);
  const auto address = std::bit_cast<std::uint64_t>(memory.data());
  const std::size_t to_page = (4'096 - address % 4'096) % 4'096;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::unique_ptr<Task>> tasks;
    for (std::uint32_t i = 0; i < 4; ++i) {
      tasks.push_back(std::make_unique<Task>());
      const bool writes = round % 2 == 0;
      std::ranges::fill(memory, static_cast<std::byte>(writes ? round : 0));
      world.set_up(*tasks.back(), writes, 8 * i, MutableByteSpan{memory}.first(4'096), 512);
      ASSERT_TRUE(world.link().transmit(*tasks.back())) << round;
      EXPECT_EQ(world.next<ScsiResponse>(log).status, 0);
      if (!writes) {
        EXPECT_EQ(memory[4'095], static_cast<std::byte>(round - 1));
      }
    }
  }
  EXPECT_EQ(pool.taken(), 0U);
  EXPECT_EQ(pool.free(), all);
  // Pages in another order than they lie in; then a gap, which no FMR can show.
  const MutableByteSpan pages = MutableByteSpan{memory}.subspan(to_page, 8'192);
  const auto entry = [&](std::size_t at, std::uint32_t length) {
    return core::ScatterEntry{.address = std::bit_cast<std::uint64_t>(pages.data() + at),
                              .length = length};
  };
  auto swapped = pool.map(std::vector{entry(4'096, 4'096), entry(0, 100)}, true);
  ASSERT_TRUE(swapped) << swapped.error().reason;
  pool.release(*swapped);
  const auto gap = pool.map(std::vector{entry(0, 100), entry(4'096, 100)}, true);
  ASSERT_FALSE(gap);
  EXPECT_EQ(gap.error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::iser
