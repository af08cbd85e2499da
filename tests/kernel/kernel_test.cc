#include <gtest/gtest.h>

#include "core/registry.h"
#include "core/testing/engine_network.h"
#include "core/testing/manual_environment.h"
#include "kernel/host.h"
#include "ulp.h"

namespace weft::kernel {
namespace {

/// Two hosts' devices in one registry, used from C, on one thread and a virtual clock.
class KernelApi : public testing::Test {
 protected:
  KernelApi() {
    running = this;
    environment_.world = [this] { return network_.step(); };
    install_host({.registry = &registry_});
    network_.add_host(registry_);
    network_.add_host(registry_);
    EXPECT_EQ(check_client(), 0);  // knows the devices from now on
  }
  ~KernelApi() override {
    network_.unregister_all();
    remove_host();
    running = nullptr;
  }

 public:
  void run() {
    environment_.wait_until([] { return false; }, environment_.now() + Duration::seconds(1));
  }
  static inline KernelApi* running{};

 private:
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::EngineNetwork network_{environment_};
};

TEST_F(KernelApi, TellsClientsOfDevices) { EXPECT_EQ(check_client(), 0); }
TEST_F(KernelApi, SendsAndCallsTheDoneOfEachRequest) { EXPECT_EQ(check_send_and_receive(), 0); }
TEST_F(KernelApi, TellsOfAFailedTransferOnce) { EXPECT_EQ(check_rdma_context(), 0); }
TEST_F(KernelApi, RefusesWithTheKernelsErrorNumbers) { EXPECT_EQ(check_refusals(), 0); }
TEST_F(KernelApi, MapsListsForRegistration) { EXPECT_EQ(check_registration(), 0); }
TEST_F(KernelApi, PacksTheHeadersOfDatagrams) { EXPECT_EQ(check_headers(), 0); }

TEST(KernelApiWithoutAHost, HasNoDevice) {
  const auto found = host();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::NoSuchDevice);
}

}  // namespace
}  // namespace weft::kernel

void let_world_run() { weft::kernel::KernelApi::running->run(); }
