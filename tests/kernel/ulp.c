#include "ulp.h"

#include <asm/byteorder.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_verbs.h>
#include <rdma/rw.h>
#include <string.h>

#define DEVICES 2
#define DEPTH 16

struct ib_device* devices[DEVICES];
static int added;
static int removed;

static int add_one(struct ib_device* device) {
  if (added < DEVICES) {
    devices[added] = device;
  }
  added++;
  return 0;
}

static void remove_one(struct ib_device* device, void* client_data) {
  if (client_data == (void*)device) {
    removed++;
  }
}

static struct ib_client client = {.name = "ulp", .add = add_one, .remove = remove_one};

int open_end(struct end* end, struct ib_device* device, u32 contexts) {
  struct ib_qp_init_attr init = {.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR};
  end->pd = ib_alloc_pd(device, 0);
  CHECK(!IS_ERR(end->pd));
  end->cq = ib_alloc_cq(device, end, 4 * DEPTH, 0, IB_POLL_WORKQUEUE);
  CHECK(!IS_ERR(end->cq));
  CHECK(end->cq->cq_context == end);
  init.send_cq = end->cq;
  init.recv_cq = end->cq;
  init.cap.max_send_wr = DEPTH;
  init.cap.max_recv_wr = DEPTH;
  init.cap.max_send_sge = 2;
  init.cap.max_recv_sge = 2;
  init.cap.max_rdma_ctxs = contexts;
  end->qp = ib_create_qp(end->pd, &init);
  CHECK(!IS_ERR(end->qp));
  CHECK(init.cap.max_send_wr >= DEPTH);
  return 0;
}

int close_end(struct end* end) {
  ib_drain_qp(end->qp);
  CHECK(ib_destroy_qp(end->qp) == 0);
  ib_free_cq(end->cq);
  ib_dealloc_pd(end->pd);
  return 0;
}

static int connect_end(struct end* end, struct end* peer, u16 lid) {
  struct ib_qp_attr attr;
  memset(&attr, 0, sizeof(attr));
  attr.qp_state = IB_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ;
  CHECK(ib_modify_qp(end->qp, &attr,
                     IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IB_QPS_RTR;
  attr.path_mtu = IB_MTU_1024;
  attr.dest_qp_num = peer->qp->qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.type = RDMA_AH_ATTR_TYPE_IB;
  rdma_ah_set_dlid(&attr.ah_attr, lid);
  rdma_ah_set_port_num(&attr.ah_attr, 1);
  CHECK(ib_modify_qp(end->qp, &attr,
                     IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
                         IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IB_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  CHECK(ib_modify_qp(end->qp, &attr,
                     IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
                         IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC) == 0);
  return 0;
}

u16 lid_of(struct ib_device* device) {
  struct ib_port_attr port;
  return ib_query_port(device, 1, &port) == 0 ? (u16)port.lid : 0;
}

static int open_pair(struct end* a, struct end* b, u32 contexts) {
  int failed = open_end(a, devices[0], contexts);
  if (!failed) {
    failed = open_end(b, devices[1], contexts);
  }
  if (!failed) {
    failed = connect_end(a, b, lid_of(devices[1]));
  }
  return failed ? failed : connect_end(b, a, lid_of(devices[0]));
}

static int close_pair(struct end* a, struct end* b) {
  const int failed = close_end(a);
  return failed ? failed : close_end(b);
}

struct request {
  struct ib_cqe cqe;
  int calls;
  struct ib_wc wc;
};

static void done(struct ib_cq* cq, struct ib_wc* wc) {
  struct request* request = container_of(wc->wr_cqe, struct request, cqe);
  (void)cq;
  request->calls++;
  request->wc = *wc;
}

int check_client(void) {
  struct ib_device* held;
  added = 0;
  removed = 0;
  CHECK(ib_register_client(&client) == 0);
  CHECK(added == DEVICES);
  CHECK(ib_register_client(&client) == -EEXIST);
  ib_set_client_data(devices[0], &client, devices[0]);
  ib_set_client_data(devices[1], &client, devices[1]);
  CHECK(ib_get_client_data(devices[1], &client) == devices[1]);
  held = ib_device_get_by_name(devices[0]->name, RDMA_DRIVER_UNKNOWN);
  CHECK(held == devices[0]);
  ib_device_put(held);
  CHECK(ib_device_get_by_name("none", RDMA_DRIVER_UNKNOWN) == NULL);
  ib_unregister_client(&client);
  CHECK(removed == DEVICES);
  return 0;
}

int check_send_and_receive(void) {
  struct end a, b;
  char from[8] = "message", to[8] = "";
  struct request sent = {.cqe = {done}}, received = {.cqe = {done}};
  struct ib_sge from_sge = {.addr = (uintptr_t)from, .length = sizeof(from)};
  struct ib_sge to_sge = {.addr = (uintptr_t)to, .length = sizeof(to)};
  struct ib_recv_wr recv = {.wr_cqe = &received.cqe, .sg_list = &to_sge, .num_sge = 1};
  struct ib_send_wr send = {.wr_cqe = &sent.cqe,
                            .sg_list = &from_sge,
                            .num_sge = 1,
                            .opcode = IB_WR_SEND_WITH_IMM,
                            .send_flags = IB_SEND_SIGNALED};
  int failed = open_pair(&a, &b, 0);
  if (failed) {
    return failed;
  }
  send.ex.imm_data = cpu_to_be32(0x01020304);
  from_sge.lkey = a.pd->local_dma_lkey;
  to_sge.lkey = b.pd->local_dma_lkey;
  CHECK(ib_post_recv(b.qp, &recv, NULL) == 0);
  CHECK(ib_post_send(a.qp, &send, NULL) == 0);
  let_world_run();
  CHECK(sent.calls == 1 && sent.wc.status == IB_WC_SUCCESS && sent.wc.opcode == IB_WC_SEND);
  CHECK(sent.wc.qp == a.qp);
  CHECK(received.calls == 1 && received.wc.status == IB_WC_SUCCESS);
  CHECK(received.wc.opcode == IB_WC_RECV && received.wc.byte_len == sizeof(from));
  CHECK((received.wc.wc_flags & IB_WC_WITH_IMM) != 0);
  CHECK(be32_to_cpu(received.wc.ex.imm_data) == 0x01020304);
  CHECK(received.wc.qp == b.qp);
  CHECK(strcmp(from, to) == 0);
  return close_pair(&a, &b);
}

int check_rdma_context(void) {
  struct end a, b;
  static char local[3][100], remote[300];
  struct scatterlist list[3];
  struct rdma_rw_ctx context;
  struct request written = {.cqe = {done}};
  struct ib_pd* open_pd;
  int failed = open_pair(&a, &b, 4), i;
  if (failed) {
    return failed;
  }
  open_pd = ib_alloc_pd(devices[1], IB_PD_UNSAFE_GLOBAL_RKEY);
  CHECK(!IS_ERR(open_pd));
  ib_dealloc_pd(open_pd);
  sg_init_table(list, 3);
  for (i = 0; i < 3; i++) {
    memset(local[i], 'a' + i, sizeof(local[i]));
    sg_set_buf(&list[i], local[i], sizeof(local[i]));
  }
  /* A key that is none: the transfer ends with an error, once. */
  CHECK(rdma_rw_ctx_init(&context, a.qp, 1, list, 3, 0, (uintptr_t)remote, 0x12345600,
                         DMA_TO_DEVICE) > 0);
  CHECK(rdma_rw_ctx_post(&context, a.qp, 1, &written.cqe, NULL) == 0);
  let_world_run();
  CHECK(written.calls == 1 && written.wc.status != IB_WC_SUCCESS);
  rdma_rw_ctx_destroy(&context, a.qp, 1, list, 3, DMA_TO_DEVICE);
  CHECK(rdma_rw_ctx_init(&context, a.qp, 1, list, 3, 300, (uintptr_t)remote, 1, DMA_TO_DEVICE) ==
        -EIO);
  return close_pair(&a, &b);
}

/* T-PORT-2: no port 0, and none behind the last; T-PORT-4: a GID whose index nobody wants. */
static int check_ports(void) {
  const u8 ports[] = {0, 2};
  union ib_gid gid;
  struct ib_port_attr attr;
  struct ib_port_modify modify;
  unsigned i;
  u16 index;
  u16 pkey;
  u8 lmc;
  u8 port = 0;
  enum ib_port_state state;
  memset(&modify, 0, sizeof(modify));
  CHECK(rdma_query_gid(devices[0], 1, 0, &gid) == 0);
  for (i = 0; i < sizeof(ports); i++) {
    union ib_gid none;
    CHECK(ib_query_port(devices[0], ports[i], &attr) == -EINVAL);
    CHECK(rdma_query_gid(devices[0], ports[i], 0, &none) == -EINVAL);
    CHECK(PTR_ERR(rdma_get_gid_attr(devices[0], ports[i], 0)) == -EINVAL);
    CHECK(PTR_ERR(rdma_find_gid_by_port(devices[0], &gid, IB_GID_TYPE_IB, ports[i], NULL)) ==
          -EINVAL);
    CHECK(ib_query_pkey(devices[0], ports[i], 0, &pkey) == -EINVAL);
    CHECK(ib_find_pkey(devices[0], ports[i], 0xFFFF, &index) == -EINVAL);
    CHECK(ib_get_cached_pkey(devices[0], ports[i], 0, &pkey) == -EINVAL);
    CHECK(ib_find_cached_pkey(devices[0], ports[i], 0xFFFF, &index) == -EINVAL);
    CHECK(ib_find_exact_cached_pkey(devices[0], ports[i], 0xFFFF, &index) == -EINVAL);
    CHECK(ib_get_cached_lmc(devices[0], ports[i], &lmc) == -EINVAL);
    CHECK(ib_get_cached_port_state(devices[0], ports[i], &state) == -EINVAL);
    CHECK(ib_modify_port(devices[0], ports[i], IB_PORT_SHUTDOWN, &modify) == -EINVAL);
  }
  CHECK(ib_find_gid(devices[0], &gid, &port, NULL) == 0 && port == 1);
  return 0;
}

int check_refusals(void) {
  struct end a;
  struct ib_qp_attr attr;
  struct request request = {.cqe = {done}};
  struct ib_send_wr first = {.wr_cqe = &request.cqe, .opcode = IB_WR_SEND};
  const struct ib_send_wr* bad = NULL;
  u16 index;
  u16 pkey;
  int failed = check_ports();
  if (failed) {
    return failed;
  }
  failed = open_end(&a, devices[0], 0);
  if (failed) {
    return failed;
  }
  memset(&attr, 0, sizeof(attr));
  attr.qp_state = IB_QPS_RTS;
  CHECK(ib_modify_qp(a.qp, &attr, IB_QP_STATE) == -EINVAL);
  CHECK(ib_post_send(a.qp, &first, &bad) == -EINVAL);
  CHECK(bad == &first);
  CHECK(ib_post_send(a.qp, NULL, NULL) == -EINVAL);
  CHECK(PTR_ERR(ib_alloc_cq(devices[0], NULL, 0, 0, IB_POLL_DIRECT)) == -EINVAL);
  CHECK(PTR_ERR(ib_alloc_cq(devices[0], NULL, 8, 1000, IB_POLL_DIRECT)) == -EINVAL);
  CHECK(PTR_ERR(ib_alloc_mr(a.pd, IB_MR_TYPE_USER, 8)) == -EINVAL);
  CHECK(ib_query_pkey(devices[0], 1, 0, &pkey) == 0 && pkey == 0xFFFF);
  CHECK(ib_find_pkey(devices[0], 1, 0x7FFF, &index) == 0 && index == 0);
  CHECK(ib_find_pkey(devices[0], 1, 0x1234, &index) == -ENOENT);
  /* Both stay whole, as what is in them does. */
  ib_free_cq(a.cq);
  ib_dealloc_pd(a.pd);
  CHECK(ib_destroy_qp(a.qp) == 0);
  ib_free_cq(a.cq);
  ib_dealloc_pd(a.pd);
  return 0;
}

int check_registration(void) {
  struct end a;
  static char memory[3 * 4096] __attribute__((aligned(4096)));
  struct scatterlist list[2];
  struct ib_mr* mr;
  u32 key;
  int failed = open_end(&a, devices[0], 0);
  if (failed) {
    return failed;
  }
  mr = ib_alloc_mr(a.pd, IB_MR_TYPE_MEM_REG, 4);
  CHECK(!IS_ERR(mr));
  key = mr->rkey;
  ib_update_fast_reg_key(mr, (u8)(key + 1));
  CHECK(mr->rkey == ib_inc_rkey(key));
  sg_init_table(list, 2);
  sg_set_buf(&list[0], memory, 4096);
  sg_set_buf(&list[1], memory + 8192, 4096);
  CHECK(ib_dma_map_sg(devices[0], list, 2, DMA_TO_DEVICE) == 2);
  CHECK(ib_map_mr_sg(mr, list, 2, NULL, 4096) == 2);
  CHECK(mr->length == 8192 && mr->iova == (uintptr_t)memory);
  CHECK(mr->rkey == ib_inc_rkey(key));
  CHECK(ib_map_mr_sg_pi(mr, list, 1, NULL, list, 1, NULL, 4096) == -EINVAL);
  CHECK(ib_dereg_mr(mr) == 0);
  CHECK(ib_destroy_qp(a.qp) == 0);
  ib_free_cq(a.cq);
  ib_dealloc_pd(a.pd);
  return 0;
}

int check_headers(void) {
  struct ib_ud_header header, again;
  u8 wire[128] = {0};
  CHECK(ib_ud_header_init(5, 1, 0, 0, 1, 0, 0, 1, &header) == 0);
  header.lrh.destination_lid = cpu_to_be16(7);
  header.deth.source_qpn = cpu_to_be32(9);
  CHECK(header.bth.opcode == 0x65 && header.bth.pad_count == 3);
  CHECK(ib_ud_header_pack(&header, wire) == 8 + 40 + 12 + 8 + 4);
  CHECK(wire[2] == 0 && wire[3] == 7);
  CHECK(ib_ud_header_unpack(wire, &again) == 0);
  CHECK(again.lrh.destination_lid == header.lrh.destination_lid);
  CHECK(again.deth.source_qpn == header.deth.source_qpn);
  CHECK(again.grh_present && again.immediate_present);
  CHECK(ib_ud_header_init(0, 1, 0, 0, 0, 5, 0, 0, &header) == -EINVAL);
  wire[0] |= 0x0F; /* the link version */
  CHECK(ib_ud_header_unpack(wire, &again) == -EINVAL);
  return 0;
}

/* A request's structure follows from its opcode; of one that no datagram QP takes nothing more is
 * read than ib_send_wr has. */
int check_datagram_refusals(void) {
  static const enum ib_wr_opcode opcodes[] = {
      IB_WR_RDMA_WRITE,         IB_WR_RDMA_WRITE_WITH_IMM,  IB_WR_RDMA_READ,
      IB_WR_ATOMIC_CMP_AND_SWP, IB_WR_ATOMIC_FETCH_AND_ADD, IB_WR_REG_MR,
      IB_WR_REG_MR_INTEGRITY};
  struct ib_qp_init_attr init = {.qp_type = IB_QPT_UD, .sq_sig_type = IB_SIGNAL_REQ_WR};
  struct rdma_ah_attr attr = {.type = RDMA_AH_ATTR_TYPE_IB};
  struct ib_ud_wr wr;
  struct ib_qp* qp;
  struct end end;
  CHECK(open_end(&end, devices[0], 0) == 0);
  init.send_cq = init.recv_cq = end.cq;
  init.cap.max_send_wr = init.cap.max_recv_wr = DEPTH;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  qp = ib_create_qp(end.pd, &init);
  CHECK(!IS_ERR(qp));
  memset(&wr, 0, sizeof(wr));
  rdma_ah_set_dlid(&attr, lid_of(devices[1]));
  rdma_ah_set_port_num(&attr, 1);
  wr.ah = rdma_create_ah(end.pd, &attr, 0);
  CHECK(!IS_ERR(wr.ah));
  for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
    const struct ib_send_wr* bad = NULL;
    wr.wr.opcode = opcodes[i];
    CHECK(ib_post_send(qp, &wr.wr, &bad) < 0);
    CHECK(bad == &wr.wr);
  }
  CHECK(rdma_destroy_ah(wr.ah, 0) == 0);
  CHECK(ib_destroy_qp(qp) == 0);
  return close_end(&end);
}
