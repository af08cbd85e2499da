/* What a user of the API may do wrong: wrong states, objects of another device, full queues,
 * numbers of nothing, objects that are in use. Each call either does what it says or returns one of
 * the kernel's error numbers, and then nothing has changed (acceptance: bad input). What no caller
 * may do is left out: to use an object after it was freed. */

#include <rdma/ib_cache.h>
#include <rdma/ib_fmr_pool.h>
#include <rdma/ib_verbs.h>
#include <string.h>

#include "ulp.h"

#define SLOTS 4
#define MEMORY 65536
#define LONGEST 4096
#define PAGE 4096

/* An object with what uses it, counted here as the API has to count it. */
struct pd_slot {
  struct ib_pd* pd;
  int uses;
};
struct cq_slot {
  struct ib_cq* cq;
  int uses;
};
struct srq_slot {
  struct ib_srq* srq;
  struct pd_slot* pd;
  int uses;
};
struct qp_slot {
  struct ib_qp* qp;
  struct pd_slot* pd;
  struct cq_slot *send, *receive;
  struct srq_slot* srq;
};
struct mr_slot {
  struct ib_mr* mr;
  struct pd_slot* pd;
};
struct ah_slot {
  struct ib_ah* ah;
  struct pd_slot* pd;
};
struct wq_slot {
  struct ib_wq* wq;
  struct pd_slot* pd;
  struct cq_slot* cq;
};
struct fmr_slot {
  struct ib_fmr_pool* pool;
  struct pd_slot* pd;
  struct ib_pool_fmr* mapped[SLOTS];
};

static struct world {
  const u8 *at, *end;
  struct pd_slot pds[SLOTS];
  struct cq_slot cqs[SLOTS];
  struct srq_slot srqs[SLOTS];
  struct qp_slot qps[SLOTS];
  struct mr_slot mrs[SLOTS];
  struct ah_slot ahs[SLOTS];
  struct wq_slot wqs[SLOTS];
  struct fmr_slot fmrs[SLOTS];
} w;
static u8 memory[MEMORY] __attribute__((aligned(PAGE)));
static unsigned long posted, done_calls;

/* The input, and zeros behind its end. */
static u8 take(void) { return w.at < w.end ? *w.at++ : 0; }
static u32 take32(void) {
  const u32 high = take(), low = take();
  return high << 24 | low;
}
static unsigned slot(void) { return take() % SLOTS; }
/* Mostly small, now and then of any size. */
static u32 count(void) {
  const u8 octet = take();
  return octet < 240 ? octet % 40 : octet == 255 ? 0xFFFFFFFF : (u32)(octet - 239) << 12;
}

static void request_done(struct ib_cq* cq, struct ib_wc* wc) {
  (void)cq;
  (void)wc;
  done_calls++;
}
static struct ib_cqe request = {request_done};

/* The error numbers that the kernel's documentation has for these calls. */
static bool is_error(long number) {
  switch (number) {
    case -EINVAL:
    case -ENOMEM:
    case -EBUSY:
    case -EOPNOTSUPP:
    case -ENODEV:
    case -ENOENT:
    case -EAGAIN:
    case -EPERM:
    case -EACCES:
    case -EIO:
    case -EFAULT:
    case -EEXIST:
    case -ENOSYS:
    case -EADDRNOTAVAIL:
      return true;
    default:
      return false;
  }
}
static bool is_answer(long answer) { return answer == 0 || is_error(answer); }

static struct ib_pd* any_pd(struct pd_slot** found) {
  *found = &w.pds[slot()];
  return (*found)->pd;
}

static int call_pd(void) {
  struct pd_slot* const pd = &w.pds[slot()];
  if (pd->pd == NULL) {
    pd->pd = ib_alloc_pd(devices[take() % 2], take());
    if (IS_ERR(pd->pd)) {
      CHECK(is_error(PTR_ERR(pd->pd)));
      pd->pd = NULL;
    }
    return 0;
  }
  ib_dealloc_pd(pd->pd); /* stays while it is used */
  if (pd->uses == 0) {
    pd->pd = NULL;
  }
  return 0;
}

static int call_cq(void) {
  struct cq_slot* const cq = &w.cqs[slot()];
  struct ib_wc wc[2];
  if (cq->cq == NULL) {
    const int entries = (int)count(), vector = take() % 4 - 1;
    cq->cq =
        ib_alloc_cq(devices[take() % 2], NULL, entries, vector, (enum ib_poll_context)(take() % 5));
    if (IS_ERR(cq->cq)) {
      CHECK(is_error(PTR_ERR(cq->cq)));
      cq->cq = NULL;
    }
    return 0;
  }
  switch (take() % 5) {
    case 0:
      CHECK(is_answer(ib_resize_cq(cq->cq, (int)count())));
      break;
    case 1:
      if (cq->cq->poll_ctx == IB_POLL_DIRECT) {
        CHECK(ib_process_cq_direct(cq->cq, take() % 8) >= 0);
      }
      break;
    case 2:
      CHECK(ib_req_notify_cq(cq->cq, (enum ib_cq_notify_flags)(take() % 8)) >= -EINVAL);
      break;
    case 3:
      CHECK(ib_poll_cq(cq->cq, 0, wc) <= 0);
      break;
    default:
      ib_free_cq(cq->cq); /* stays while it is used */
      if (cq->uses == 0) {
        cq->cq = NULL;
      }
  }
  return 0;
}

static int call_srq(void) {
  struct srq_slot* const srq = &w.srqs[slot()];
  struct ib_srq_attr attr = {0};
  if (srq->srq == NULL) {
    struct ib_srq_init_attr init = {0};
    struct ib_pd* const pd = any_pd(&srq->pd);
    if (pd == NULL) {
      return 0;
    }
    init.attr.max_wr = count();
    init.attr.max_sge = count();
    init.attr.srq_limit = count();
    init.srq_type = (enum ib_srq_type)(take() % 4 == 0 ? take() % 4 : 0);
    srq->srq = ib_create_srq(pd, &init);
    if (IS_ERR(srq->srq)) {
      CHECK(is_error(PTR_ERR(srq->srq)));
      srq->srq = NULL;
    } else {
      srq->pd->uses++;
    }
    return 0;
  }
  switch (take() % 3) {
    case 0:
      attr.max_wr = count();
      attr.srq_limit = count();
      CHECK(is_answer(ib_modify_srq(srq->srq, &attr, (enum ib_srq_attr_mask)(take() % 8))));
      break;
    case 1:
      CHECK(ib_query_srq(srq->srq, &attr) == 0);
      break;
    default: {
      const int gone = ib_destroy_srq(srq->srq);
      CHECK(gone == (srq->uses == 0 ? 0 : -EBUSY));
      if (gone == 0) {
        srq->srq = NULL;
        srq->pd->uses--;
      }
    }
  }
  return 0;
}

static int create_qp(struct qp_slot* qp) {
  struct ib_qp_init_attr init = {0};
  struct ib_pd* const pd = any_pd(&qp->pd);
  const u8 parts = take();
  if (pd == NULL) {
    return 0;
  }
  qp->send = &w.cqs[slot()];
  qp->receive = &w.cqs[slot()];
  qp->srq = &w.srqs[slot()];
  init.qp_type = (enum ib_qp_type)(take() % 16 == 0 ? take() % 12 : IB_QPT_RC + take() % 3);
  init.sq_sig_type = (enum ib_sig_type)(take() % 2);
  init.send_cq = qp->send->cq;
  init.recv_cq = qp->receive->cq;
  init.srq = (parts & 1) != 0 ? qp->srq->srq : NULL;
  init.cap.max_send_wr = count();
  init.cap.max_recv_wr = count();
  init.cap.max_send_sge = count() % 64;
  init.cap.max_recv_sge = count() % 64;
  init.cap.max_inline_data = count();
  init.cap.max_rdma_ctxs = (parts & 2) != 0 ? count() % 64 : 0;
  init.create_flags = (parts & 4) != 0 ? take() : 0;
  init.port_num = take() % 4;
  qp->qp = ib_create_qp(pd, &init);
  if (IS_ERR(qp->qp)) {
    CHECK(is_error(PTR_ERR(qp->qp)));
    qp->qp = NULL;
    return 0;
  }
  CHECK(qp->qp->device == pd->device);
  qp->pd->uses++;
  qp->send->uses += qp->qp->send_cq != NULL;
  qp->receive->uses += qp->qp->recv_cq != NULL;
  if (qp->qp->srq == NULL) {
    qp->srq = NULL;
  } else {
    qp->srq->uses++;
  }
  return 0;
}

/* A QP of a multicast group stays. */
static int destroy_qp(struct qp_slot* qp) {
  const int sends = qp->qp->send_cq != NULL, receives = qp->qp->recv_cq != NULL;
  const int gone = ib_destroy_qp(qp->qp);
  CHECK(gone == 0 || gone == -EBUSY);
  if (gone != 0) {
    return 0;
  }
  qp->qp = NULL;
  qp->pd->uses--;
  qp->send->uses -= sends;
  qp->receive->uses -= receives;
  if (qp->srq != NULL) {
    qp->srq->uses--;
  }
  return 0;
}

static void fill_address(struct rdma_ah_attr* address) {
  memset(address, 0, sizeof(*address));
  address->type = (enum rdma_ah_attr_type)(take() % 8 == 0 ? take() % 5 : RDMA_AH_ATTR_TYPE_IB);
  rdma_ah_set_dlid(address, take() % 4);
  rdma_ah_set_port_num(address, take() % 8 == 0 ? take() : 1);
  rdma_ah_set_sl(address, take() % 18);
  rdma_ah_set_static_rate(address, take() % 20);
  if (take() % 4 == 0) {
    union ib_gid gid;
    memset(&gid, take(), sizeof(gid));
    rdma_ah_set_grh(address, &gid, take32(), take() % 4, take(), take());
  }
}

/* What takes a QP a state further, so that inputs get anywhere; or anything. */
static int modify_qp(struct ib_qp* qp) {
  static const int kUsual[] = {
      [IB_QPS_INIT] = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT,
      [IB_QPS_RTR] = IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
                     IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER,
      [IB_QPS_RTS] = IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
                     IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC,
      [IB_QPS_ERR] = IB_QP_STATE,
  };
  const bool is_rc = qp->qp_type == IB_QPT_RC;
  const u8 how = take();
  struct qp_slot* const peer = &w.qps[slot()];
  struct ib_qp_attr attr = {0};
  int mask;
  attr.qp_state = (enum ib_qp_state)(how % 7);
  attr.cur_qp_state = (enum ib_qp_state)(take() % 7);
  attr.path_mtu = (enum ib_mtu)(how < 200 ? IB_MTU_1024 : take() % 8);
  attr.path_mig_state = (enum ib_mig_state)(take() % 4);
  attr.dest_qp_num = peer->qp != NULL ? peer->qp->qp_num : take();
  attr.qp_access_flags = take();
  attr.port_num = how < 200 ? 1 : take();
  attr.pkey_index = how < 200 ? 0 : take();
  attr.timeout = take() % 40;
  attr.retry_cnt = take() % 9;
  attr.rnr_retry = take() % 7; /* 7 would be for ever */
  attr.max_rd_atomic = take();
  attr.max_dest_rd_atomic = take();
  attr.min_rnr_timer = take() % 40;
  fill_address(&attr.ah_attr);
  if (how < 200 && attr.qp_state < sizeof(kUsual) / sizeof(kUsual[0]) &&
      kUsual[attr.qp_state] != 0) {
    mask = kUsual[attr.qp_state];
    if (qp->qp_type == IB_QPT_UD) {
      mask &= IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_SQ_PSN;
      mask |= attr.qp_state == IB_QPS_INIT ? IB_QP_QKEY : 0;
    } else if (!is_rc) {
      mask &= ~(IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
                IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
    }
    mask |= attr.qp_state == IB_QPS_INIT && qp->qp_type != IB_QPT_UD ? IB_QP_ACCESS_FLAGS : 0;
  } else {
    mask = (int)(take32() >> 6);
  }
  CHECK(is_answer(ib_modify_qp(qp, &attr, mask)));
  return 0;
}

static void fill_elements(struct ib_sge* elements, unsigned number, const struct ib_pd* pd) {
  for (unsigned i = 0; i < number; i++) {
    const u8 odd = take();
    elements[i].addr = (uintptr_t)memory + (u64)take() * 200;
    elements[i].length = (u32)take() * 8 % LONGEST;
    elements[i].lkey = odd < 230 ? pd->local_dma_lkey : take32();
    elements[i].addr += odd >= 245 ? 1ULL << 40 : 0;
  }
}

static int post_send(struct ib_qp* qp) {
  /* Each opcode has the structure that its users put around the request; this has room for all. */
  union {
    struct ib_send_wr wr;
    struct ib_rdma_wr rdma;
    struct ib_atomic_wr atomic;
    struct ib_ud_wr ud;
    struct ib_reg_wr reg;
  } all;
  struct ib_sge elements[3];
  const struct ib_send_wr* bad = NULL;
  int answer;
  memset(&all, 0, sizeof(all));
  all.wr.wr_cqe = &request;
  all.wr.opcode = (enum ib_wr_opcode)(take() % 4 != 0 ? take() % 10 : take() % 40);
  all.wr.send_flags = take() & ~IB_SEND_INLINE;
  all.wr.num_sge = take() % 4;
  all.wr.sg_list = elements;
  all.wr.ex.invalidate_rkey = take32();
  fill_elements(elements, 3, qp->pd);
  if (qp->qp_type == IB_QPT_UD) {
    struct ah_slot* const ah = &w.ahs[slot()];
    struct qp_slot* const peer = &w.qps[slot()];
    all.ud.ah = ah->ah;
    all.ud.remote_qpn = peer->qp != NULL ? peer->qp->qp_num : take();
    all.ud.remote_qkey = take() % 2;
    all.ud.port_num = take() % 3;
  } else if (all.wr.opcode == IB_WR_REG_MR || all.wr.opcode == IB_WR_REG_MR_INTEGRITY) {
    struct mr_slot* const mr = &w.mrs[slot()];
    all.reg.mr = mr->mr;
    all.reg.key = mr->mr != NULL ? mr->mr->rkey : take32();
    all.reg.access = take();
  } else if (all.wr.opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
             all.wr.opcode == IB_WR_ATOMIC_FETCH_AND_ADD) {
    all.atomic.remote_addr = (uintptr_t)memory + (u64)take() * 8;
    all.atomic.rkey = take32();
  } else {
    struct mr_slot* const mr = &w.mrs[slot()];
    all.rdma.remote_addr = (uintptr_t)memory + (u64)take() * 200;
    all.rdma.rkey = mr->mr != NULL && take() % 4 != 0 ? mr->mr->rkey : take32();
  }
  answer = ib_post_send(qp, &all.wr, &bad);
  CHECK(is_answer(answer));
  CHECK((bad == &all.wr) == (answer != 0));
  posted += answer == 0;
  return 0;
}

static int post_receive(struct ib_qp* qp, struct ib_srq* srq) {
  struct ib_sge elements[3];
  struct ib_recv_wr wr = {0};
  const struct ib_recv_wr* bad = NULL;
  int answer;
  wr.wr_cqe = &request;
  wr.sg_list = elements;
  wr.num_sge = take() % 4;
  fill_elements(elements, 3, qp != NULL ? qp->pd : srq->pd);
  answer = qp != NULL ? ib_post_recv(qp, &wr, &bad) : ib_post_srq_recv(srq, &wr, &bad);
  CHECK(is_answer(answer));
  CHECK((bad == &wr) == (answer != 0));
  posted += answer == 0;
  return 0;
}

static int call_qp(void) {
  struct qp_slot* const qp = &w.qps[slot()];
  struct ib_qp_attr attr;
  struct ib_qp_init_attr init;
  union ib_gid gid;
  if (qp->qp == NULL) {
    return create_qp(qp);
  }
  switch (take() % 10) {
    case 0:
    case 1:
    case 2:
      return modify_qp(qp->qp);
    case 3:
    case 4:
      return post_send(qp->qp);
    case 5:
    case 6:
      return post_receive(qp->qp, NULL);
    case 7:
      CHECK(ib_query_qp(qp->qp, &attr, (int)take32(), &init) == 0);
      CHECK(attr.qp_state <= IB_QPS_ERR);
      return 0;
    case 8:
      memset(gid.raw, take() % 2 != 0 ? 0xFF : 0, sizeof(gid.raw));
      if (take() % 2 != 0) {
        CHECK(is_answer(ib_attach_mcast(qp->qp, &gid, (u16)(0xC000 + take()))));
      } else {
        CHECK(is_answer(ib_detach_mcast(qp->qp, &gid, (u16)(0xC000 + take()))));
      }
      return 0;
    default:
      return destroy_qp(qp);
  }
}

static int call_mr(void) {
  struct mr_slot* const mr = &w.mrs[slot()];
  struct scatterlist list[3];
  unsigned int offset = take() % 2 != 0 ? count() : 0;
  if (mr->mr == NULL) {
    struct ib_pd* const pd = any_pd(&mr->pd);
    if (pd == NULL) {
      return 0;
    }
    mr->mr = take() % 4 == 0 ? ib_alloc_mr_integrity(pd, count() % 600, count() % 600)
                             : ib_alloc_mr(pd, (enum ib_mr_type)(take() % 6), count());
    if (IS_ERR(mr->mr)) {
      CHECK(is_error(PTR_ERR(mr->mr)));
      mr->mr = NULL;
    } else {
      mr->pd->uses++;
    }
    return 0;
  }
  if (take() % 3 == 0) {
    const int gone = ib_dereg_mr(mr->mr);
    CHECK(gone == 0);
    mr->mr = NULL;
    mr->pd->uses--;
    return 0;
  }
  sg_init_table(list, 3);
  for (int i = 0; i < 3; i++) {
    sg_set_buf(&list[i], memory + (unsigned)take() * 128, (unsigned)take() * 64 + 1);
  }
  if (ib_dma_map_sg(mr->mr->device, list, 3, DMA_BIDIRECTIONAL) == 3) {
    const unsigned page = 1U << take() % 20;
    const int elements = take() % 4;
    const int mapped = ib_map_mr_sg(mr->mr, list, elements, &offset, page);
    CHECK(mapped <= elements && (mapped >= 0 || is_error(mapped)));
    CHECK(is_answer(ib_map_mr_sg_pi(mr->mr, list, elements, NULL, list, take() % 4, NULL, page)));
    ib_update_fast_reg_key(mr->mr, take());
    ib_dma_unmap_sg(mr->mr->device, list, 3, DMA_BIDIRECTIONAL);
  }
  return 0;
}

static int call_ah(void) {
  struct ah_slot* const ah = &w.ahs[slot()];
  struct rdma_ah_attr address;
  fill_address(&address);
  if (ah->ah == NULL) {
    struct ib_pd* const pd = any_pd(&ah->pd);
    if (pd == NULL) {
      return 0;
    }
    ah->ah = rdma_create_ah(pd, &address, take() % 2);
    if (IS_ERR(ah->ah)) {
      CHECK(is_error(PTR_ERR(ah->ah)));
      ah->ah = NULL;
    } else {
      ah->pd->uses++;
    }
    return 0;
  }
  switch (take() % 3) {
    case 0:
      CHECK(is_answer(rdma_modify_ah(ah->ah, &address)));
      break;
    case 1:
      CHECK(is_answer(rdma_query_ah(ah->ah, &address)));
      break;
    default:
      CHECK(rdma_destroy_ah(ah->ah, 0) == 0);
      ah->ah = NULL;
      ah->pd->uses--;
  }
  return 0;
}

static int call_wq(void) {
  struct wq_slot* const wq = &w.wqs[slot()];
  if (wq->wq == NULL) {
    struct ib_wq_init_attr init = {0};
    struct ib_pd* const pd = any_pd(&wq->pd);
    wq->cq = &w.cqs[slot()];
    if (pd == NULL) {
      return 0;
    }
    init.wq_type = (enum ib_wq_type)(take() % 8 == 0);
    init.max_wr = count();
    init.max_sge = count();
    init.cq = wq->cq->cq;
    wq->wq = ib_create_wq(pd, &init);
    if (IS_ERR(wq->wq)) {
      CHECK(is_error(PTR_ERR(wq->wq)));
      wq->wq = NULL;
    } else {
      wq->pd->uses++;
      wq->cq->uses++;
    }
    return 0;
  }
  if (take() % 2 == 0) {
    struct ib_wq_attr attr = {0};
    attr.wq_state = (enum ib_wq_state)(take() % 4);
    attr.curr_wq_state = (enum ib_wq_state)(take() % 4);
    CHECK(is_answer(ib_modify_wq(wq->wq, &attr, take() % 8)));
    return 0;
  }
  CHECK(ib_destroy_wq(wq->wq, NULL) == 0);
  wq->wq = NULL;
  wq->pd->uses--;
  wq->cq->uses--;
  return 0;
}

static int map_fmr(struct fmr_slot* fmr) {
  struct ib_pool_fmr** const mapped = &fmr->mapped[slot()];
  u64 pages[4];
  if (*mapped != NULL) {
    ib_fmr_pool_unmap(*mapped);
    *mapped = NULL;
    return 0;
  }
  for (unsigned i = 0; i < 4; i++) {
    pages[i] = (uintptr_t)memory + (u64)(take() % (MEMORY / PAGE)) * PAGE;
  }
  *mapped = ib_fmr_pool_map_phys(fmr->pool, pages, take() % 5, (u64)take32() * PAGE);
  if (IS_ERR(*mapped)) {
    CHECK(is_error(PTR_ERR(*mapped)));
    *mapped = NULL;
  }
  return 0;
}

static void destroy_fmrs(struct fmr_slot* fmr) {
  for (unsigned i = 0; i < SLOTS; i++) {
    if (fmr->mapped[i] != NULL) {
      ib_fmr_pool_unmap(fmr->mapped[i]);
      fmr->mapped[i] = NULL;
    }
  }
  ib_destroy_fmr_pool(fmr->pool);
  fmr->pool = NULL;
  fmr->pd->uses--;
}

static int call_fmr(void) {
  struct fmr_slot* const fmr = &w.fmrs[slot()];
  if (fmr->pool == NULL) {
    struct ib_fmr_pool_param param = {0};
    struct ib_pd* const pd = any_pd(&fmr->pd);
    if (pd == NULL) {
      return 0;
    }
    param.max_pages_per_fmr = take() % 6;
    param.page_shift = take() % 8 == 0 ? take() : 12;
    param.access = take() % 16;
    param.pool_size = take() % 6;
    param.dirty_watermark = take() % 6;
    param.cache = take() % 2;
    fmr->pool = ib_create_fmr_pool(pd, &param);
    if (IS_ERR(fmr->pool)) {
      CHECK(is_error(PTR_ERR(fmr->pool)));
      fmr->pool = NULL;
    } else {
      fmr->pd->uses++;
    }
    return 0;
  }
  switch (take() % 4) {
    case 0:
      CHECK(is_answer(ib_flush_fmr_pool(fmr->pool)));
      return 0;
    case 1:
      destroy_fmrs(fmr);
      return 0;
    default:
      return map_fmr(fmr);
  }
}

static int call_port(void) {
  struct ib_device* const device = devices[take() % 2];
  const u8 port = take() % 4 == 0 ? take() : 1;
  struct ib_port_attr attr;
  union ib_gid gid;
  u16 pkey;
  u16 index;
  u8 found;
  memset(&gid, take(), sizeof(gid));
  CHECK(is_answer(ib_query_port(device, port, &attr)));
  CHECK(is_answer(ib_query_pkey(device, port, take(), &pkey)));
  CHECK(is_answer(ib_find_pkey(device, port, (u16)take32(), &index)));
  CHECK(is_answer(ib_find_gid(device, &gid, &found, &index)));
  return 0;
}

static int make_call(void) {
  switch (take() % 12) {
    case 0:
      return call_pd();
    case 1:
      return call_cq();
    case 2:
      return call_srq();
    case 3:
    case 4:
    case 5:
      return call_qp();
    case 6:
      return call_mr();
    case 7:
      return call_ah();
    case 8:
      return call_wq();
    case 9:
      return call_fmr();
    case 10: {
      struct srq_slot* const srq = &w.srqs[slot()];
      return srq->srq != NULL ? post_receive(NULL, srq->srq) : call_port();
    }
    default:
      let_world_run();
      return 0;
  }
}

/* In the order that their uses ask for; each must be free of users then. */
static int free_all(void) {
  int failed = 0;
  for (unsigned i = 0; i < SLOTS && failed == 0; i++) {
    if (w.qps[i].qp != NULL) {
      union ib_gid gid;
      for (unsigned group = 0; group < 512; group++) { /* of what call_qp() may have joined */
        memset(gid.raw, group < 256 ? 0xFF : 0, sizeof(gid.raw));
        (void)ib_detach_mcast(w.qps[i].qp, &gid, (u16)(0xC000 + group % 256));
      }
      failed = destroy_qp(&w.qps[i]);
      CHECK(failed != 0 || w.qps[i].qp == NULL);
    }
  }
  for (unsigned i = 0; i < SLOTS && failed == 0; i++) {
    if (w.srqs[i].srq != NULL) {
      CHECK(ib_destroy_srq(w.srqs[i].srq) == 0);
      w.srqs[i].pd->uses--;
    }
    if (w.wqs[i].wq != NULL) {
      CHECK(ib_destroy_wq(w.wqs[i].wq, NULL) == 0);
      w.wqs[i].pd->uses--;
      w.wqs[i].cq->uses--;
    }
    if (w.ahs[i].ah != NULL) {
      CHECK(rdma_destroy_ah(w.ahs[i].ah, 0) == 0);
      w.ahs[i].pd->uses--;
    }
    if (w.mrs[i].mr != NULL) {
      CHECK(ib_dereg_mr(w.mrs[i].mr) == 0);
      w.mrs[i].pd->uses--;
    }
    if (w.fmrs[i].pool != NULL) {
      destroy_fmrs(&w.fmrs[i]);
    }
  }
  for (unsigned i = 0; i < SLOTS && failed == 0; i++) {
    CHECK(w.cqs[i].uses == 0);
    if (w.cqs[i].cq != NULL) {
      ib_free_cq(w.cqs[i].cq);
    }
    CHECK(w.pds[i].uses == 0);
    if (w.pds[i].pd != NULL) {
      ib_dealloc_pd(w.pds[i].pd);
    }
  }
  return failed;
}

int make_calls(const unsigned char* octets, unsigned long size) {
  int failed = 0;
  int freed;
  memset(&w, 0, sizeof(w));
  w.at = octets;
  w.end = octets + size;
  posted = 0;
  done_calls = 0;
  while (w.at < w.end && failed == 0) {
    failed = make_call();
  }
  if (failed == 0) {
    let_world_run();
  }
  freed = free_all();
  let_world_run();
  CHECK(done_calls <= posted); /* nothing is told twice */
  return failed != 0 ? failed : freed;
}
