// Memory, pages and scatter lists.

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <linux/dma-mapping.h>
#include <linux/kernel.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

struct kmem_cache {
  std::string name;
  std::size_t size{};
  std::size_t align{};
  void (*constructor)(void*){};
  std::atomic<long> objects{};
};

namespace {

[[nodiscard]] void* allocate(std::size_t size, std::size_t align, gfp_t flags) {
  void* piece = nullptr;
  if (posix_memalign(&piece, std::max(align, sizeof(void*)), size) != 0) {
    return nullptr;
  }
  if ((flags & __GFP_ZERO) != 0) {
    std::memset(piece, 0, size);
  }
  return piece;
}

/// Calls `move(address, offset in the buffer, bytes)` for each piece from byte `skip` on.
std::size_t for_pieces(scatterlist* list, unsigned count, std::size_t length, std::size_t skip,
                       const std::function<void(void*, std::size_t, std::size_t)>& move) {
  std::size_t done = 0;
  scatterlist* sg = nullptr;
  unsigned i = 0;
  for_each_sg(list, sg, count, i) {
    if (sg == nullptr || done == length) {
      break;
    }
    if (skip >= sg->length) {
      skip -= sg->length;
      continue;
    }
    const std::size_t bytes = std::min<std::size_t>(sg->length - skip, length - done);
    move(static_cast<char*>(sg_virt(sg)) + skip, done, bytes);
    done += bytes;
    skip = 0;
  }
  return done;
}

}  // namespace

void* kmalloc(size_t size, gfp_t flags) {
  if (size == 0) {
    return ZERO_SIZE_PTR;
  }
  const std::size_t align = std::has_single_bit(size)
                                ? std::clamp<std::size_t>(size, ARCH_KMALLOC_MINALIGN, PAGE_SIZE)
                                : ARCH_KMALLOC_MINALIGN;
  return allocate(size, align, flags);
}

void* kmalloc_array(size_t count, size_t size, gfp_t flags) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : kmalloc(bytes, flags);
}

void* krealloc(const void* old, size_t size, gfp_t flags) {
  void* const piece = kmalloc(size, flags);
  if (old == nullptr || old == ZERO_SIZE_PTR || piece == nullptr) {
    return piece;
  }
  if (size != 0) {
    std::memcpy(piece, old, std::min(size, malloc_usable_size(const_cast<void*>(old))));
  }
  kfree(old);
  return piece;
}

void kfree(const void* piece) {
  if (piece != ZERO_SIZE_PTR) {
    std::free(const_cast<void*>(piece));
  }
}

struct kmem_cache* kmem_cache_create(const char* name, unsigned size, unsigned align,
                                     unsigned /*flags*/, void (*constructor)(void*)) {
  auto made = std::make_unique<kmem_cache>();
  made->name = name;
  made->size = size;
  made->align = std::bit_ceil(std::max<std::size_t>(align, ARCH_KMALLOC_MINALIGN));
  made->constructor = constructor;
  return made.release();
}

void kmem_cache_destroy(struct kmem_cache* cache) {
  const std::unique_ptr<kmem_cache> ends{cache};
  if (cache != nullptr) {
    if (const long left = cache->objects; left != 0) {
      weft_kenv_warn(__FILE__, __LINE__, "kmem_cache %s: %ld objects are left", cache->name.c_str(),
                     left);
    }
  }
}

void* kmem_cache_alloc(struct kmem_cache* cache, gfp_t flags) {
  void* const object = allocate(cache->size, cache->align, flags);
  if (object != nullptr) {
    ++cache->objects;
    if (cache->constructor != nullptr) {
      cache->constructor(object);
    }
  }
  return object;
}

void kmem_cache_free(struct kmem_cache* cache, void* object) {
  if (object != nullptr) {
    --cache->objects;
    std::free(object);
  }
}

unsigned long __get_free_pages(gfp_t flags, unsigned order) {
  return std::bit_cast<unsigned long>(allocate(PAGE_SIZE << order, PAGE_SIZE, flags));
}

void free_pages(unsigned long address, unsigned /*order*/) {
  std::free(std::bit_cast<void*>(address));
}

void* dma_alloc_coherent(struct device* /*device*/, size_t size, dma_addr_t* at, gfp_t flags) {
  void* const piece = allocate(PAGE_ALIGN(size), PAGE_SIZE, flags | __GFP_ZERO);
  *at = std::bit_cast<dma_addr_t>(piece);
  return piece;
}

void dma_free_coherent(struct device* /*device*/, size_t /*size*/, void* piece, dma_addr_t /*at*/) {
  std::free(piece);
}

int sg_nents(struct scatterlist* list) {
  int count = 0;
  for (scatterlist* sg = list; sg != nullptr; sg = sg_next(sg)) {
    ++count;
  }
  return count;
}

struct scatterlist* sg_last(struct scatterlist* list, unsigned count) {
  scatterlist* sg = list;
  for (unsigned i = 1; i < count; ++i) {
    sg = sg_next(sg);
  }
  return sg;
}

int sg_alloc_table(struct sg_table* table, unsigned count, gfp_t flags) {
  *table = sg_table{};
  if (count == 0) {
    return -EINVAL;
  }
  table->sgl = static_cast<scatterlist*>(kcalloc(count, sizeof(scatterlist), flags));
  if (table->sgl == nullptr) {
    return -ENOMEM;
  }
  sg_init_table(table->sgl, count);
  table->nents = table->orig_nents = count;
  return 0;
}

void sg_free_table(struct sg_table* table) {
  kfree(table->sgl);
  *table = sg_table{};
}

size_t sg_pcopy_from_buffer(struct scatterlist* list, unsigned count, const void* from,
                            size_t length, off_t skip) {
  return for_pieces(list, count, length, static_cast<std::size_t>(skip),
                    [&](void* piece, std::size_t at, std::size_t bytes) {
                      std::memcpy(piece, static_cast<const char*>(from) + at, bytes);
                    });
}

size_t sg_pcopy_to_buffer(struct scatterlist* list, unsigned count, void* to, size_t length,
                          off_t skip) {
  return for_pieces(list, count, length, static_cast<std::size_t>(skip),
                    [&](void* piece, std::size_t at, std::size_t bytes) {
                      std::memcpy(static_cast<char*>(to) + at, piece, bytes);
                    });
}
