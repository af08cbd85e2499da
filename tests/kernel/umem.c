/* Memory of this process, pinned and paged on demand. */

#define _GNU_SOURCE /* mremap() */

#include <linux/errno.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <string.h>
#include <sys/mman.h>

#include "ulp.h"

#define PAGES 8UL
#define PAGE 4096UL

static char* map_memory(void) {
  return mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int present(char* memory) {
  unsigned char resident[PAGES];
  int count = 0;
  if (mincore(memory, PAGES * PAGE, resident) != 0) {
    return -1;
  }
  for (unsigned i = 0; i < PAGES; i++) {
    count += resident[i] & 1;
  }
  return count;
}

int check_pinned_memory(void) {
  char* memory = map_memory();
  const unsigned long at = (unsigned long)memory;
  struct ib_umem *umem, *again;
  CHECK(memory != MAP_FAILED);
  umem = ib_umem_get(devices[0], at + PAGE + 100, 2 * PAGE, IB_ACCESS_LOCAL_WRITE);
  CHECK(!IS_ERR(umem));
  CHECK(present(memory) == 3); /* and no more */
  CHECK(umem->writable && !umem->is_odp && umem->length == 2 * PAGE);
  CHECK(umem->nmap == 1 && sg_dma_address(umem->sg_head) == at + PAGE);
  CHECK(sg_dma_len(umem->sg_head) == 3 * PAGE);
  CHECK(ib_umem_find_best_pgsz(umem, PAGE, at + PAGE + 100) == PAGE);
  CHECK(ib_umem_find_best_pgsz(umem, PAGE, at + 101) == 0); /* the offsets differ */
  again = ib_umem_get(devices[0], at + PAGE, PAGE, 0);
  CHECK(!IS_ERR(again) && !again->writable);
  ib_umem_release(umem);
  CHECK(madvise(memory + PAGE, PAGE, MADV_DONTNEED) != 0); /* the second still has it */
  ib_umem_release(again);
  CHECK(madvise(memory + PAGE, PAGE, MADV_DONTNEED) == 0);
  ib_umem_release(NULL);

  CHECK(PTR_ERR(ib_umem_get(devices[0], at, 0, 0)) == -EINVAL);
  CHECK(PTR_ERR(ib_umem_get(devices[0], ~0UL - 5, 100, 0)) == -EINVAL);
  CHECK(munmap(memory + 4 * PAGE, PAGE) == 0);
  CHECK(PTR_ERR(ib_umem_get(devices[0], at + 3 * PAGE, 3 * PAGE, 0)) == -EFAULT);
  CHECK(mprotect(memory, PAGE, PROT_READ) == 0);
  CHECK(PTR_ERR(ib_umem_get(devices[0], at, PAGE, IB_ACCESS_LOCAL_WRITE)) == -EFAULT);
  CHECK(munmap(memory, PAGES * PAGE) == 0);
  return 0;
}

static unsigned long told_start, told_end;
static int told;

static bool take_invalidation(struct mmu_interval_notifier* notifier,
                              const struct mmu_notifier_range* range, unsigned long sequence) {
  struct ib_umem_odp* odp = container_of(notifier, struct ib_umem_odp, notifier);
  told += odp->notifiers_seq == sequence;
  told_start = range->start;
  told_end = range->end;
  return true;
}

static const struct mmu_interval_notifier_ops operations = {.invalidate = take_invalidation};

int check_paging_on_demand(void) {
  char* memory = map_memory();
  const unsigned long at = (unsigned long)memory;
  struct ib_umem_odp *odp, *all, *part;
  unsigned long sequence;
  CHECK(memory != MAP_FAILED);
  told = 0;
  CHECK(PTR_ERR(ib_umem_odp_get(devices[0], at, PAGE, 0, &operations)) == -EINVAL);
  odp = ib_umem_odp_get(devices[0], at, PAGES * PAGE, IB_ACCESS_ON_DEMAND | IB_ACCESS_LOCAL_WRITE,
                        &operations);
  CHECK(!IS_ERR(odp) && odp->umem.is_odp && odp->umem.writable && !odp->is_implicit_odp);
  CHECK(present(memory) == 0); /* nothing is pinned */
  sequence = odp->notifiers_seq;
  CHECK(ib_umem_odp_map_dma_pages(odp, at + 2 * PAGE + 1, PAGE, ODP_READ_ALLOWED_BIT, sequence) ==
        2);
  CHECK(present(memory) == 2 && odp->npages == 2);
  CHECK(odp->dma_list[1] == 0);
  CHECK(odp->dma_list[2] == ((at + 2 * PAGE) | ODP_READ_ALLOWED_BIT));
  CHECK(ib_umem_odp_map_dma_pages(odp, at, PAGE, 0, sequence) == -EINVAL);
  CHECK(ib_umem_odp_map_dma_pages(odp, at + PAGES * PAGE, PAGE, 1, sequence) == -EFAULT);

  weft_mm_invalidate(at + 3 * PAGE, at + 4 * PAGE);
  CHECK(told == 1 && told_start == at + 3 * PAGE && told_end == at + 4 * PAGE);
  CHECK(odp->dma_list[3] == 0 && odp->dma_list[2] != 0 && odp->npages == 1);
  CHECK(ib_umem_odp_map_dma_pages(odp, at, PAGE, ODP_READ_ALLOWED_BIT, sequence) == -EAGAIN);
  sequence = odp->notifiers_seq;
  CHECK(ib_umem_odp_map_dma_pages(odp, at, PAGE, ODP_READ_ALLOWED_BIT, sequence) == 1);
  ib_umem_release(&odp->umem);
  weft_mm_invalidate(at, at + PAGES * PAGE);
  CHECK(told == 1); /* it hears nothing any more */

  all = ib_umem_odp_alloc_implicit(devices[0], IB_ACCESS_ON_DEMAND | IB_ACCESS_LOCAL_WRITE);
  CHECK(!IS_ERR(all) && all->is_implicit_odp);
  part = ib_umem_odp_alloc_child(all, at + PAGE, PAGE, &operations);
  CHECK(!IS_ERR(part) && part->umem.writable);
  CHECK(ib_umem_odp_map_dma_pages(part, at + PAGE, PAGE,
                                  ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT,
                                  part->notifiers_seq) == 1);
  CHECK(part->dma_list[0] == ((at + PAGE) | 3));
  CHECK(PTR_ERR(ib_umem_odp_alloc_child(part, at, PAGE, &operations)) == -EINVAL);
  ib_umem_release(&part->umem);
  ib_umem_release(&all->umem);
  CHECK(munmap(memory, PAGES * PAGE) == 0);
  return 0;
}

static struct ib_umem_odp* odp_of(char* memory) {
  return ib_umem_odp_get(devices[0], (unsigned long)memory, PAGES * PAGE,
                         IB_ACCESS_ON_DEMAND | IB_ACCESS_LOCAL_WRITE, &operations);
}

static int map_all(struct ib_umem_odp* odp) {
  return ib_umem_odp_map_dma_pages(odp, odp->umem.address, PAGES * PAGE,
                                   ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT,
                                   odp->notifiers_seq);
}

/* Nobody says of any of these changes that it comes. */
int check_changes_are_heard(void) {
  char* memory = map_memory();
  const unsigned long at = (unsigned long)memory;
  struct ib_umem_odp* odp = odp_of(memory);
  char* moved;
  CHECK(memory != MAP_FAILED && !IS_ERR(odp));
  CHECK(map_all(odp) == PAGES);
  memory[2 * PAGE] = 'x';

  told = 0;
  CHECK(madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED) == 0);
  CHECK(weft_mm_settle() == 0);
  CHECK(told == 1 && told_start == at + 2 * PAGE && told_end == at + 3 * PAGE);
  CHECK(odp->dma_list[2] == 0 && odp->dma_list[1] != 0 && odp->npages == PAGES - 1);
  CHECK(memory[2 * PAGE] == 0); /* a page fault, which is served */

  CHECK(munmap(memory + 3 * PAGE, 2 * PAGE) == 0);
  CHECK(weft_mm_settle() == 0);
  CHECK(told == 2 && told_start == at + 3 * PAGE && told_end == at + 5 * PAGE);
  CHECK(ib_umem_odp_map_dma_pages(odp, at + 3 * PAGE, 1, 1, odp->notifiers_seq) == -EFAULT);

  moved = mremap(memory, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
  CHECK(moved != MAP_FAILED && moved != memory);
  CHECK(weft_mm_settle() == 0);
  CHECK(told >= 3 && odp->dma_list[0] == 0 && odp->dma_list[1] == 0);
  CHECK(munmap(moved, 4 * PAGE) == 0); /* which nobody watches */

  ib_umem_release(&odp->umem);
  told = 0;
  CHECK(munmap(memory, PAGES * PAGE) == 0);
  CHECK(weft_mm_settle() == 0 && told == 0);
  return 0;
}
