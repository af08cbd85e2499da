#pragma once

// One end of RC connections, as the programs of this folder use it: everything is event-driven, and
// whatever fails ends the program with a message. Peers learn of each other through the test that
// runs them: addresses go out on standard output and come in on standard input.

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

namespace crash {

inline void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(3);
  }
}

[[nodiscard]] inline std::uint64_t number_of(const void* address) {
  std::uint64_t number{};
  std::memcpy(&number, &address, sizeof number);
  return number;
}

struct Peer {
  unsigned lid{};
  unsigned qpn{};
};

class End {
 public:
  explicit End(int completions) {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    require(list != nullptr && count > 0, "ibv_get_device_list");
    context = ibv_open_device(list[0]);
    require(context != nullptr, "ibv_open_device");
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    require(pd != nullptr && channel != nullptr, "PD and completion channel");
    cq = ibv_create_cq(context, completions, nullptr, channel, 0);
    require(cq != nullptr, "ibv_create_cq");
    ibv_port_attr port{};
    require(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
    lid = port.lid;
    require(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
  }

  [[nodiscard]] ibv_mr* share(std::vector<std::uint8_t>& memory) const {
    ibv_mr* const region =
        ibv_reg_mr(pd, memory.data(), memory.size(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    require(region != nullptr, "ibv_reg_mr");
    return region;
  }

  /// In INIT, where receives may be posted.
  [[nodiscard]] ibv_qp* make_qp(unsigned depth) const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = depth;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    require(qp != nullptr, "ibv_create_qp");
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    require(ibv_modify_qp(
                qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
            "modify QP to INIT");
    return qp;
  }

  static void connect(ibv_qp* qp, Peer peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer.qpn;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = 12;
    to.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
    to.ah_attr.port_num = 1;
    require(
        ibv_modify_qp(qp, &to,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "modify QP to RTR");
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = 1;
    require(ibv_modify_qp(qp, &to,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
            "modify QP to RTS");
  }

  /// The next completion; sleeps until there is one.
  [[nodiscard]] ibv_wc wait() const {
    ibv_wc wc{};
    int count = 0;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
      ibv_cq* ready = nullptr;
      void* user = nullptr;
      require(ibv_get_cq_event(channel, &ready, &user) == 0, "ibv_get_cq_event");
      ibv_ack_cq_events(ready, 1);
      require(ibv_req_notify_cq(ready, 0) == 0, "ibv_req_notify_cq");
    }
    require(count == 1, "ibv_poll_cq");
    return wc;
  }

  /// The same, and it must be a success.
  ibv_wc wait_for_success() const {
    const ibv_wc wc = wait();
    if (wc.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "completion of %#llx: %s\n", static_cast<unsigned long long>(wc.wr_id),
                   ibv_wc_status_str(wc.status));
      std::exit(4);
    }
    return wc;
  }

  ibv_context* context{};
  ibv_pd* pd{};
  ibv_comp_channel* channel{};
  ibv_cq* cq{};
  unsigned lid{};
};

/// A line for the test, or a part of one; it waits for it.
template <class... Values>
void say(const Values&... values) {
  (std::cout << ... << values) << std::flush;
}

[[nodiscard]] inline Peer read_peer() {
  Peer peer;
  require(std::scanf("%u %u", &peer.lid, &peer.qpn) == 2, "address of a peer");
  return peer;
}

/// Sleeps until the test closes our standard input.
inline void wait_for_the_end() {
  while (std::getchar() != EOF) {
  }
}

}  // namespace crash
