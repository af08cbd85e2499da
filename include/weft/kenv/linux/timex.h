#pragma once

/* The processor's counter of cycles. */

#include <linux/types.h>

typedef unsigned long long cycles_t;

static inline cycles_t get_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	cycles_t at;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(at));
	return at;
#endif
}
