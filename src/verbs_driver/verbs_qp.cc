#include "verbs_driver/verbs_qp.h"

namespace weft::verbs_driver {

Result<void> VerbsQp::modify(ibv_qp_attr attributes, int mask) {
  const std::lock_guard lock{mutex_};
  auto modified = check_call(library_.modify_qp(&qp_, &attributes, mask), "ibv_modify_qp");
  if (modified && (mask & IBV_QP_STATE) != 0) {
    is_in_error_.store(attributes.qp_state == IBV_QPS_ERR, std::memory_order_release);
  }
  return modified;
}

Result<void> VerbsQp::post_recv(ibv_recv_wr& first, ibv_recv_wr** bad) {
  auto posted = check_call(ibv_post_recv(&qp_, &first, bad), "ibv_post_recv");
  if (is_in_error_.load(std::memory_order_acquire)) {
    flush_receives();
  }
  return posted;
}

void VerbsQp::flush_receives() {
  const std::lock_guard lock{mutex_};
  if (is_in_error_.load(std::memory_order_relaxed)) {  // and not reset meanwhile
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    library_.modify_qp(&qp_, &error, IBV_QP_STATE);  // refused: the device is gone
  }
}

}  // namespace weft::verbs_driver
