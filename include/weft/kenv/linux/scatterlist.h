#pragma once

/* Lists of pieces of memory, whose parts may be chained. */

#include <linux/gfp.h>
#include <linux/mm_types.h>
#include <linux/string.h>
#include <linux/types.h>

struct scatterlist {
	unsigned long page_link; /* a page, or the next part of the list with SG_CHAIN */
	unsigned int offset;
	unsigned int length;
	dma_addr_t dma_address;
	unsigned int dma_length;
};

struct sg_table {
	struct scatterlist *sgl;
	unsigned int nents;
	unsigned int orig_nents;
};

#define SG_CHAIN 0x01UL
#define SG_END 0x02UL

#define sg_dma_address(sg) ((sg)->dma_address)
#define sg_dma_len(sg) ((sg)->dma_length)
#define sg_is_chain(sg) (((sg)->page_link & SG_CHAIN) != 0)
#define sg_is_last(sg) (((sg)->page_link & SG_END) != 0)
#define sg_chain_ptr(sg) ((struct scatterlist *)((sg)->page_link & ~(SG_CHAIN | SG_END)))

static inline struct page *sg_page(const struct scatterlist *sg)
{
	return (struct page *)(sg->page_link & ~(SG_CHAIN | SG_END));
}

static inline void *sg_virt(const struct scatterlist *sg)
{
	return (char *)page_address(sg_page(sg)) + sg->offset;
}

#define sg_phys(sg) ((dma_addr_t)(unsigned long)sg_virt(sg))

static inline void sg_assign_page(struct scatterlist *sg, struct page *page)
{
	sg->page_link = (sg->page_link & (SG_CHAIN | SG_END)) | (unsigned long)page;
}

static inline void sg_set_page(struct scatterlist *sg, struct page *page, unsigned int length, unsigned int offset)
{
	sg_assign_page(sg, page);
	sg->offset = offset;
	sg->length = length;
}

static inline void sg_set_buf(struct scatterlist *sg, const void *buffer, unsigned int length)
{
	sg_set_page(sg, virt_to_page(buffer), length, (unsigned int)offset_in_page(buffer));
}

static inline void sg_mark_end(struct scatterlist *sg)
{
	sg->page_link = (sg->page_link | SG_END) & ~SG_CHAIN;
}

static inline void sg_unmark_end(struct scatterlist *sg)
{
	sg->page_link &= ~SG_END;
}

static inline void sg_init_marker(struct scatterlist *list, unsigned int count)
{
	sg_mark_end(&list[count - 1]);
}

static inline void sg_init_table(struct scatterlist *list, unsigned int count)
{
	memset(list, 0, sizeof(*list) * count);
	sg_init_marker(list, count);
}

static inline void sg_init_one(struct scatterlist *sg, const void *buffer, unsigned int length)
{
	sg_init_table(sg, 1);
	sg_set_buf(sg, buffer, length);
}

/* The last of `count` entries becomes the way to `next`. */
static inline void sg_chain(struct scatterlist *list, unsigned int count, struct scatterlist *next)
{
	list[count - 1].offset = 0;
	list[count - 1].length = 0;
	list[count - 1].page_link = (unsigned long)next | SG_CHAIN;
}

static inline struct scatterlist *sg_next(struct scatterlist *sg)
{
	if (sg_is_last(sg))
		return NULL;
	sg++;
	return sg_is_chain(sg) ? sg_chain_ptr(sg) : sg;
}

/* Looks at no entry beyond `count`, so that one on the stack needs no mark of its end. */
#define for_each_sg(list, sg, count, i) \
	for ((i) = 0, (sg) = (list); (i) < (count); (i)++, (sg) = (i) < (count) ? sg_next(sg) : NULL)
#define for_each_sgtable_sg(table, sg, i) for_each_sg((table)->sgl, sg, (table)->orig_nents, i)
#define for_each_sgtable_dma_sg(table, sg, i) for_each_sg((table)->sgl, sg, (table)->nents, i)

WEFT_KENV_BEGIN
int sg_nents(struct scatterlist *list);
struct scatterlist *sg_last(struct scatterlist *list, unsigned int count);
int sg_alloc_table(struct sg_table *table, unsigned int count, gfp_t flags);
void sg_free_table(struct sg_table *table);
/* Bytes that were copied. */
size_t sg_pcopy_from_buffer(struct scatterlist *list, unsigned int count, const void *from, size_t length, off_t skip);
size_t sg_pcopy_to_buffer(struct scatterlist *list, unsigned int count, void *to, size_t length, off_t skip);
WEFT_KENV_END

#define sg_copy_from_buffer(list, count, from, length) sg_pcopy_from_buffer(list, count, from, length, 0)
#define sg_copy_to_buffer(list, count, to, length) sg_pcopy_to_buffer(list, count, to, length, 0)
