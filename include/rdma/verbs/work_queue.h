/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_WORK_QUEUE_H
#define WEFT_RDMA_VERBS_WORK_QUEUE_H

/* Work queues: receive queues of no QP, and tables of them over which one spreads. */

#include <rdma/verbs/address.h>
#include <rdma/verbs/completion.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum ib_wq_type WEFT_RDMA_ENUM { IB_WQT_RQ };
enum ib_wq_state WEFT_RDMA_ENUM { IB_WQS_RESET, IB_WQS_RDY, IB_WQS_ERR };
enum ib_wq_attr_mask WEFT_RDMA_ENUM {
	IB_WQ_STATE = 1 << 0,
	IB_WQ_CUR_STATE = 1 << 1,
	IB_WQ_FLAGS = 1 << 2
};

struct ib_wq {
	struct ib_device *device;
	void *wq_context;
	void (*event_handler)(struct ib_event *event, void *wq_context);
	struct ib_pd *pd;
	struct ib_cq *cq;
	__u32 wq_num;
	enum ib_wq_state state;
	enum ib_wq_type wq_type;
	void *weft;
};

struct ib_wq_init_attr {
	void *wq_context;
	enum ib_wq_type wq_type;
	__u32 max_wr;
	__u32 max_sge;
	struct ib_cq *cq;
	void (*event_handler)(struct ib_event *event, void *wq_context);
	__u32 create_flags;
};

struct ib_wq_attr {
	enum ib_wq_state wq_state;
	enum ib_wq_state curr_wq_state;
	__u32 flags;
	__u32 flags_mask;
};

/**
 * ib_create_wq - Create a work queue
 * @pd: protection domain
 * @init_attr: what it is to be; afterwards max_wr and max_sge say the sizes, which are at least those
 */
struct ib_wq *ib_create_wq(struct ib_pd *pd, struct ib_wq_init_attr *init_attr);

/** ib_destroy_wq - End a work queue; -EBUSY while a table has it */
int ib_destroy_wq(struct ib_wq *wq, struct ib_udata *udata);

/**
 * ib_modify_wq - Change the state of a work queue
 * @wq: queue
 * @attr: the states
 * @attr_mask: &enum ib_wq_attr_mask
 *
 * Reset to ready to error, both back to reset; -EINVAL for other ways.
 */
int ib_modify_wq(struct ib_wq *wq, struct ib_wq_attr *attr, __u32 attr_mask);

WEFT_RDMA_END

#endif
