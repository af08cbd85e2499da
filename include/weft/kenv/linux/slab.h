#pragma once

/* Memory. Of sizes that are powers of two, pieces begin at multiples of their size, up to a page. */

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/types.h>

#define ZERO_SIZE_PTR ((void *)16)
#define SLAB_HWCACHE_ALIGN 0x2000U
#define SLAB_PANIC 0x40000U
#define SLAB_RECLAIM_ACCOUNT 0x20000U
#define ARCH_KMALLOC_MINALIGN 16

struct kmem_cache;

WEFT_KENV_BEGIN
void *kmalloc(size_t size, gfp_t flags) __attribute__((__malloc__));
/* NULL as well where count times size is no number. */
void *kmalloc_array(size_t count, size_t size, gfp_t flags);
void *krealloc(const void *old, size_t size, gfp_t flags);
void kfree(const void *piece);
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align, unsigned int flags,
				     void (*constructor)(void *));
/* Says what was left, as a kernel does. */
void kmem_cache_destroy(struct kmem_cache *cache);
void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t flags);
void kmem_cache_free(struct kmem_cache *cache, void *object);
WEFT_KENV_END

#define kzalloc(size, flags) kmalloc(size, (flags) | __GFP_ZERO)
#define kcalloc(count, size, flags) kmalloc_array(count, size, (flags) | __GFP_ZERO)
#define kmalloc_node(size, flags, node) kmalloc(size, flags)
#define kzalloc_node(size, flags, node) kzalloc(size, flags)
#define kcalloc_node(count, size, flags, node) kcalloc(count, size, flags)
#define kvmalloc(size, flags) kmalloc(size, flags)
#define kvzalloc(size, flags) kzalloc(size, flags)
#define kvcalloc(count, size, flags) kcalloc(count, size, flags)
#define kvmalloc_array(count, size, flags) kmalloc_array(count, size, flags)
#define kvfree(piece) kfree(piece)
#define kfree_sensitive(piece) kfree(piece)
#define kmem_cache_zalloc(cache, flags) kmem_cache_alloc(cache, (flags) | __GFP_ZERO)
#define KMEM_CACHE(type, flags) kmem_cache_create(#type, sizeof(struct type), __alignof__(struct type), flags, NULL)
