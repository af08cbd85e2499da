/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_RW_H
#define WEFT_RDMA_RW_H

/* One logical RDMA READ or WRITE of a scatter list, done in the way that suits the device. */

#include <linux/dma-direction.h>
#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

/**
 * struct rdma_rw_ctx - State of one transfer
 * @nr_ops: entries of the send queue that it takes
 *
 * For one transfer at a time: init, post, its completion, destroy. Calls of one are its user's to serialise.
 */
struct rdma_rw_ctx {
	__u32 nr_ops;
	void *weft;
};

/**
 * rdma_rw_ctx_init - Prepare a transfer
 * @ctx: to be filled
 * @qp: queue pair, made with max_rdma_ctxs
 * @port_num: its port
 * @sg: local memory, which is mapped for DMA here
 * @sg_cnt: elements of @sg
 * @sg_offset: bytes of @sg that are left out
 * @remote_addr: of the first byte that is moved, under @rkey
 * @rkey: the peer's key
 * @dir: DMA_TO_DEVICE: RDMA WRITE; DMA_FROM_DEVICE: RDMA READ
 *
 * Entries of the send queue that it takes, or a negative errno, and nothing is kept then.
 */
int rdma_rw_ctx_init(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num,
		     struct scatterlist *sg, __u32 sg_cnt, __u32 sg_offset, __u64 remote_addr,
		     __u32 rkey, enum dma_data_direction dir);

/** rdma_rw_ctx_signature_init - The same with protection information @prot_sg, as @sig_attrs say */
int rdma_rw_ctx_signature_init(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num,
			       struct scatterlist *sg, __u32 sg_cnt, struct scatterlist *prot_sg,
			       __u32 prot_sg_cnt, struct ib_sig_attrs *sig_attrs, __u64 remote_addr,
			       __u32 rkey, enum dma_data_direction dir);

/**
 * rdma_rw_ctx_wrs - The chain of work requests of a transfer
 * @ctx: prepared
 * @qp: its queue pair
 * @port_num: its port
 * @cqe: called when it is done, where there is no @chain_wr
 * @chain_wr: what follows it; may be null
 *
 * The first, for ib_post_send().
 */
struct ib_send_wr *rdma_rw_ctx_wrs(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num,
				   struct ib_cqe *cqe, struct ib_send_wr *chain_wr);

/** rdma_rw_ctx_post - The same, and posts it; 0 or a negative errno, after which @ctx is to be destroyed */
int rdma_rw_ctx_post(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num, struct ib_cqe *cqe,
		     struct ib_send_wr *chain_wr);

/** rdma_rw_ctx_destroy - After completion: give memory and regions back */
void rdma_rw_ctx_destroy(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num,
			 struct scatterlist *sg, __u32 sg_cnt, enum dma_data_direction dir);

/** rdma_rw_ctx_destroy_signature - The same of a transfer with protection information */
void rdma_rw_ctx_destroy_signature(struct rdma_rw_ctx *ctx, struct ib_qp *qp, __u8 port_num,
				   struct scatterlist *sg, __u32 sg_cnt,
				   struct scatterlist *prot_sg, __u32 prot_sg_cnt,
				   enum dma_data_direction dir);

/**
 * rdma_rw_mr_factor - Regions that a transfer of so many pages takes
 * @device: device
 * @port_num: its port
 * @maxpages: pages of the largest transfer
 *
 * By which a user multiplies its max_rdma_ctxs where the device needs regions.
 */
unsigned int rdma_rw_mr_factor(struct ib_device *device, __u8 port_num, unsigned int maxpages);

WEFT_RDMA_END

#endif
