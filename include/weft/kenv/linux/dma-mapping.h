#pragma once

/* A device's addresses are the process's own. */

#include <linux/dma-direction.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/scatterlist.h>
#include <linux/types.h>

struct device;

#define DMA_MAPPING_ERROR (~(dma_addr_t)0)

#define DEFINE_DMA_UNMAP_ADDR(name) dma_addr_t name
#define DEFINE_DMA_UNMAP_LEN(name) u32 name
#define dma_unmap_addr(object, name) ((object)->name)
#define dma_unmap_addr_set(object, name, value) ((object)->name = (value))
#define dma_unmap_len(object, name) ((object)->name)
#define dma_unmap_len_set(object, name, value) ((object)->name = (value))

static inline dma_addr_t dma_map_single(struct device *device, void *at, size_t size, enum dma_data_direction direction)
{
	(void)device, (void)size, (void)direction;
	return (dma_addr_t)(unsigned long)at;
}

static inline dma_addr_t dma_map_page(struct device *device, struct page *page, size_t offset, size_t size,
				      enum dma_data_direction direction)
{
	return dma_map_single(device, (char *)page_address(page) + offset, size, direction);
}

static inline int dma_map_sg(struct device *device, struct scatterlist *list, int count,
			     enum dma_data_direction direction)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(list, sg, count, i) {
		sg->dma_address = dma_map_single(device, sg_virt(sg), sg->length, direction);
		sg->dma_length = sg->length;
	}
	return count;
}

#define dma_map_single_attrs(device, at, size, direction, attributes) dma_map_single(device, at, size, direction)
#define dma_mapping_error(device, at) ((at) == DMA_MAPPING_ERROR ? -ENOMEM : 0)
#define dma_unmap_single(device, at, size, direction) ((void)(device), (void)(at))
#define dma_unmap_page(device, at, size, direction) ((void)(device), (void)(at))
#define dma_unmap_sg(device, list, count, direction) ((void)(device), (void)(list))
#define dma_sync_single_for_cpu(device, at, size, direction) smp_rmb()
#define dma_sync_single_for_device(device, at, size, direction) smp_wmb()
#define dma_set_max_seg_size(device, size) ((void)(device), 0)
#define dma_set_mask_and_coherent(device, mask) ((void)(device), 0)

WEFT_KENV_BEGIN
/* Zeroed, of whole pages; `*at` is the same address. */
void *dma_alloc_coherent(struct device *device, size_t size, dma_addr_t *at, gfp_t flags);
void dma_free_coherent(struct device *device, size_t size, void *piece, dma_addr_t at);
WEFT_KENV_END
