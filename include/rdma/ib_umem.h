/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEFT_RDMA_IB_UMEM_H
#define WEFT_RDMA_IB_UMEM_H

/* Memory of programs that is pinned for a device: here that of this process. */

#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

WEFT_RDMA_BEGIN

/**
 * struct ib_umem - A range of memory that a device may use
 * @ibdev: device
 * @length: bytes, as asked for
 * @address: of the first of them
 * @writable: the device may write
 * @is_odp: its pages are mapped when they are needed: it is the first member of a &struct ib_umem_odp
 * @sg_head: whole pages as the device reaches them, neighbours as one element
 * @nmap: elements of @sg_head
 */
struct ib_umem {
	struct ib_device *ibdev;
	size_t length;
	unsigned long address;
	__u32 writable : 1;
	__u32 is_odp : 1;
	struct scatterlist *sg_head;
	int nmap;
	void *weft;
};

/**
 * ib_umem_get - Pins memory and maps it for a device
 * @device: device
 * @addr: first byte
 * @size: bytes
 * @access: &enum ib_access_flags; without a right to write the memory is only read
 *
 * Return: the memory; -EINVAL: none, or it reaches over the end; -EPERM: the process may lock nothing; -ENOMEM: more than it may lock;
 * -EFAULT: a page is not there, or may not be written. Nothing is pinned on failure
 */
struct ib_umem *ib_umem_get(struct ib_device *device, unsigned long addr, size_t size, int access);

/**
 * ib_umem_release - Unpins memory, or forgets one that is paged on demand
 * @umem: memory; null: nothing
 */
void ib_umem_release(struct ib_umem *umem);

/**
 * ib_umem_find_best_pgsz - The largest page size by which a device can show all of a region
 * @umem: pinned memory
 * @pgsz_bitmap: page sizes, bit n for 2^n bytes
 * @virt: the address of its first byte for peers
 *
 * Return: bytes; 0: none fits
 */
unsigned long ib_umem_find_best_pgsz(struct ib_umem *umem, unsigned long pgsz_bitmap, unsigned long virt);

WEFT_RDMA_END

#endif
