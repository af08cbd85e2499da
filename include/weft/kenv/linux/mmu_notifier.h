#pragma once

/* Who hears of changes of a range of the process's memory, by the operating system or by weft_mm_invalidate() (rdma/ib_umem_odp.h). */

#include <linux/types.h>

struct mmu_notifier_range {
	unsigned long start;
	unsigned long end;
};

struct mmu_interval_notifier {
	const struct mmu_interval_notifier_ops *ops;
	void *weft;
};

struct mmu_interval_notifier_ops {
	/* On return no device reaches the range as it is. */
	bool (*invalidate)(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range, unsigned long sequence);
};
