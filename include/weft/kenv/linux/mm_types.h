#pragma once

/* A page is known by its address: a `struct page *` points to its first byte. */

#include <linux/types.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PAGE_ALIGN(n) (((n) + PAGE_SIZE - 1) & PAGE_MASK)
#define PAGE_ALIGNED(n) (((unsigned long)(n) & ~PAGE_MASK) == 0)
#define offset_in_page(p) ((unsigned long)(p) & ~PAGE_MASK)

struct page;

static inline struct page *virt_to_page(const void *address)
{
	return (struct page *)((unsigned long)address & PAGE_MASK);
}

static inline void *page_address(const struct page *page)
{
	return (void *)page;
}

#define page_to_virt(page) page_address(page)
#define vmalloc_to_page(address) virt_to_page(address)
#define is_vmalloc_addr(address) ((void)(address), false)
#define kmap(page) page_address(page)
#define kunmap(page) ((void)(page))
#define kmap_atomic(page) page_address(page)
#define kunmap_atomic(address) ((void)(address))
#define kmap_local_page(page) page_address(page)
#define kunmap_local(address) ((void)(address))
#define page_to_phys(page) ((phys_addr_t)(unsigned long)(page))
#define virt_to_phys(address) ((phys_addr_t)(unsigned long)(address))
#define phys_to_virt(at) ((void *)(unsigned long)(at))
#define page_to_pfn(page) ((unsigned long)(page) >> PAGE_SHIFT)
#define pfn_to_page(pfn) ((struct page *)((pfn) << PAGE_SHIFT))
#define get_order(size) ((size) <= PAGE_SIZE ? 0 : 64 - __builtin_clzl(((size) - 1) >> PAGE_SHIFT))
