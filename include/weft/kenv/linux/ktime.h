#pragma once

/* Time in nanoseconds. */

#include <linux/jiffies.h>
#include <linux/types.h>

#define KTIME_MAX ((s64)~((u64)1 << 63))

WEFT_KENV_BEGIN
ktime_t ktime_get(void);
ktime_t ktime_get_real(void);
WEFT_KENV_END

#define ktime_get_ns() ((u64)ktime_get())
#define ktime_get_boottime() ktime_get()
#define ktime_get_raw() ktime_get()
#define ktime_get_coarse() ktime_get()
#define ktime_get_real_ns() ((u64)ktime_get_real())
#define ktime_get_seconds() ((time64_t)(ktime_get() / NSEC_PER_SEC))
#define ktime_get_real_seconds() ((time64_t)(ktime_get_real() / NSEC_PER_SEC))
#define ktime_set(s, ns) ((ktime_t)(s) * NSEC_PER_SEC + (ns))
#define ktime_sub(a, b) ((ktime_t)((a) - (b)))
#define ktime_add(a, b) ((ktime_t)((a) + (b)))
#define ktime_add_ns(a, ns) ((ktime_t)((a) + (s64)(ns)))
#define ktime_add_us(a, us) ((ktime_t)((a) + (s64)(us) * NSEC_PER_USEC))
#define ktime_add_ms(a, ms) ((ktime_t)((a) + (s64)(ms) * NSEC_PER_MSEC))
#define ktime_to_ns(t) ((s64)(t))
#define ktime_to_us(t) ((s64)((t) / NSEC_PER_USEC))
#define ktime_to_ms(t) ((s64)((t) / NSEC_PER_MSEC))
#define ktime_us_delta(a, b) ktime_to_us(ktime_sub(a, b))
#define ktime_ms_delta(a, b) ktime_to_ms(ktime_sub(a, b))
#define ktime_compare(a, b) ((a) < (b) ? -1 : (a) > (b) ? 1 : 0)
#define ktime_after(a, b) (ktime_compare(a, b) > 0)
#define ktime_before(a, b) (ktime_compare(a, b) < 0)
#define ms_to_ktime(ms) ((ktime_t)(ms) * NSEC_PER_MSEC)
#define ns_to_ktime(ns) ((ktime_t)(ns))
