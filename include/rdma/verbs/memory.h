/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_VERBS_MEMORY_H
#define WEFT_RDMA_VERBS_MEMORY_H

/* Memory regions, and the mapping of memory for devices, which reach what the process reaches: a DMA address is the address. */

#include <linux/dma-direction.h>
#include <rdma/signature.h>
#include <rdma/verbs/address.h>
#include <rdma/verbs/types.h>

WEFT_RDMA_BEGIN

enum ib_access_flags WEFT_RDMA_ENUM {
	IB_ACCESS_LOCAL_WRITE = 1 << 0,
	IB_ACCESS_REMOTE_WRITE = 1 << 1,
	IB_ACCESS_REMOTE_READ = 1 << 2,
	IB_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IB_ACCESS_MW_BIND = 1 << 4,
	IB_ZERO_BASED = 1 << 5,
	IB_ACCESS_ON_DEMAND = 1 << 6,
	IB_ACCESS_HUGETLB = 1 << 7,
	IB_ACCESS_RELAXED_ORDERING = 1 << 20
};

/**
 * enum ib_mr_type - Kinds of memory region
 * @IB_MR_TYPE_MEM_REG: a list of pages, registered by a work request
 * @IB_MR_TYPE_SG_GAPS: the same of any list of elements
 * @IB_MR_TYPE_DM: device memory
 * @IB_MR_TYPE_USER: a program's range
 * @IB_MR_TYPE_DMA: all memory
 * @IB_MR_TYPE_INTEGRITY: a list of data and one of protection information
 */
enum ib_mr_type WEFT_RDMA_ENUM {
	IB_MR_TYPE_MEM_REG,
	IB_MR_TYPE_SG_GAPS,
	IB_MR_TYPE_DM,
	IB_MR_TYPE_USER,
	IB_MR_TYPE_DMA,
	IB_MR_TYPE_INTEGRITY
};

/**
 * struct ib_mr - Memory region
 * @lkey: key for local access
 * @rkey: key for peers
 * @iova: address of its first byte, for peers
 * @length: bytes
 * @page_size: bytes
 * @need_inval: for its user: registered and not yet invalidated
 * @sig_attrs: of IB_MR_TYPE_INTEGRITY: set by its user before it is mapped
 */
struct ib_mr {
	struct ib_device *device;
	struct ib_pd *pd;
	__u32 lkey;
	__u32 rkey;
	__u64 iova;
	__u64 length;
	unsigned int page_size;
	enum ib_mr_type type;
	bool need_inval;
	struct ib_sig_attrs *sig_attrs;
	void *weft;
};

/**
 * ib_alloc_mr_user - Allocate a region for registration by work requests
 * @pd: protection domain
 * @mr_type: IB_MR_TYPE_MEM_REG or IB_MR_TYPE_SG_GAPS
 * @max_num_sg: entries of the lists that it is to show
 * @udata: null, unless it is a program's
 *
 * The region, or ERR_PTR(): -EOPNOTSUPP where the device has none.
 */
struct ib_mr *ib_alloc_mr_user(struct ib_pd *pd, enum ib_mr_type mr_type, __u32 max_num_sg,
			       struct ib_udata *udata);

static inline struct ib_mr *ib_alloc_mr(struct ib_pd *pd, enum ib_mr_type mr_type,
					__u32 max_num_sg) {
	return ib_alloc_mr_user(pd, mr_type, max_num_sg, NULL);
}

/**
 * ib_alloc_mr_integrity - Allocate a region of data with protection information
 * @pd: protection domain
 * @max_num_data_sg: elements of data
 * @max_num_meta_sg: elements of protection information
 */
struct ib_mr *ib_alloc_mr_integrity(struct ib_pd *pd, __u32 max_num_data_sg, __u32 max_num_meta_sg);

/** ib_dereg_mr_user - End a region; -EBUSY while windows are bound to it */
int ib_dereg_mr_user(struct ib_mr *mr, struct ib_udata *udata);

static inline int ib_dereg_mr(struct ib_mr *mr) {
	return ib_dereg_mr_user(mr, NULL);
}

/**
 * ib_map_mr_sg - Map the longest prefix of a list that a region can show
 * @mr: region
 * @sg: list, mapped for DMA
 * @sg_nents: elements of it
 * @sg_offset: byte of the first element to begin at; may be null
 * @page_size: bytes
 *
 * How many elements, or a negative errno. Only the first may begin within a page and only the last end within one.
 */
int ib_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int sg_nents, unsigned int *sg_offset,
		 unsigned int page_size);

/** ib_map_mr_sg_pi - The same of an integrity region's two lists, each whole or not at all; 0 or a negative errno */
int ib_map_mr_sg_pi(struct ib_mr *mr, struct scatterlist *data_sg, int data_sg_nents,
		    unsigned int *data_sg_offset, struct scatterlist *meta_sg, int meta_sg_nents,
		    unsigned int *meta_sg_offset, unsigned int page_size);

/**
 * ib_sg_to_pages - For drivers: the pages of a list
 * @mr: region, whose page_size counts, and whose iova and length are set
 * @sgl: list, mapped for DMA
 * @sg_nents: elements of it
 * @sg_offset_p: byte of the first element to begin at, and how far the last one was taken; may be null
 * @set_page: called with each page's address; anything but 0 ends the list there
 *
 * How many elements were taken, or a negative errno.
 */
int ib_sg_to_pages(struct ib_mr *mr, struct scatterlist *sgl, int sg_nents,
		   unsigned int *sg_offset_p, int (*set_page)(struct ib_mr *, __u64));

/** ib_check_mr_status - What the checks of an integrity region found */
int ib_check_mr_status(struct ib_mr *mr, __u32 check_mask, struct ib_mr_status *mr_status);

/** ib_update_fast_reg_key - Give both keys this low byte, which is the user's own */
static inline void ib_update_fast_reg_key(struct ib_mr *mr, __u8 newkey) {
	mr->lkey = (mr->lkey & 0xffffff00) | newkey;
	mr->rkey = (mr->rkey & 0xffffff00) | newkey;
}

/** ib_inc_rkey - The key with the next low byte */
static inline __u32 ib_inc_rkey(__u32 rkey) {
	return (rkey & 0xffffff00) | ((rkey + 1) & 0x000000ff);
}

#ifndef __cplusplus
static inline u64 ib_dma_map_single(struct ib_device *dev, void *cpu_addr, size_t size,
				    enum dma_data_direction direction) {
	(void)dev;
	(void)size;
	(void)direction;
	return (u64)(uintptr_t)cpu_addr;
}
static inline void ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
				       enum dma_data_direction direction) {
	(void)dev;
	(void)addr;
	(void)size;
	(void)direction;
}
static inline int ib_dma_mapping_error(struct ib_device *dev, u64 dma_addr) {
	(void)dev;
	return dma_addr == 0;
}
static inline void ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t size,
					      enum dma_data_direction dir) {
	(void)dev;
	(void)addr;
	(void)size;
	(void)dir;
}
static inline void ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t size,
						 enum dma_data_direction dir) {
	(void)dev;
	(void)addr;
	(void)size;
	(void)dir;
}
#endif

/** ib_dma_map_sg - Set the DMA addresses of a list; how many elements it has then, 0 on failure */
int ib_dma_map_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
		  enum dma_data_direction direction);
void ib_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
		     enum dma_data_direction direction);

WEFT_RDMA_END

#endif
