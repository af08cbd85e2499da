// Objects that were destroyed, used through the C API: a checked build names the object, the call,
// and who destroyed it, and ends the program.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/cm/rdma_cm.h"
#include "kernel/freed_objects.h"
#include "kernel_world.h"
#include "ulp.h"

namespace weft::kernel {
namespace {

/// Ids that do nothing, for a host whose devices are in memory.
class IdleId final : public core::RdmaCmId {
 public:
  [[nodiscard]] core::Device* device() const override { return nullptr; }
  [[nodiscard]] PortNumber port() const override { return {}; }
  [[nodiscard]] core::Qp* qp() const override { return nullptr; }
  void set_handler(core::RdmaCmHandler& /*handler*/) override {}
  Result<void> bind(const core::RdmaCmAddress& /*address*/) override { return {}; }
  Result<void> listen(int /*backlog*/) override { return {}; }
  [[nodiscard]] std::uint16_t source_port() const override { return 0; }
  Result<void> resolve_address(const core::RdmaCmAddress& /*to*/, Duration /*timeout*/) override {
    return {};
  }
  Result<void> resolve_route(Duration /*timeout*/) override { return {}; }
  Result<core::Qp*> create_qp(core::Pd& /*pd*/, core::QpInit& /*init*/) override { return nullptr; }
  Result<void> use_qp(core::Qp& /*qp*/) override { return {}; }
  void destroy_qp() override {}
  Result<void> connect(const verbs::ConnectionParameters& /*parameters*/) override { return {}; }
  Result<void> accept(const verbs::ConnectionParameters& /*parameters*/) override { return {}; }
  Result<void> reject(ByteSpan /*data*/) override { return {}; }
  Result<void> disconnect() override { return {}; }
  Result<void> notify(verbs::AsyncEventType /*event*/) override { return {}; }
};

class IdleCm final : public core::RdmaCm {
 public:
  Result<std::unique_ptr<core::RdmaCmId>> create_id(core::RdmaCmHandler& /*handler*/) override {
    return std::make_unique<IdleId>();
  }
};

struct Use {
  const char* name;
  int (*function)();
  const char* message;
};

class FreedObjects : public ::testing::TestWithParam<Use> {
 protected:
  FreedObjects() {
    set_cm(cm_);
    EXPECT_EQ(check_client(), 0);
  }
  IdleCm cm_;
  KernelWorld world_;
};

TEST_P(FreedObjects, AreNamedWithTheCallsThatUsedAndDestroyedThem) {
  if (!kChecksObjects) {
    GTEST_SKIP() << "WEFT_CHECKED_OBJECTS is off in this build";
  }
  const std::string message =
      "weft-rdma: " + std::string{GetParam().message} + " at\n.*weft_kernel_api_test";
  EXPECT_DEATH(static_cast<void>(GetParam().function()), message);
}

INSTANTIATE_TEST_SUITE_P(
    Of, FreedObjects,
    ::testing::Values(
        Use{"Qp", use_destroyed_qp, "ib_post_send: QP 0x[0-9a-f]+ was destroyed by ib_destroy_qp"},
        Use{"QpTwice", destroy_qp_twice,
            "ib_destroy_qp: QP 0x[0-9a-f]+ was destroyed by ib_destroy_qp"},
        Use{"Pd", use_destroyed_pd, "ib_alloc_mr: PD 0x[0-9a-f]+ was destroyed by ib_dealloc_pd"},
        Use{"Cq", use_destroyed_cq,
            "ib_process_cq_direct: CQ 0x[0-9a-f]+ was destroyed by ib_free_cq"},
        Use{"CqOfANewQp", create_qp_on_destroyed_cq,
            "ib_create_qp: CQ 0x[0-9a-f]+ was destroyed by ib_free_cq"},
        Use{"Mr", use_destroyed_mr, "ib_post_send: MR 0x[0-9a-f]+ was destroyed by ib_dereg_mr"},
        Use{"Ah", use_destroyed_ah,
            "rdma_query_ah: AH 0x[0-9a-f]+ was destroyed by rdma_destroy_ah"},
        Use{"Srq", use_destroyed_srq,
            "ib_post_srq_recv: SRQ 0x[0-9a-f]+ was destroyed by ib_destroy_srq"},
        Use{"Wq", use_destroyed_wq, "ib_modify_wq: WQ 0x[0-9a-f]+ was destroyed by ib_destroy_wq"},
        Use{"CmId", use_destroyed_cm_id,
            "ib_cm_listen: CM id 0x[0-9a-f]+ was destroyed by ib_destroy_cm_id"},
        Use{"RdmaCmId", use_destroyed_rdma_cm_id,
            "rdma_listen: RDMA-CM id 0x[0-9a-f]+ was destroyed by rdma_destroy_id"}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(FreedObjectsAgain, AreAliveOnceTheyAreMadeAgain) {
  const KernelWorld world;
  ASSERT_EQ(check_client(), 0);
  EXPECT_EQ(make_and_destroy_again(), 0);
}

}  // namespace
}  // namespace weft::kernel
