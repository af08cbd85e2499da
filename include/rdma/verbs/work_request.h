/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_WORK_REQUEST_H
#define WEFT_RDMA_VERBS_WORK_REQUEST_H

/* Work requests. */

#include <rdma/verbs/queue_pair.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

struct ib_sge {
	__u64 addr;
	__u32 length;
	__u32 lkey;
};

enum ib_wr_opcode WEFT_RDMA_ENUM {
	IB_WR_RDMA_WRITE = 0,
	IB_WR_RDMA_WRITE_WITH_IMM = 1,
	IB_WR_SEND = 2,
	IB_WR_SEND_WITH_IMM = 3,
	IB_WR_RDMA_READ = 4,
	IB_WR_ATOMIC_CMP_AND_SWP = 5,
	IB_WR_ATOMIC_FETCH_AND_ADD = 6,
	IB_WR_LOCAL_INV = 7,
	IB_WR_BIND_MW = 8,
	IB_WR_SEND_WITH_INV = 9,
	IB_WR_LSO = 10,
	IB_WR_RDMA_READ_WITH_INV = 11,
	IB_WR_MASKED_ATOMIC_CMP_AND_SWP = 12,
	IB_WR_MASKED_ATOMIC_FETCH_AND_ADD = 13,
	/* Of users in the kernel only. */
	IB_WR_REG_MR = 0x20,
	IB_WR_REG_MR_INTEGRITY
};

enum ib_send_flags WEFT_RDMA_ENUM {
	IB_SEND_FENCE = 1,
	IB_SEND_SIGNALED = 1 << 1,
	IB_SEND_SOLICITED = 1 << 2,
	IB_SEND_INLINE = 1 << 3,
	IB_SEND_IP_CSUM = 1 << 4
};

/**
 * struct ib_send_wr - A work request for a send queue
 * @next: the next of the chain
 * @wr_id: told with the completion; @wr_cqe where the CQ is of ib_alloc_cq()
 * @sg_list: local memory
 * @num_sge: elements of it
 * @opcode: what to do; RDMA, atomics, UD and registration have structures of their own, which begin with this one
 * @send_flags: &enum ib_send_flags
 * @ex: immediate data in network order, or a key to invalidate
 */
struct ib_send_wr {
	struct ib_send_wr *next;
	union {
		__u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	struct ib_sge *sg_list;
	int num_sge;
	enum ib_wr_opcode opcode;
	int send_flags;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
};

struct ib_rdma_wr {
	struct ib_send_wr wr;
	__u64 remote_addr;
	__u32 rkey;
};

static inline const struct ib_rdma_wr *rdma_wr(const struct ib_send_wr *wr) {
	return (const struct ib_rdma_wr *)(const void *)wr;
}

struct ib_atomic_wr {
	struct ib_send_wr wr;
	__u64 remote_addr;
	__u64 compare_add;
	__u64 swap;
	__u64 compare_add_mask;
	__u64 swap_mask;
	__u32 rkey;
};

static inline const struct ib_atomic_wr *atomic_wr(const struct ib_send_wr *wr) {
	return (const struct ib_atomic_wr *)(const void *)wr;
}

struct ib_ud_wr {
	struct ib_send_wr wr;
	struct ib_ah *ah;
	void *header;
	int hlen;
	int mss;
	__u32 remote_qpn;
	__u32 remote_qkey;
	__u16 pkey_index;
	__u8 port_num;
};

static inline const struct ib_ud_wr *ud_wr(const struct ib_send_wr *wr) {
	return (const struct ib_ud_wr *)(const void *)wr;
}

/**
 * struct ib_reg_wr - Registers what ib_map_mr_sg() mapped
 * @mr: region
 * @key: key from now on, whose upper 24 bits are the region's
 * @access: &enum ib_access_flags
 */
struct ib_reg_wr {
	struct ib_send_wr wr;
	struct ib_mr *mr;
	__u32 key;
	int access;
};

static inline const struct ib_reg_wr *reg_wr(const struct ib_send_wr *wr) {
	return (const struct ib_reg_wr *)(const void *)wr;
}

struct ib_recv_wr {
	struct ib_recv_wr *next;
	union {
		__u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	struct ib_sge *sg_list;
	int num_sge;
};

/**
 * ib_post_send - Post a chain to a send queue
 * @qp: queue pair
 * @send_wr: the first
 * @bad_send_wr: where the first that was refused goes; may be null
 *
 * All of it, or up to @bad_send_wr. The chain and its lists are read during the call only.
 */
int ib_post_send(struct ib_qp *qp, const struct ib_send_wr *send_wr,
		 const struct ib_send_wr **bad_send_wr);

/** ib_post_recv - The same for a receive queue */
int ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *recv_wr,
		 const struct ib_recv_wr **bad_recv_wr);

WEFT_RDMA_END

#endif
