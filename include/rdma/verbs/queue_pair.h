/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_QUEUE_PAIR_H
#define WEFT_RDMA_VERBS_QUEUE_PAIR_H

/* Queue pairs and shared receive queues. */

#include <rdma/verbs/address.h>
#include <rdma/verbs/completion.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum ib_qp_type WEFT_RDMA_ENUM {
	IB_QPT_SMI,
	IB_QPT_GSI,
	IB_QPT_RC = 2,
	IB_QPT_UC = 3,
	IB_QPT_UD = 4,
	IB_QPT_RAW_IPV6,
	IB_QPT_RAW_ETHERTYPE,
	IB_QPT_RAW_PACKET = 8,
	IB_QPT_XRC_INI = 9,
	IB_QPT_XRC_TGT = 10
};

enum ib_sig_type WEFT_RDMA_ENUM { IB_SIGNAL_ALL_WR, IB_SIGNAL_REQ_WR };

enum ib_qp_create_flags WEFT_RDMA_ENUM {
	IB_QP_CREATE_NETDEV_USE = 1 << 1,
	IB_QP_CREATE_INTEGRITY_EN = 1 << 2,
	IB_QP_CREATE_SOURCE_QPN = 1 << 10
};

/**
 * struct ib_qp_cap - Sizes of a QP
 * @max_rdma_ctxs: RDMA contexts (rdma/rw.h) that it is to have room for
 */
struct ib_qp_cap {
	__u32 max_send_wr;
	__u32 max_recv_wr;
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 max_inline_data;
	__u32 max_rdma_ctxs;
};

struct ib_qp_init_attr {
	void (*event_handler)(struct ib_event *event, void *qp_context);
	void *qp_context;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	struct ib_srq *srq;
	struct ib_xrcd *xrcd;
	struct ib_qp_cap cap;
	enum ib_sig_type sq_sig_type;
	enum ib_qp_type qp_type;
	__u32 create_flags;
	__u8 port_num;
	struct ib_rwq_ind_table *rwq_ind_tbl;
	__u32 source_qpn;
};

/**
 * struct ib_qp - Queue pair
 * @qp_num: number that peers use
 */
struct ib_qp {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	struct ib_srq *srq;
	struct ib_xrcd *xrcd;
	struct ib_rwq_ind_table *rwq_ind_tbl;
	void (*event_handler)(struct ib_event *event, void *qp_context);
	void *qp_context;
	__u32 qp_num;
	__u32 max_write_sge;
	__u32 max_read_sge;
	enum ib_qp_type qp_type;
	bool integrity_en;
	__u8 port;
	void *weft;
	struct rdma_cm_id *weft_id;
};

enum ib_qp_attr_mask WEFT_RDMA_ENUM {
	IB_QP_STATE = 1,
	IB_QP_CUR_STATE = 1 << 1,
	IB_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	IB_QP_ACCESS_FLAGS = 1 << 3,
	IB_QP_PKEY_INDEX = 1 << 4,
	IB_QP_PORT = 1 << 5,
	IB_QP_QKEY = 1 << 6,
	IB_QP_AV = 1 << 7,
	IB_QP_PATH_MTU = 1 << 8,
	IB_QP_TIMEOUT = 1 << 9,
	IB_QP_RETRY_CNT = 1 << 10,
	IB_QP_RNR_RETRY = 1 << 11,
	IB_QP_RQ_PSN = 1 << 12,
	IB_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IB_QP_ALT_PATH = 1 << 14,
	IB_QP_MIN_RNR_TIMER = 1 << 15,
	IB_QP_SQ_PSN = 1 << 16,
	IB_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IB_QP_PATH_MIG_STATE = 1 << 18,
	IB_QP_CAP = 1 << 19,
	IB_QP_DEST_QPN = 1 << 20,
	IB_QP_RATE_LIMIT = 1 << 25
};

enum ib_qp_state WEFT_RDMA_ENUM {
	IB_QPS_RESET,
	IB_QPS_INIT,
	IB_QPS_RTR,
	IB_QPS_RTS,
	IB_QPS_SQD,
	IB_QPS_SQE,
	IB_QPS_ERR
};

enum ib_mig_state WEFT_RDMA_ENUM { IB_MIG_MIGRATED, IB_MIG_REARM, IB_MIG_ARMED };

struct ib_qp_attr {
	enum ib_qp_state qp_state;
	enum ib_qp_state cur_qp_state;
	enum ib_mtu path_mtu;
	enum ib_mig_state path_mig_state;
	__u32 qkey;
	__u32 rq_psn;
	__u32 sq_psn;
	__u32 dest_qp_num;
	int qp_access_flags;
	struct ib_qp_cap cap;
	struct rdma_ah_attr ah_attr;
	struct rdma_ah_attr alt_ah_attr;
	__u16 pkey_index;
	__u16 alt_pkey_index;
	__u8 en_sqd_async_notify;
	__u8 sq_draining;
	__u8 max_rd_atomic;
	__u8 max_dest_rd_atomic;
	__u8 min_rnr_timer;
	__u8 port_num;
	__u8 timeout;
	__u8 retry_cnt;
	__u8 rnr_retry;
	__u8 alt_port_num;
	__u8 alt_timeout;
	__u32 rate_limit;
};

/**
 * ib_create_qp - Create a queue pair
 * @pd: protection domain; unused for XRC targets, which have none
 * @qp_init_attr: what it is to be; afterwards its cap says the sizes, which are at least those
 *
 * The QP, or ERR_PTR(): -EINVAL for attributes that do not go together or are beyond the device.
 */
struct ib_qp *ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *qp_init_attr);

/** ib_create_qp_user - The same for a program */
struct ib_qp *ib_create_qp_user(struct ib_pd *pd, struct ib_qp_init_attr *qp_init_attr,
				struct ib_udata *udata);

/**
 * ib_modify_qp_with_udata - Change a QP's attributes and its state
 * @ib_qp: queue pair
 * @attr: the new values
 * @attr_mask: &enum ib_qp_attr_mask; which of them count
 * @udata: null, unless it is a program's
 *
 * -EINVAL, and nothing has changed, where the transition needs others or allows not so many.
 */
int ib_modify_qp_with_udata(struct ib_qp *ib_qp, struct ib_qp_attr *attr, int attr_mask,
			    struct ib_udata *udata);

/** ib_modify_qp - The same for the kernel's own users */
int ib_modify_qp(struct ib_qp *qp, struct ib_qp_attr *qp_attr, int qp_attr_mask);

/** ib_query_qp - What modify set, and how the QP was made */
int ib_query_qp(struct ib_qp *qp, struct ib_qp_attr *qp_attr, int qp_attr_mask,
		struct ib_qp_init_attr *qp_init_attr);

/** ib_destroy_qp_user - End a QP; -EBUSY while it is in multicast groups */
int ib_destroy_qp_user(struct ib_qp *qp, struct ib_udata *udata);

static inline int ib_destroy_qp(struct ib_qp *qp) {
	return ib_destroy_qp_user(qp, NULL);
}

int ib_attach_mcast(struct ib_qp *qp, union ib_gid *gid, __u16 lid);
int ib_detach_mcast(struct ib_qp *qp, union ib_gid *gid, __u16 lid);

/**
 * ib_drain_sq - Wait until every completion of the send queue has been consumed
 * @qp: with a send CQ of ib_alloc_cq(); room for one more request in queue and CQ; nobody posts meanwhile
 *
 * The QP is in IB_QPS_ERR afterwards. What goes wrong is in the log.
 */
void ib_drain_sq(struct ib_qp *qp);
/** ib_drain_rq - The same of the receive queue, which is no SRQ */
void ib_drain_rq(struct ib_qp *qp);
/** ib_drain_qp - Both; with an SRQ the send queue alone */
void ib_drain_qp(struct ib_qp *qp);

enum ib_srq_type WEFT_RDMA_ENUM { IB_SRQT_BASIC, IB_SRQT_XRC, IB_SRQT_TM };
enum ib_srq_attr_mask WEFT_RDMA_ENUM { IB_SRQ_MAX_WR = 1 << 0, IB_SRQ_LIMIT = 1 << 1 };

struct ib_srq_attr {
	__u32 max_wr;
	__u32 max_sge;
	__u32 srq_limit;
};

struct ib_srq_init_attr {
	void (*event_handler)(struct ib_event *event, void *srq_context);
	void *srq_context;
	struct ib_srq_attr attr;
	enum ib_srq_type srq_type;
	struct {
		struct ib_cq *cq;
		struct {
			struct ib_xrcd *xrcd;
		} xrc;
	} ext;
};

struct ib_srq {
	struct ib_device *device;
	struct ib_pd *pd;
	void (*event_handler)(struct ib_event *event, void *srq_context);
	void *srq_context;
	enum ib_srq_type srq_type;
	void *weft;
};

struct ib_srq *ib_create_srq(struct ib_pd *pd, struct ib_srq_init_attr *srq_init_attr);
int ib_modify_srq(struct ib_srq *srq, struct ib_srq_attr *srq_attr,
		  enum ib_srq_attr_mask srq_attr_mask);
int ib_query_srq(struct ib_srq *srq, struct ib_srq_attr *srq_attr);
int ib_destroy_srq_user(struct ib_srq *srq, struct ib_udata *udata);

static inline int ib_destroy_srq(struct ib_srq *srq) {
	return ib_destroy_srq_user(srq, NULL);
}

/** ib_post_srq_recv - Post a chain of receives; up to @bad_recv_wr, the first that was refused */
int ib_post_srq_recv(struct ib_srq *srq, const struct ib_recv_wr *recv_wr,
		     const struct ib_recv_wr **bad_recv_wr);

WEFT_RDMA_END

#endif
