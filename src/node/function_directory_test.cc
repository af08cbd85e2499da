#include "node/function_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "cm/connection_manager.h"
#include "node/fabric.h"
#include "wire/cm/rdma_cm_header.h"

namespace weft::node {
namespace {

using sriov::FunctionId;
using sriov::kPhysicalFunction;

constexpr std::uint64_t kService = 0x1234;
constexpr PKey kPartition{0x8005};
constexpr std::uint64_t kRdmaCmUdp = 0x0111'0000;

struct NoObserver final : cm::CmObserver {
  cm::Handled handle(cm::CmId /*id*/, const cm::CmEvent& /*event*/, Instant /*now*/) override {
    return cm::Handled::Keep;
  }
};

/// h1 has the P_Keys 0xffff and 0x8005; v1 has the first one, v2 the other.
class FunctionDirectoryOfAPort : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric::Topology topology = *fabric::generate_star(2);
    topology.hosts[0].hcas[0].ports[0].pkeys = {kDefaultPKey, kPartition};
    fabric_ = std::move(*Fabric::create(topology, now_));
    for (const std::string_view change : {"add vf v1 of=h1", "add vf v2 of=h1 pkeys=1"}) {
      ASSERT_TRUE(fabric_->change_node(*read_node_change(change), now_));
    }
    while (fabric_->run_management(now_)) {
    }
    directory_ = std::make_unique<FunctionDirectory>(
        fabric_->builder(), fabric_->management().shared_ports(), fabric_->hosts(), port("h1"));
  }
  [[nodiscard]] fabric::PortIndex port(std::string_view host) const {
    return fabric_->builder().node(*fabric_->builder().find_node(host)).first_port;
  }
  HostServices& services(std::string_view host) {
    return fabric_->hosts().host(*fabric_->builder().find_node(host), now_);
  }
  void listen(std::string_view host) {
    cm::ConnectionManager& connections = services(host).connections();
    ASSERT_TRUE(connections.listen(*connections.create(observer_), {.service_id = kService}));
  }
  /// What RDMA-CM asks for at an address of IPv4.
  [[nodiscard]] static wire::SidrReq to_address(std::string_view text) {
    wire::RdmaCmHeader header{.ip_version = 4};
    const IpAddress address = *parse_ip_address(text);
    std::ranges::copy(address.v4_octets(), header.destination_address.end() - 4);
    wire::SidrReq request{.pkey = kDefaultPKey, .service_id = kRdmaCmUdp};
    wire::pack(header, std::span{request.private_data}.first<wire::kSizeOf<wire::RdmaCmHeader>>());
    return request;
  }
  [[nodiscard]] static wire::SidrReq to_service(PKey pkey) {
    return {.pkey = pkey, .service_id = kService};
  }
  [[nodiscard]] const FunctionDirectory& directory() const { return *directory_; }

  Instant now_{Duration::seconds(1)};
  NoObserver observer_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<FunctionDirectory> directory_;
};

TEST_F(FunctionDirectoryOfAPort, KnowsAddressesOfHostsThatHaveNoServicesYet) {
  EXPECT_EQ(directory().find_address(to_address("127.77.0.3")), FunctionId{1});
  EXPECT_EQ(directory().find_address(to_address("127.77.0.4")), FunctionId{2});
  EXPECT_EQ(directory().find_address(to_address("127.77.0.1")), kPhysicalFunction);
  EXPECT_EQ(directory().find_address(to_address("127.77.0.2")), std::nullopt);  // of another port
  wire::SidrReq plain = to_address("127.77.0.3");
  plain.service_id = kService;  // whose private data are its user's
  EXPECT_EQ(directory().find_address(plain), std::nullopt);
}

TEST_F(FunctionDirectoryOfAPort, KnowsAddressesThatProgramsCarry) {
  constexpr std::string_view kOwn = "10.0.0.4";
  EXPECT_EQ(directory().find_address(to_address(kOwn)), std::nullopt);
  ASSERT_TRUE(services("v2").set_carried(
      {.port = port("v2"),
       .pkey = kPartition,
       .addresses = {{.address = *parse_ip_address(kOwn), .prefix_bits = 8}}}));
  EXPECT_EQ(directory().find_address(to_address(kOwn)), FunctionId{2});
}

TEST_F(FunctionDirectoryOfAPort, KnowsWhoListensInThePartition) {
  EXPECT_EQ(directory().find_listener(to_service(kDefaultPKey)), std::nullopt);
  listen("v2");
  EXPECT_EQ(directory().find_listener(to_service(kPartition)), FunctionId{2});
  EXPECT_EQ(directory().find_listener(to_service(kDefaultPKey)), std::nullopt);
  listen("v1");
  EXPECT_EQ(directory().find_listener(to_service(kDefaultPKey)), FunctionId{1});
  EXPECT_EQ(directory().find_listener(to_service(kPartition)), FunctionId{2});
  wire::SidrReq other = to_service(kDefaultPKey);
  other.service_id = kService + 1;
  EXPECT_EQ(directory().find_listener(other), std::nullopt);
}

}  // namespace
}  // namespace weft::node
