// Verbs that no device here supports: each gives a reason, where an empty slot would only set
// errno.

#include <cerrno>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

constexpr const char* kEthernet =
    "flows and counters of flows are for Ethernet ports; this one is InfiniBand";

template <class Object>
Object* refuse_object(const char* reason) {
  refuse(EOPNOTSUPP, reason);
  return nullptr;
}

ibv_flow* create_flow(ibv_qp*, ibv_flow_attr*) noexcept {
  return refuse_object<ibv_flow>(kEthernet);
}
ibv_flow_action* create_flow_action_esp(ibv_context*, ibv_flow_action_esp_attr*) noexcept {
  return refuse_object<ibv_flow_action>(kEthernet);
}
ibv_counters* create_counters(ibv_context*, ibv_counters_init_attr*) noexcept {
  return refuse_object<ibv_counters>(kEthernet);
}

int modify_qp_rate_limit(ibv_qp*, ibv_qp_rate_limit_attr*) noexcept {
  return refuse(EOPNOTSUPP, "packets are not paced (packet_pacing_caps is empty)");
}
int post_srq_ops(ibv_srq*, ibv_ops_wr* wr, ibv_ops_wr** bad_wr) noexcept {
  *bad_wr = wr;
  return refuse(EOPNOTSUPP, "there is no tag matching (tm_caps is empty)");
}

}  // namespace

void set_refused_operations(verbs_context& verbs) {
  verbs.ibv_create_flow = create_flow;
  verbs.create_flow_action_esp = create_flow_action_esp;
  verbs.create_counters = create_counters;
  verbs.modify_qp_rate_limit = modify_qp_rate_limit;
  verbs.post_srq_ops = post_srq_ops;
}

}  // namespace weft::compat
