#include "core/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/testing/engine_pair.h"
#include "core/wq.h"

namespace weft::core::engine {
namespace {

using core::testing::CountedRequest;
using core::testing::EngineNetwork;
using core::testing::EnginePair;
using core::testing::ManualEnvironment;
using core::testing::signaled;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EngineDriver, RegistersADeviceWithAllThatTheStackNeeds) {
  EnginePair pair;
  Device& device = *pair.a.device;
  EXPECT_EQ(device.name(), "weft0");
  EXPECT_EQ(pair.b.device->name(), "weft1");
  EXPECT_TRUE(device.has_kernel_verbs());
  EXPECT_TRUE(device.attributes().capabilities.has(DeviceCapability::MemoryManagementExtensions));
  const auto port = query_port(device, PortNumber{1});
  ASSERT_TRUE(port);
  EXPECT_EQ(port->state, verbs::PortState::Active);
  EXPECT_EQ(port->lid, EngineNetwork::lid_of(0));
  EXPECT_EQ(port->subnet_prefix, kDefaultGidPrefix);
  EXPECT_EQ(find_gid(device, Gid{kDefaultGidPrefix, Guid{0x100}})->index, 0);
  EXPECT_EQ(find_pkey(device, PortNumber{1}, PKey{0x7FFF}).value(), 0);
}

// R-DEV-12, T-DEV-7 within the stack
TEST(EngineDriver, TellsOfAPortThatChanged) {
  EnginePair pair;
  Device& device = *pair.a.device;
  class Handler final : public EventHandler {
   public:
    using EventHandler::EventHandler;
    void handle(const Event& event) override {
      type = event.type;
      lid = query_port(device(), event.port)->lid;
      cached = device().cache(event.port).lid();
    }
    verbs::AsyncEventType type{};
    Lid lid;
    Lid cached;
  } handler{device};
  register_event_handler(handler);
  verbs::PortAttributes port = pair.network.host(0).hca().port(PortNumber{1});
  port.lid = Lid{0x77};
  pair.network.host(0).hca().set_port(PortNumber{1}, port);
  pair.network.host(0).report_port_event(PortNumber{1}, verbs::AsyncEventType::LidChange);
  pair.environment.run_all();
  EXPECT_EQ(handler.type, verbs::AsyncEventType::LidChange);
  EXPECT_EQ(handler.lid, Lid{0x77});
  EXPECT_EQ(handler.cached, Lid{0x77});
  unregister_event_handler(handler);
}

/// An SMA that writes down what it is asked for.
class RecordingManagement final : public PortManagement {
 public:
  [[nodiscard]] ManagedPort port(PortNumber /*number*/) const override { return managed; }
  [[nodiscard]] Guid system_image_guid() const override { return Guid{0x5EEE}; }
  Result<void> modify_port(PortNumber number, const PortModification& modification) override {
    modified.push_back(number.value());
    managed.capability_mask |= modification.set_capabilities;
    return {};
  }
  Result<void> modify_device(const DeviceModification& modification) override {
    description = modification.node_description;
    return {};
  }
  void report_bad_keys(const hca::BadKey& last, std::uint32_t count) override {
    bad_keys.emplace_back(last.key, count);
  }

  ManagedPort managed;
  std::vector<int> modified;
  std::string description;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> bad_keys;  // the last, and how many
};

TEST(EngineDriver, AsksWhoManagesItsPortsForWhatNoPacketNeeds) {
  RecordingManagement management;
  EnginePair pair;
  Engine& engine = pair.network.host(0);
  management.managed = {.physical_state = 4,
                        .capability_mask = 0x10,
                        .capability_mask_2 = 0x20,
                        .pkey_violations = 3,
                        .qkey_violations = 4,
                        .subnet_timeout = 17,
                        .init_type_reply = 6};
  engine.set_management(management);
  constexpr std::uint32_t kDeviceManagement = 1U << 19;
  ASSERT_TRUE(modify_port(engine.device(), PortNumber{1}, {.set_capabilities = kDeviceManagement}));
  EXPECT_THAT(management.modified, ElementsAre(1));
  const auto port = query_port(engine.device(), PortNumber{1});
  ASSERT_TRUE(port);
  EXPECT_EQ(port->physical_state, 4);
  EXPECT_EQ(port->capability_mask, kDeviceManagement | 0x10);
  EXPECT_EQ(port->capability_mask_2, 0x20);
  EXPECT_EQ(port->bad_pkeys, 3U);
  EXPECT_EQ(port->bad_qkeys, 4U);
  EXPECT_EQ(port->subnet_timeout, 17);
  EXPECT_EQ(port->init_type_reply, 6);
  ASSERT_TRUE(modify_device(
      engine.device(), {.mask = DeviceChange::NodeDescription, .node_description = "storage 7"}));
  EXPECT_EQ(management.description, "storage 7");
  EXPECT_EQ(modify_port(engine.device(), PortNumber{1}, {.mask = PortChange::OpaMask}).error().code,
            ErrorCode::NotSupported);
}

TEST(EngineDriver, ModifiesNothingOfAPortThatNobodyManages) {
  EnginePair pair;
  EXPECT_EQ(modify_port(*pair.a.device, PortNumber{1}, {.set_capabilities = 2}).error().code,
            ErrorCode::NotSupported);
  EXPECT_EQ(modify_device(*pair.a.device, {.mask = DeviceChange::NodeDescription}).error().code,
            ErrorCode::NotSupported);
}

TEST(EngineDriver, TellsWhoManagesItsPortsOfPacketsWithWrongKeysAFewAtATime) {
  RecordingManagement management;
  std::vector<CountedRequest> requests(3);
  EnginePair pair;
  Engine& engine = pair.network.host(1);
  engine.set_management(management);
  verbs::PortAttributes other = engine.hca().port(PortNumber{1});
  other.pkeys = {PKey{0x8123}};
  engine.hca().set_port(PortNumber{1}, other);
  for (CountedRequest& request : requests) {
    ASSERT_TRUE(post_send(*pair.a.qp, signaled(request, verbs::WrOpcode::RdmaWrite)));
  }
  while (pair.network.step()) {  // and nobody tells yet
  }
  EXPECT_TRUE(management.bad_keys.empty());
  pair.environment.run_all();
  ASSERT_EQ(management.bad_keys.size(), 1U);
  EXPECT_EQ(management.bad_keys[0].first, kDefaultPKey.value());
  EXPECT_EQ(management.bad_keys[0].second, 3U);
  EXPECT_EQ(query_port(*pair.b.device, PortNumber{1})->bad_pkeys, 0U)
      << "what its management says counts, which has not counted these";
}

TEST(EngineDriver, CountsPacketsWithWrongKeysItselfWhereNobodyManagesItsPorts) {
  std::vector<CountedRequest> requests(3);
  EnginePair pair;
  hca::Hca& hca = pair.network.host(1).hca();
  verbs::PortAttributes other = hca.port(PortNumber{1});
  other.pkeys = {PKey{0x8123}};
  hca.set_port(PortNumber{1}, other);
  for (CountedRequest& request : requests) {
    ASSERT_TRUE(post_send(*pair.a.qp, signaled(request, verbs::WrOpcode::RdmaWrite)));
  }
  while (pair.network.step()) {
  }
  EXPECT_EQ(query_port(*pair.b.device, PortNumber{1})->bad_pkeys, 3U);
  EXPECT_EQ(query_port(*pair.b.device, PortNumber{1})->bad_qkeys, 0U);
  EXPECT_EQ(query_port(*pair.a.device, PortNumber{1})->bad_pkeys, 0U);
}

TEST(EngineDriver, TellsAnObjectsOwnHandlerOfItsEvents) {
  EnginePair pair;
  struct Log {
    std::vector<std::pair<Qp*, verbs::AsyncEventType>> events;
  } log;
  QpInit init;
  init.send_cq = pair.a.send_cq;
  init.recv_cq = pair.a.recv_cq;
  init.capabilities = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
  init.context = &log;
  init.event_handler = [](const Event& event, void* context) {
    static_cast<Log*>(context)->events.emplace_back(event.qp, event.type);
  };
  core::testing::End end;
  end.qp = *create_qp(*pair.a.pd, init);
  core::testing::connect_end(end, EngineNetwork::lid_of(1), pair.b.qp->number());
  QpModify drain{.mask = verbs::QpAttributeMask{verbs::QpAttribute::State} |
                         verbs::QpAttribute::EnableSqdAsyncNotify};
  drain.attributes.state = verbs::QpState::Sqd;
  drain.attributes.enable_sqd_async_notify = true;
  ASSERT_TRUE(modify_qp(*end.qp, drain));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_THAT(log.events, ElementsAre(std::pair{end.qp, verbs::AsyncEventType::SqDrained}));
  EXPECT_TRUE(destroy_qp(*end.qp));
}

TEST(EngineDriver, ReadsWritesAndCountsInThePeersMemory) {
  EnginePair pair;
  Pd& pd = *pair.b.pd;
  alignas(8) static std::uint64_t word = 5;
  word = 5;
  constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                      verbs::Access::RemoteAtomic | verbs::Access::RemoteRead |
                                      verbs::Access::RemoteWrite;
  const auto address = std::bit_cast<std::uint64_t>(&word);
  Mr* const mr =
      *register_user_mr(pd, {.start = address, .length = 8, .iova = 0x1000}, kAll, nullptr);
  const std::array result{pair.a.sge(0, 8)};
  CountedRequest add;
  SendWr wr = signaled(add, verbs::WrOpcode::FetchAdd, result);
  wr.remote_address = 0x1000;
  wr.rkey = mr->rkey;
  wr.compare_add = 37;
  ASSERT_TRUE(post_send(*pair.a.qp, wr));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(add.status, verbs::WcStatus::Success);
  EXPECT_EQ(word, 42U);
  EXPECT_EQ(std::to_integer<int>(pair.a.memory[0]), 5);
  CountedRequest read;
  SendWr reads = signaled(read, verbs::WrOpcode::RdmaRead, result);
  reads.remote_address = 0x1000;
  reads.rkey = mr->rkey;
  ASSERT_TRUE(post_send(*pair.a.qp, reads));
  pair.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(std::to_integer<int>(pair.a.memory[0]), 42);
  EXPECT_TRUE(deregister_mr(*mr));
}

TEST(EngineDriver, GivesAQpTheNumberThatPeersUse) {  // R-QP-6
  EnginePair pair;
  for (int times = 0; times < 2; ++times) {  // it is free again once the QP is destroyed
    QpInit init{
        .type = verbs::QpType::Ud,
        .send_cq = pair.a.send_cq,
        .recv_cq = pair.a.recv_cq,
        .capabilities = {.max_send_wr = 1, .max_recv_wr = 1},
        .external_number = Qpn{1}
    };
    const auto qp = create_qp(*pair.a.pd, init);
    ASSERT_TRUE(qp) << qp.error().reason;
    EXPECT_EQ((*qp)->number(), Qpn{1});
    EXPECT_FALSE(create_qp(*pair.a.pd, init));
    EXPECT_TRUE(destroy_qp(**qp));
  }
}

// T-WQ-1
TEST(EngineWorkQueues, TakeAllReceivesThatTheyWereMadeForAndSaySo) {
  EnginePair pair;
  WqInit init{.max_wr = 100, .max_sge = 3, .cq = pair.a.recv_cq};
  Wq* const wq = *create_wq(*pair.a.pd, init);
  EXPECT_GE(init.max_wr, 100U);
  EXPECT_GE(init.max_sge, 3U);
  const std::array sges{pair.a.sge(0, 8), pair.a.sge(8, 8), pair.a.sge(16, 8)};
  EXPECT_FALSE(post_wq_recv(*wq, {.wr_id = 1, .sges = sges}));  // in RESET
  WqModify to_ready{.state = WqState::Ready};
  ASSERT_TRUE(modify_wq(*wq, to_ready));
  EXPECT_EQ(to_ready.current_state, WqState::Ready);
  std::vector<CountedRequest> receives(init.max_wr);
  for (CountedRequest& receive : receives) {
    ASSERT_TRUE(post_wq_recv(*wq, {.wr_id = wr_id_of(receive.handler), .sges = sges}));
  }
  const RecvWr more{.wr_id = 1, .sges = sges};
  const RecvWr* bad = nullptr;
  EXPECT_EQ(post_wq_recv(*wq, more, &bad).error().code, ErrorCode::OutOfMemory);
  EXPECT_EQ(bad, &more);
  WqModify to_error{.current_state = WqState::Ready, .state = WqState::Error};
  ASSERT_TRUE(modify_wq(*wq, to_error));
  pair.environment.run_all();
  for (const CountedRequest& receive : receives) {
    EXPECT_EQ(receive.calls, 1U);
    EXPECT_EQ(receive.status, verbs::WcStatus::WorkRequestFlushed);
  }
  WqModify backwards{.state = WqState::Ready};
  EXPECT_EQ(modify_wq(*wq, backwards).error().code, ErrorCode::InvalidArgument);
  WqModify none{.current_state = static_cast<WqState>(7), .state = static_cast<WqState>(3)};
  EXPECT_EQ(modify_wq(*wq, none).error().code, ErrorCode::InvalidArgument);
  WqModify stale{.current_state = WqState::Ready, .state = WqState::Reset};
  EXPECT_EQ(modify_wq(*wq, stale).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(free_cq(*pair.a.recv_cq).error().code, ErrorCode::Busy);
  ASSERT_TRUE(destroy_wq(*wq));
}

TEST(EngineWorkQueues, ReceiveThroughATableThatHoldsThem) {  // R-WQ-2
  EnginePair pair;
  WqInit init{.max_wr = 4, .max_sge = 1, .cq = pair.a.recv_cq};
  Wq* const wq = *create_wq(*pair.a.pd, init);
  const std::array entries{wq, wq};
  IndirectionTable* const table = *create_indirection_table(*pair.a.device, entries);
  EXPECT_EQ(destroy_wq(*wq).error().code, ErrorCode::Busy);
  QpInit asked{.type = verbs::QpType::Ud,
               .send_cq = pair.a.send_cq,
               .capabilities = {.max_send_wr = 1},
               .indirection_table = table};
  const auto qp = create_qp(*pair.a.pd, asked);
  ASSERT_TRUE(qp) << qp.error().reason;
  EXPECT_EQ(destroy_indirection_table(*table).error().code, ErrorCode::Busy);
  EXPECT_TRUE(destroy_qp(**qp));
  asked.receive_hash.fields =
      verbs::HashFields{verbs::HashField::SourceIpv4} | verbs::HashField::SourceIpv6;
  EXPECT_EQ(create_qp(*pair.a.pd, asked).error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(destroy_indirection_table(*table));
  EXPECT_TRUE(destroy_wq(*wq));
}

}  // namespace
}  // namespace weft::core::engine
