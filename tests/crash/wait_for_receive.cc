// A program that only waits: for a receive that never comes, then for an asynchronous event. Says
// how both ended.

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "verbs_end.h"

int main() {
  const crash::End end{4};
  std::vector<std::uint8_t> memory(64);
  ibv_mr* const region = end.share(memory);
  ibv_qp* const qp = end.make_qp(1);
  ibv_sge sge{.addr = crash::number_of(memory.data()), .length = 64, .lkey = region->lkey};
  ibv_recv_wr wr{.wr_id = 7, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  crash::require(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
  crash::End::connect(qp, {.lid = end.lid, .qpn = qp->qp_num});
  crash::say("waiting\n");
  const ibv_wc wc = end.wait();
  ibv_async_event event{};
  crash::require(ibv_get_async_event(end.context, &event) == 0, "ibv_get_async_event");
  ibv_ack_async_event(&event);
  crash::say(ibv_wc_status_str(wc.status), "; ", ibv_event_type_str(event.event_type), "\n");
  const bool expected =
      wc.status == IBV_WC_WR_FLUSH_ERR && event.event_type == IBV_EVENT_DEVICE_FATAL;
  return expected && ibv_destroy_qp(qp) == 0 ? 0 : 1;
}
