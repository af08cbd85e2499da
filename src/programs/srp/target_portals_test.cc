#include "programs/srp/target_portals.h"

#include <gtest/gtest.h>

#include <string_view>

#include "programs/loop/loop_environment.h"
#include "verbs_driver/rdma_cm.h"
#include "verbs_driver/testing/scripted_rdmacm.h"

namespace weft::programs::srp {
namespace {

using verbs_driver::testing::ScriptedRdmaCm;

/// Portals over a librdmacm that does as it is told.
class SrpTargetPortals : public ::testing::Test {
 protected:
  bool await(const std::function<bool()>& condition) {
    return environment_.wait_until(condition, environment_.now() + Duration::seconds(20));
  }

  ScriptedRdmaCm scripted_;
  const verbs_driver::RdmaCmLibrary library_ = ScriptedRdmaCm::library();
  asio::io_context loop_;
  LoopEnvironment environment_{loop_, [](core::LogLevel, std::string_view) {}};
  std::unique_ptr<verbs_driver::LiveRdmaCm> cm_ =
      *verbs_driver::LiveRdmaCm::start(environment_, {}, library_);
  std::vector<LoginArrival> came_;
  std::unique_ptr<TargetPortals> portals_ = std::make_unique<TargetPortals>(
      environment_, *cm_, std::vector<std::string>{"127.77.0.1:0", "127.77.1.1:5555"},
      [this](LoginArrival arrival) { came_.push_back(std::move(arrival)); });
};

TEST_F(SrpTargetPortals, ListenAtEachAddressAndByAServiceIdOnce) {  // R-SRPT-2
  EXPECT_FALSE(portals_->is_complete());
  ASSERT_TRUE(portals_->listen());
  EXPECT_TRUE(portals_->is_complete());
  EXPECT_EQ(portals_->addresses(),
            (std::vector<std::string>{"127.77.0.1:4242", "127.77.1.1:4242"}));
  EXPECT_EQ(portals_->service_id(), core::native_service_id(ScriptedRdmaCm::kPort));
  ASSERT_TRUE(portals_->listen()) << "for another device";
  EXPECT_EQ(scripted_.living(), 3U);
  scripted_.request(scripted_.id(1));
  EXPECT_TRUE(await([this] { return came_.size() == 1; }));
}

TEST_F(SrpTargetPortals, APortalThatGoesWithItsDeviceIsListenedAtAgain) {  // R-SRPT-2
  ASSERT_TRUE(portals_->listen());
  scripted_.tell(scripted_.id(1), RDMA_CM_EVENT_DEVICE_REMOVAL);
  ASSERT_TRUE(await([this] { return !portals_->is_complete(); }));
  EXPECT_EQ(scripted_.living(), 2U) << "the others stay";
  scripted_.has_no_addresses = true;
  const auto refused = portals_->listen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::AddressNotAvailable);
  EXPECT_TRUE(refused.error().reason.starts_with("127.77.1.1:4242: ")) << refused.error().reason;
  EXPECT_FALSE(portals_->is_complete());
  scripted_.has_no_addresses = false;
  EXPECT_TRUE(portals_->listen());
  EXPECT_TRUE(portals_->is_complete());
  scripted_.request(scripted_.id(scripted_.made() - 1));
  EXPECT_TRUE(await([this] { return came_.size() == 1; }));
}

TEST_F(SrpTargetPortals, WhoWaitsIsRejectedWhenTheyEnd) {
  ASSERT_TRUE(portals_->listen());
  scripted_.request(scripted_.id(0));
  portals_.reset();
  EXPECT_TRUE(await([this] { return scripted_.living() == 0; }));
  EXPECT_TRUE(came_.empty());
}

}  // namespace
}  // namespace weft::programs::srp
