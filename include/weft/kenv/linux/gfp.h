#pragma once

#include <linux/mm_types.h>
#include <linux/types.h>

#define GFP_KERNEL 0x1u
#define GFP_ATOMIC 0x2u
#define GFP_NOIO 0x4u
#define GFP_NOWAIT 0x8u
#define GFP_NOFS 0x10u
#define GFP_USER 0x20u
#define GFP_DMA 0x40u
#define __GFP_ZERO 0x100u
#define __GFP_NOWARN 0x200u
#define __GFP_NORETRY 0x400u
#define __GFP_HIGHMEM 0x800u
#define __GFP_COMP 0x1000u
#define __GFP_NOFAIL 0x2000u

WEFT_KENV_BEGIN
unsigned long __get_free_pages(gfp_t flags, unsigned int order);
void free_pages(unsigned long address, unsigned int order);
WEFT_KENV_END

#define __get_free_page(flags) __get_free_pages(flags, 0)
#define get_zeroed_page(flags) __get_free_pages((flags) | __GFP_ZERO, 0)
#define free_page(address) free_pages(address, 0)
#define alloc_pages(flags, order) ((struct page *)__get_free_pages(flags, order))
#define alloc_pages_node(node, flags, order) alloc_pages(flags, order)
#define alloc_page(flags) alloc_pages(flags, 0)
#define __free_pages(page, order) free_pages((unsigned long)(page), order)
#define __free_page(page) __free_pages(page, 0)
#define put_page(page) __free_pages(page, 0)
