#include <gtest/gtest.h>

#include <optional>

#include "core/mad/mad_service.h"
#include "core/registry.h"
#include "core/sa/sa_service.h"
#include "core/testing/engine_network.h"
#include "core/testing/mad_network.h"
#include "core/testing/manual_environment.h"
#include "core/testing/sa_server.h"
#include "kernel/host.h"
#include "kernel/ib_cm_service.h"
#include "ulp.h"

namespace weft::kernel {
namespace {

/// Two hosts' devices in one registry, used from C, on one thread and a virtual clock.
class KernelApi : public testing::Test {
 protected:
  KernelApi() {
    running = this;
    environment_.world = [this] { return network_.step(); };
    install_host({.registry = &registry_, .sa = &sa_, .ib_cm = &ib_cm_});
    for (unsigned i = 0; i < 2; ++i) {
      core::Device& device = network_.add_host(registry_, {.node_guid = Guid{0x51 + i}}).device();
      mad_network_.attach(**mads_.port(device, PortNumber{1}, mad::InterfaceKind::Gsi));
    }
    server_.emplace(mads_, network_.host(0).device(), PortNumber{1});
    EXPECT_EQ(check_client(), 0);  // knows the devices from now on
  }
  ~KernelApi() override {
    server_.reset();
    network_.unregister_all();
    remove_host();
    running = nullptr;
  }

 public:
  void run() {
    environment_.wait_until([] { return false; }, environment_.now() + Duration::seconds(1));
  }
  /// A second GID for each device, of which its events tell.
  void add_gids() {
    for (unsigned i = 0; i < 2; ++i) {
      core::engine::Engine& engine = network_.host(i);
      verbs::PortAttributes port = engine.hca().port(PortNumber{1});
      port.gids.emplace_back(kDefaultGidPrefix, Guid{0x200 + i});
      engine.hca().set_port(PortNumber{1}, port);
      engine.report_port_event(PortNumber{1}, verbs::AsyncEventType::GidChange);
    }
    run();
  }
  void answer(const std::function<bool(mad::MadMessage&)>& how) { server_->answer = how; }
  static inline KernelApi* running{};

 private:
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::EngineNetwork network_{environment_};
  core::testing::MadNetwork mad_network_;
  core::MadService mads_{registry_, mad_network_};
  core::SaService sa_{mads_};
  IbCmService ib_cm_{mads_, 7};
  std::optional<core::testing::SaServer> server_;  // on the first host, for both
};

TEST_F(KernelApi, TellsClientsOfDevices) { EXPECT_EQ(check_client(), 0); }
TEST_F(KernelApi, SendsAndCallsTheDoneOfEachRequest) { EXPECT_EQ(check_send_and_receive(), 0); }
TEST_F(KernelApi, TellsOfAFailedTransferOnce) { EXPECT_EQ(check_rdma_context(), 0); }
TEST_F(KernelApi, RefusesWithTheKernelsErrorNumbers) { EXPECT_EQ(check_refusals(), 0); }
TEST_F(KernelApi, MapsListsForRegistration) { EXPECT_EQ(check_registration(), 0); }
TEST_F(KernelApi, PacksTheHeadersOfDatagrams) { EXPECT_EQ(check_headers(), 0); }
TEST_F(KernelApi, PinsMemoryOfThisProcess) { EXPECT_EQ(check_pinned_memory(), 0); }
TEST_F(KernelApi, PagesMemoryOfThisProcessOnDemand) { EXPECT_EQ(check_paging_on_demand(), 0); }

TEST_F(KernelApi, ConnectsByTheIbCm) {
  add_gids();
  EXPECT_EQ(check_connection(), 0);
}
TEST_F(KernelApi, TellsWhyAConnectionWasRejected) { EXPECT_EQ(check_rejection(), 0); }
TEST_F(KernelApi, ResolvesServiceIds) { EXPECT_EQ(check_service_resolution(), 0); }
TEST_F(KernelApi, SharesListeners) { EXPECT_EQ(check_shared_listener(), 0); }
TEST_F(KernelApi, EndsConnectionsFromInsideTheirHandlers) {
  EXPECT_EQ(check_ends_in_handlers(), 0);
}

TEST_F(KernelApi, AsksSubnetAdministration) {
  EXPECT_EQ(check_path_query(), 0);
  answer([](mad::MadMessage& message) {
    auto record = core::testing::SaServer::record_in<wire::ServiceRecord>(message);
    record.service_lease = 77;
    return core::testing::SaServer::answer_with(message, record);
  });
  EXPECT_EQ(check_service_query(), 0);
  answer([](mad::MadMessage& message) {
    return core::testing::SaServer::refuse(message, wire::SaStatus::NoRecords);
  });
  EXPECT_EQ(check_no_path(), 0);
  answer([](mad::MadMessage&) { return false; });
  EXPECT_EQ(check_cancelled_query(), 0);
}

TEST(KernelApiWithoutAHost, HasNoDevice) {
  const auto found = host();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::NoSuchDevice);
}

}  // namespace
}  // namespace weft::kernel

void let_world_run() { weft::kernel::KernelApi::running->run(); }
