#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/random.h"
#include "kernel_world.h"
#include "ulp.h"

namespace weft::kernel {
namespace {

class KernelApi : public ::testing::Test {
 protected:
  KernelApi() { EXPECT_EQ(check_client(), 0); }  // knows the devices from now on

  void answer(const std::function<bool(mad::MadMessage&)>& how) { world_.answer(how); }
  KernelWorld world_;
};

TEST_F(KernelApi, TellsClientsOfDevices) { EXPECT_EQ(check_client(), 0); }
TEST_F(KernelApi, SendsAndCallsTheDoneOfEachRequest) { EXPECT_EQ(check_send_and_receive(), 0); }
TEST_F(KernelApi, TellsOfAFailedTransferOnce) { EXPECT_EQ(check_rdma_context(), 0); }
TEST_F(KernelApi, RefusesWithTheKernelsErrorNumbers) { EXPECT_EQ(check_refusals(), 0); }
TEST_F(KernelApi, ReadsNothingOfARequestThatADatagramQpHasNot) {
  EXPECT_EQ(check_datagram_refusals(), 0);
}
TEST_F(KernelApi, MapsListsForRegistration) { EXPECT_EQ(check_registration(), 0); }
TEST_F(KernelApi, PacksTheHeadersOfDatagrams) { EXPECT_EQ(check_headers(), 0); }
TEST_F(KernelApi, PinsMemoryOfThisProcess) { EXPECT_EQ(check_pinned_memory(), 0); }
TEST_F(KernelApi, PagesMemoryOfThisProcessOnDemand) { EXPECT_EQ(check_paging_on_demand(), 0); }
TEST_F(KernelApi, HearsOfChangesOfPagedMemoryByItself) {
  if (const char* const reason = weft_mm_unheard()) {
    GTEST_SKIP() << reason;
  }
  EXPECT_EQ(check_changes_are_heard(), 0);
}

TEST_F(KernelApi, ConnectsByTheIbCm) {
  world_.add_gids();
  EXPECT_EQ(check_connection(), 0);
}
TEST_F(KernelApi, TellsWhyAConnectionWasRejected) { EXPECT_EQ(check_rejection(), 0); }
TEST_F(KernelApi, ResolvesServiceIds) { EXPECT_EQ(check_service_resolution(), 0); }
TEST_F(KernelApi, SharesListeners) { EXPECT_EQ(check_shared_listener(), 0); }
/// T-CM-13
TEST_F(KernelApi, GoesOnWhileHandlersOfTwoListenersBlock) {
  EXPECT_EQ(check_blocked_handlers(), 0);
}
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

/// Wrong states, objects of another device, full queues and numbers of nothing, by the thousand.
TEST_F(KernelApi, AnswersArbitraryCallsAsItsDocumentationSays) {
  Random random{1};
  for (int round = 0; round < 200; ++round) {
    std::vector<unsigned char> octets(random.below(600));
    for (unsigned char& octet : octets) {
      octet = static_cast<unsigned char>(random());
    }
    ASSERT_EQ(make_calls(octets.data(), octets.size()), 0) << "line of calls.c; round " << round;
  }
}

TEST(KernelApiWithoutAHost, HasNoDevice) {
  const auto found = host();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::NoSuchDevice);
}

}  // namespace
}  // namespace weft::kernel

void let_world_run() { weft::kernel::KernelWorld::running->run(); }
