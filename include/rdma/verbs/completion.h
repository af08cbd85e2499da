/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_COMPLETION_H
#define WEFT_RDMA_VERBS_COMPLETION_H

/* Completions and completion queues. */

#include <rdma/verbs/device.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum ib_wc_status WEFT_RDMA_ENUM {
	IB_WC_SUCCESS,
	IB_WC_LOC_LEN_ERR,
	IB_WC_LOC_QP_OP_ERR,
	IB_WC_LOC_EEC_OP_ERR,
	IB_WC_LOC_PROT_ERR,
	IB_WC_WR_FLUSH_ERR,
	IB_WC_MW_BIND_ERR,
	IB_WC_BAD_RESP_ERR,
	IB_WC_LOC_ACCESS_ERR,
	IB_WC_REM_INV_REQ_ERR,
	IB_WC_REM_ACCESS_ERR,
	IB_WC_REM_OP_ERR,
	IB_WC_RETRY_EXC_ERR,
	IB_WC_RNR_RETRY_EXC_ERR,
	IB_WC_LOC_RDD_VIOL_ERR,
	IB_WC_REM_INV_RD_REQ_ERR,
	IB_WC_REM_ABORT_ERR,
	IB_WC_INV_EECN_ERR,
	IB_WC_INV_EEC_STATE_ERR,
	IB_WC_FATAL_ERR,
	IB_WC_RESP_TIMEOUT_ERR,
	IB_WC_GENERAL_ERR
};

/** ib_wc_status_msg - A completion status in words */
const char *ib_wc_status_msg(enum ib_wc_status status);

enum ib_wc_opcode WEFT_RDMA_ENUM {
	IB_WC_SEND = 0,
	IB_WC_RDMA_WRITE = 1,
	IB_WC_RDMA_READ = 2,
	IB_WC_COMP_SWAP = 3,
	IB_WC_FETCH_ADD = 4,
	IB_WC_BIND_MW = 5,
	IB_WC_LOCAL_INV = 6,
	IB_WC_LSO = 7,
	IB_WC_REG_MR = 32,
	/* Of receives this bit is set. */
	IB_WC_RECV = 1 << 7,
	IB_WC_RECV_RDMA_WITH_IMM
};

enum ib_wc_flags WEFT_RDMA_ENUM {
	IB_WC_GRH = 1,
	IB_WC_WITH_IMM = 1 << 1,
	IB_WC_WITH_INVALIDATE = 1 << 2,
	IB_WC_IP_CSUM_OK = 1 << 3,
	IB_WC_WITH_SMAC = 1 << 4,
	IB_WC_WITH_VLAN = 1 << 5,
	IB_WC_WITH_NETWORK_HDR_TYPE = 1 << 6
};

/**
 * struct ib_cqe - What a work request for a CQ of ib_alloc_cq() names in place of a number
 * @done: called with the completion, which is valid during the call; may post, and free what this is part of
 */
struct ib_cqe {
	void (*done)(struct ib_cq *cq, struct ib_wc *wc);
};

/**
 * struct ib_wc - A completion
 * @wr_id: of the work request; @wr_cqe where the CQ is of ib_alloc_cq()
 * @status: with anything but IB_WC_SUCCESS only @wr_id, @vendor_err and @qp are valid
 */
struct ib_wc {
	union {
		__u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	enum ib_wc_status status;
	enum ib_wc_opcode opcode;
	__u32 vendor_err;
	__u32 byte_len;
	struct ib_qp *qp;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
	__u32 src_qp;
	__u32 slid;
	int wc_flags;
	__u16 pkey_index;
	__u8 sl;
	__u8 dlid_path_bits;
	__u8 port_num;
	__u8 smac[6];
	__u16 vlan_id;
	__u8 network_hdr_type;
};

/**
 * enum ib_poll_context - Who polls a CQ and calls the done of its completions
 * @IB_POLL_DIRECT: its user, by ib_process_cq_direct()
 * @IB_POLL_SOFTIRQ: bounded batches that never sleep
 * @IB_POLL_WORKQUEUE: a thread of the completion vector's processor
 * @IB_POLL_UNBOUND_WORKQUEUE: any thread
 */
enum ib_poll_context WEFT_RDMA_ENUM {
	IB_POLL_DIRECT,
	IB_POLL_SOFTIRQ,
	IB_POLL_WORKQUEUE,
	IB_POLL_UNBOUND_WORKQUEUE
};

typedef void (*ib_comp_handler)(struct ib_cq *cq, void *cq_context);

/**
 * struct ib_cq - Completion queue
 * @device: whose it is
 * @comp_handler: of ib_create_cq(): called when it was armed and a completion has come
 * @event_handler: of ib_create_cq(): its own errors
 * @cq_context: its user's pointer
 * @cqe: completions that it holds
 * @poll_ctx: of ib_alloc_cq()
 */
struct ib_cq {
	struct ib_device *device;
	ib_comp_handler comp_handler;
	void (*event_handler)(struct ib_event *event, void *cq_context);
	void *cq_context;
	int cqe;
	unsigned int comp_vector;
	enum ib_poll_context poll_ctx;
	void *weft;
};

struct ib_cq_init_attr {
	unsigned int cqe;
	__u32 comp_vector;
	__u32 flags;
};

enum ib_cq_notify_flags WEFT_RDMA_ENUM {
	IB_CQ_SOLICITED = 1 << 0,
	IB_CQ_NEXT_COMP = 1 << 1,
	IB_CQ_SOLICITED_MASK = IB_CQ_SOLICITED | IB_CQ_NEXT_COMP,
	IB_CQ_REPORT_MISSED_EVENTS = 1 << 2
};

/**
 * __ib_alloc_cq_user - Allocate a CQ that the core polls
 * @dev: device
 * @private_data: its cq_context
 * @nr_cqe: completions that it holds at least
 * @comp_vector: completion vector, below @dev's number of them
 * @poll_ctx: who polls; -EINVAL where there is no such context
 * @caller: who allocates it, for the account of objects
 * @udata: null, unless it is a program's
 *
 * The CQ, or ERR_PTR().
 */
struct ib_cq *__ib_alloc_cq_user(struct ib_device *dev, void *private_data, int nr_cqe,
				 int comp_vector, enum ib_poll_context poll_ctx,
				 const char *caller, struct ib_udata *udata);

/** __ib_alloc_cq_any - The same with a completion vector of the core's choice, which spreads CQs over them */
struct ib_cq *__ib_alloc_cq_any(struct ib_device *dev, void *private_data, int nr_cqe,
				enum ib_poll_context poll_ctx, const char *caller);

static inline struct ib_cq *ib_alloc_cq_user(struct ib_device *dev, void *private_data, int nr_cqe,
					     int comp_vector, enum ib_poll_context poll_ctx,
					     struct ib_udata *udata) {
	return __ib_alloc_cq_user(dev, private_data, nr_cqe, comp_vector, poll_ctx, KBUILD_MODNAME,
				  udata);
}

static inline struct ib_cq *ib_alloc_cq(struct ib_device *dev, void *private_data, int nr_cqe,
					int comp_vector, enum ib_poll_context poll_ctx) {
	return ib_alloc_cq_user(dev, private_data, nr_cqe, comp_vector, poll_ctx, NULL);
}

static inline struct ib_cq *ib_alloc_cq_any(struct ib_device *dev, void *private_data, int nr_cqe,
					    enum ib_poll_context poll_ctx) {
	return __ib_alloc_cq_any(dev, private_data, nr_cqe, poll_ctx, KBUILD_MODNAME);
}

/**
 * ib_free_cq_user - Free a CQ of ib_alloc_cq()
 * @cq: no queue completes in it any more; else it stays, and the log says so
 * @udata: null, unless it is a program's
 *
 * A fence: on return no done of its completions runs. Not from inside one.
 */
void ib_free_cq_user(struct ib_cq *cq, struct ib_udata *udata);

static inline void ib_free_cq(struct ib_cq *cq) {
	ib_free_cq_user(cq, NULL);
}

/**
 * ib_process_cq_direct - Poll a CQ in the caller's thread
 * @cq: of IB_POLL_DIRECT; another one may be polled beside its own context, in any order
 * @budget: completions at most; -1: all that are there
 *
 * How many there were.
 */
int ib_process_cq_direct(struct ib_cq *cq, int budget);

/**
 * __ib_create_cq - Create a CQ that its user polls
 * @device: device
 * @comp_handler: called after ib_req_notify_cq() when a completion comes; may be null
 * @event_handler: called for its own errors; may be null
 * @cq_context: for both
 * @cq_attr: completions that it holds at least, and the vector
 * @caller: who creates it
 */
struct ib_cq *__ib_create_cq(struct ib_device *device, ib_comp_handler comp_handler,
			     void (*event_handler)(struct ib_event *, void *), void *cq_context,
			     const struct ib_cq_init_attr *cq_attr, const char *caller);
#define ib_create_cq(device, cmp_hndlr, evt_hndlr, cq_ctxt, cq_attr) \
	__ib_create_cq((device), (cmp_hndlr), (evt_hndlr), (cq_ctxt), (cq_attr), KBUILD_MODNAME)

/** ib_destroy_cq_user - End a CQ of ib_create_cq(); -EBUSY while queues complete in it */
int ib_destroy_cq_user(struct ib_cq *cq, struct ib_udata *udata);

static inline int ib_destroy_cq(struct ib_cq *cq) {
	return ib_destroy_cq_user(cq, NULL);
}

/** ib_poll_cq - Take up to @num_entries completions; how many, or a negative errno */
int ib_poll_cq(struct ib_cq *cq, int num_entries, struct ib_wc *wc);

/**
 * ib_req_notify_cq - Ask for one event
 * @cq: of ib_create_cq()
 * @flags: IB_CQ_SOLICITED or IB_CQ_NEXT_COMP, and IB_CQ_REPORT_MISSED_EVENTS
 *
 * With the latter a positive number where completions are there already for which no event comes.
 */
int ib_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags);

/** ib_resize_cq - Make a CQ hold at least so many completions */
int ib_resize_cq(struct ib_cq *cq, int cqe);

/** rdma_set_cq_moderation - One event for so many completions, or after so many microseconds */
int rdma_set_cq_moderation(struct ib_cq *cq, __u16 cq_count, __u16 cq_period);

WEFT_RDMA_END

#endif
