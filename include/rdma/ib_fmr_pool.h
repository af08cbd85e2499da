/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_FMR_POOL_H
#define WEFT_RDMA_IB_FMR_POOL_H

/* Pools of fast memory regions, which are mapped by a call and unmapped many at a time. */

#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

struct ib_fmr_pool;

/**
 * struct ib_fmr - A fast memory region
 * @lkey: key for local access, with the last map
 * @rkey: key for peers, with the last map
 */
struct ib_fmr {
	struct ib_device *device;
	struct ib_pd *pd;
	__u32 lkey;
	__u32 rkey;
};

/**
 * struct ib_fmr_pool_param - How a pool is to be
 * @max_pages_per_fmr: pages that a region shows at most
 * @page_shift: a page has 2^page_shift bytes
 * @access: &enum ib_access_flags
 * @pool_size: regions
 * @dirty_watermark: so many that wait to be unmapped start the flusher
 * @flush_function: called after each batch that was unmapped; may be null
 * @flush_arg: for @flush_function
 * @cache: the same list at the same address is the same region again
 */
struct ib_fmr_pool_param {
	int max_pages_per_fmr;
	int page_shift;
	int access;
	int pool_size;
	int dirty_watermark;
	void (*flush_function)(struct ib_fmr_pool *pool, void *arg);
	void *flush_arg;
	unsigned int cache : 1;
};

/**
 * struct ib_pool_fmr - A region of a pool while it is mapped
 */
struct ib_pool_fmr {
	struct ib_fmr *fmr;
	struct ib_fmr_pool *pool;
	void *weft;
	struct ib_fmr weft_fmr;
};

/** ib_create_fmr_pool - Make a pool and all of its regions; ERR_PTR(): -ENOSYS where the device has none */
struct ib_fmr_pool *ib_create_fmr_pool(struct ib_pd *pd, struct ib_fmr_pool_param *params);

/** ib_destroy_fmr_pool - Free everything; regions that are still mapped are named in the log */
void ib_destroy_fmr_pool(struct ib_fmr_pool *pool);

/** ib_flush_fmr_pool - On return no peer reaches a region that was given back before */
int ib_flush_fmr_pool(struct ib_fmr_pool *pool);

/**
 * ib_fmr_pool_map_phys - Map a region
 * @pool_handle: pool
 * @page_list: addresses of the pages
 * @list_len: how many
 * @io_virtual_address: of the first byte, for peers
 *
 * The region, or ERR_PTR(): -EINVAL for none or too many pages, -EAGAIN where none is free.
 */
struct ib_pool_fmr *ib_fmr_pool_map_phys(struct ib_fmr_pool *pool_handle, __u64 *page_list,
					 int list_len, __u64 io_virtual_address);

/** ib_fmr_pool_unmap - Give a region back; peers may reach it until it is mapped anew or flushed */
void ib_fmr_pool_unmap(struct ib_pool_fmr *fmr);

WEFT_RDMA_END

#endif
