/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_UMEM_ODP_H
#define WEFT_RDMA_IB_UMEM_ODP_H

/* Memory whose pages are mapped for a device when it needs them. */

#include <linux/mmu_notifier.h>
#include <rdma/ib_umem.h>

WEFT_RDMA_BEGIN

#define ODP_READ_ALLOWED_BIT (1 << 0ULL)
#define ODP_WRITE_ALLOWED_BIT (1 << 1ULL)
#define ODP_DMA_ADDR_MASK (~((__u64)ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT))

/**
 * struct ib_umem_odp - Memory that is paged on demand
 * @umem: its range as it was asked for; ib_umem_release() ends it
 * @notifier: what the operations of ib_umem_odp_get() are called with
 * @notifiers_seq: read before ib_umem_odp_map_dma_pages(); grows with each invalidation
 * @dma_list: of each page its address with ODP_ bits, or 0
 * @npages: pages that are mapped
 * @is_implicit_odp: a parent without pages
 */
struct ib_umem_odp {
	struct ib_umem umem;
	struct mmu_interval_notifier notifier;
	unsigned long notifiers_seq;
	dma_addr_t *dma_list;
	int npages;
	__u32 is_implicit_odp : 1;
};

/**
 * ib_umem_odp_get - A range of whole pages around these bytes
 * @device: device
 * @addr: first byte
 * @size: bytes
 * @access: &enum ib_access_flags, with IB_ACCESS_ON_DEMAND
 * @ops: told before the pages change; null: nobody is
 *
 * Return: the memory, of which nothing is mapped; -EINVAL: not on demand, none, or it reaches over the end
 */
struct ib_umem_odp *ib_umem_odp_get(struct ib_device *device, unsigned long addr, size_t size, int access,
				    const struct mmu_interval_notifier_ops *ops);

/**
 * ib_umem_odp_alloc_implicit - A parent for parts of all memory
 * @device: device
 * @access: &enum ib_access_flags
 */
struct ib_umem_odp *ib_umem_odp_alloc_implicit(struct ib_device *device, int access);

/**
 * ib_umem_odp_alloc_child - A part of all memory
 * @root: of ib_umem_odp_alloc_implicit()
 * @addr: first byte
 * @size: bytes
 * @ops: as of ib_umem_odp_get()
 *
 * Return: the part, as ib_umem_odp_get(); -EINVAL: also, another parent
 */
struct ib_umem_odp *ib_umem_odp_alloc_child(struct ib_umem_odp *root, unsigned long addr, size_t size,
					    const struct mmu_interval_notifier_ops *ops);

/**
 * ib_umem_odp_map_dma_pages - Makes pages present and maps them
 * @umem_odp: memory
 * @user_virt: first byte
 * @bcnt: bytes at least
 * @access_mask: ODP_ bits
 * @current_seq: its notifiers_seq from before
 *
 * Return: how many pages, fewer than asked for after an error midway; -EINVAL: no access; -EFAULT: outside, or a page that is not there;
 * -EAGAIN: invalidated since
 */
int ib_umem_odp_map_dma_pages(struct ib_umem_odp *umem_odp, __u64 user_virt, __u64 bcnt, __u64 access_mask, unsigned long current_seq);

/**
 * weft_mm_invalidate - The process is about to change its mappings
 * @start: of the first page that changes
 * @end: behind the last one
 *
 * Weft's own. On return no device uses what was mapped of the range. Needed where weft_mm_unheard() gives a reason, and for files and huge
 * pages; elsewhere changes are heard of when they have been made, and this call is for those that must not meet a transfer.
 */
void weft_mm_invalidate(unsigned long start, unsigned long end);

/**
 * weft_mm_unheard - Why the process's changes of its mappings are not heard of by themselves
 *
 * The operating system tells of munmap(), mremap(), madvise() and what is mapped over pages that are mapped for a device (userfaultfd), if
 * it lets this user, and unless WEFT_USERFAULTFD=0 is set. Where it tells of the faults of the program's own instructions alone, a system
 * call fails with EFAULT that is given a page which nobody has touched, of memory that is paged on demand.
 *
 * Return: the reason in words; NULL: they are heard of
 */
const char *weft_mm_unheard(void);

/**
 * weft_mm_settle - Waits until notifiers have been told of all changes whose calls have returned
 *
 * Not from within a notifier, nor with a lock that one takes.
 *
 * Return: 0; -ETIMEDOUT: a notifier has not returned for 10 seconds
 */
int weft_mm_settle(void);

WEFT_RDMA_END

#endif
