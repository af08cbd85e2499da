// RDMA-CM in C over the verbs driver's, whose librdmacm is scripted: handlers in threads.

#include <gtest/gtest.h>

#include <string_view>

#include "core/registry.h"
#include "kernel/host.h"
#include "rdma_cm_script.h"
#include "verbs_driver/rdma_cm.h"
#include "verbs_driver/testing/scripted_rdmacm.h"
#include "verbs_driver/threaded_environment.h"

namespace weft::kernel {
namespace {

using verbs_driver::testing::ScriptedRdmaCm;

ScriptedRdmaCm* scripted = nullptr;  // of the script's functions, which are C's

/// T-CM-13, R-CM-12
TEST(KernelRdmaCm, CallsHandlersOfOneIdInOrderWhileThoseOfOthersBlock) {
  ScriptedRdmaCm library;
  scripted = &library;
  const verbs_driver::RdmaCmLibrary functions = ScriptedRdmaCm::library();
  verbs_driver::ThreadedEnvironment environment{[](core::LogLevel, std::string_view) {}};
  core::Registry registry{environment};
  auto cm = verbs_driver::LiveRdmaCm::start(environment, {}, functions);
  ASSERT_TRUE(cm);
  install_host({.registry = &registry, .cm = cm->get()});
  const rdma_cm_script script{.tell =
                                  [](unsigned id, int event) {
                                    scripted->tell(scripted->id(id),
                                                   static_cast<rdma_cm_event_type>(event));
                                  },
                              .living = [] { return static_cast<unsigned>(scripted->living()); }};
  EXPECT_EQ(check_rdma_cm_handlers(&script), 0);
  remove_host();
}

}  // namespace
}  // namespace weft::kernel
