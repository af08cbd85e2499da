/* Each function uses an object that was destroyed, which ends the program in builds that check it.
 * They return only where that fails, or in a build that does not check. */

#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rw.h>
#include <string.h>

#include "ulp.h"

int use_destroyed_qp(void) {
  struct end end;
  struct ib_qp* qp;
  struct ib_send_wr wr = {.opcode = IB_WR_SEND};
  const struct ib_send_wr* bad;
  CHECK(open_end(&end, devices[0], 0) == 0);
  qp = end.qp;
  CHECK(close_end(&end) == 0);
  return ib_post_send(qp, &wr, &bad);
}

int destroy_qp_twice(void) {
  struct end end;
  CHECK(open_end(&end, devices[0], 0) == 0);
  CHECK(ib_destroy_qp(end.qp) == 0);
  return ib_destroy_qp(end.qp);
}

int use_destroyed_pd(void) {
  struct ib_pd* pd = ib_alloc_pd(devices[0], 0);
  CHECK(!IS_ERR(pd));
  ib_dealloc_pd(pd);
  return IS_ERR(ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 4));
}

int use_destroyed_cq(void) {
  struct ib_cq* cq = ib_alloc_cq(devices[0], NULL, 8, 0, IB_POLL_DIRECT);
  CHECK(!IS_ERR(cq));
  ib_free_cq(cq);
  return ib_process_cq_direct(cq, 1);
}

int create_qp_on_destroyed_cq(void) {
  struct ib_pd* pd = ib_alloc_pd(devices[0], 0);
  struct ib_qp_init_attr init = {.qp_type = IB_QPT_RC};
  CHECK(!IS_ERR(pd));
  init.send_cq = init.recv_cq = ib_alloc_cq(devices[0], NULL, 8, 0, IB_POLL_DIRECT);
  CHECK(!IS_ERR(init.send_cq));
  ib_free_cq(init.send_cq);
  return IS_ERR(ib_create_qp(pd, &init));
}

int use_destroyed_mr(void) {
  struct end end;
  struct ib_mr* mr;
  struct ib_reg_wr wr;
  const struct ib_send_wr* bad;
  CHECK(open_end(&end, devices[0], 0) == 0);
  mr = ib_alloc_mr(end.pd, IB_MR_TYPE_MEM_REG, 4);
  CHECK(!IS_ERR(mr));
  CHECK(ib_dereg_mr(mr) == 0);
  memset(&wr, 0, sizeof(wr));
  wr.wr.opcode = IB_WR_REG_MR;
  wr.mr = mr;
  return ib_post_send(end.qp, &wr.wr, &bad);
}

int use_destroyed_ah(void) {
  struct ib_pd* pd = ib_alloc_pd(devices[0], 0);
  struct rdma_ah_attr attr = {.type = RDMA_AH_ATTR_TYPE_IB};
  struct ib_ah* ah;
  CHECK(!IS_ERR(pd));
  rdma_ah_set_dlid(&attr, 2);
  rdma_ah_set_port_num(&attr, 1);
  ah = rdma_create_ah(pd, &attr, 0);
  CHECK(!IS_ERR(ah));
  CHECK(rdma_destroy_ah(ah, 0) == 0);
  return rdma_query_ah(ah, &attr);
}

int use_destroyed_srq(void) {
  struct ib_pd* pd = ib_alloc_pd(devices[0], 0);
  struct ib_srq_init_attr init = {
      .attr = {.max_wr = 4, .max_sge = 1}
  };
  struct ib_recv_wr wr = {0};
  const struct ib_recv_wr* bad;
  struct ib_srq* srq;
  CHECK(!IS_ERR(pd));
  srq = ib_create_srq(pd, &init);
  CHECK(!IS_ERR(srq));
  CHECK(ib_destroy_srq(srq) == 0);
  return ib_post_srq_recv(srq, &wr, &bad);
}

int use_destroyed_wq(void) {
  struct ib_wq_init_attr init = {.wq_type = IB_WQT_RQ, .max_wr = 4, .max_sge = 1};
  struct ib_wq_attr attr = {.wq_state = IB_WQS_RDY};
  struct ib_pd* pd = ib_alloc_pd(devices[0], 0);
  struct ib_wq* wq;
  init.cq = ib_alloc_cq(devices[0], NULL, 8, 0, IB_POLL_DIRECT);
  CHECK(!IS_ERR(pd) && !IS_ERR(init.cq));
  wq = ib_create_wq(pd, &init);
  CHECK(!IS_ERR(wq));
  CHECK(ib_destroy_wq(wq, NULL) == 0);
  return ib_modify_wq(wq, &attr, IB_WQ_STATE);
}

static int ignore_event(struct ib_cm_id* id, struct ib_cm_event* event) {
  (void)id;
  (void)event;
  return 0;
}

int use_destroyed_cm_id(void) {
  struct ib_cm_id* id = ib_create_cm_id(ignore_event, NULL);
  CHECK(!IS_ERR(id));
  CHECK(ib_destroy_cm_id(id) == 0);
  return ib_cm_listen(id, 0x1234);
}

static int ignore_rdma_event(struct rdma_cm_id* id, struct rdma_cm_event* event) {
  (void)id;
  (void)event;
  return 0;
}

int use_destroyed_rdma_cm_id(void) {
  struct rdma_cm_id* id = rdma_create_id(NULL, ignore_rdma_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
  CHECK(!IS_ERR(id));
  rdma_destroy_id(id);
  return rdma_listen(id, 1);
}

/* What is destroyed and made again is alive, wherever it is in memory. */
int make_and_destroy_again(void) {
  int i;
  for (i = 0; i < 1000; i++) {
    struct end end;
    CHECK(open_end(&end, devices[0], 0) == 0);
    CHECK(close_end(&end) == 0);
  }
  return 0;
}
