#include "rdmacm_fixture.h"

#include <stdlib.h>

#include <memory>

#include "daemon/testing/live_fabric.h"

namespace {

constexpr const char* kScripted = "scripted";

/// The program's verbs are those of a live host, to which it is attached once.
class VerbsFabric : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric_ = std::make_unique<weft::daemon::testing::LiveFabric>("pair");
    fabric_->show_to_this_process();
    setenv("WEFT_HOST", "h1", 1);
    unsetenv("WEFT_LOOPBACK");
    unsetenv("WEFT_EXPLAIN");  // tests count lines
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    ibv_free_device_list(list);
    setenv("WEFT_FABRIC", kScripted, 1);
  }
  void TearDown() override { fabric_.reset(); }

 private:
  std::unique_ptr<weft::daemon::testing::LiveFabric> fabric_;
};

const auto* const kFabric = ::testing::AddGlobalTestEnvironment(new VerbsFabric);

}  // namespace

void RdmaCm::SetUp() {
  daemon_ = std::make_unique<weft::testing::ScriptedDaemon>(getenv("WEFT_RUN"), kScripted);
  int count = 0;
  ibv_context** const contexts = rdma_get_devices(&count);
  ASSERT_EQ(count, 1);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(contexts[0], 1, &port), 0);
  rdma_free_devices(contexts);
  daemon_->set_lid(weft::Lid{port.lid});
  channel_ = rdma_create_event_channel();
  ASSERT_NE(channel_, nullptr);
}

void RdmaCm::TearDown() {
  if (channel_ != nullptr) {
    rdma_destroy_event_channel(channel_);
  }
}

rdma_cm_event* RdmaCm::next(rdma_cm_event_type type) const {
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
  if (event != nullptr && event->event != type) {
    ADD_FAILURE() << rdma_event_str(event->event) << " instead of " << rdma_event_str(type);
    rdma_ack_cm_event(event);
    return nullptr;
  }
  return event;
}

void RdmaCm::pass(rdma_cm_event_type type) const {
  rdma_cm_event* const event = next(type);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, 0);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
}

rdma_cm_id* RdmaCm::listener(std::uint16_t port, rdma_port_space space) const {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0);
  sockaddr_in here = address("127.77.0.1", port);
  EXPECT_EQ(rdma_bind_addr(id, generic(here)), 0);
  EXPECT_EQ(rdma_listen(id, 8), 0);
  return id;
}

rdma_cm_id* RdmaCm::resolved(std::uint16_t port, rdma_port_space space) const {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0);
  sockaddr_in there = address("127.77.0.1", port);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(there), 1'000), 0);
  pass(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id, 1'000), 0);
  pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}
