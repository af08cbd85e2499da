#pragma once

/* Time in ticks: a millisecond each. */

#include <linux/types.h>

#define HZ 1000
#define MSEC_PER_SEC 1000L
#define USEC_PER_MSEC 1000L
#define USEC_PER_SEC 1000000L
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L

WEFT_KENV_BEGIN
unsigned long weft_kenv_jiffies(void);
WEFT_KENV_END

#define jiffies (weft_kenv_jiffies())
#define get_jiffies_64() ((u64)weft_kenv_jiffies())

#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define jiffies_to_msecs(j) ((unsigned int)(j))
#define usecs_to_jiffies(us) (((unsigned long)(us) + 999) / 1000)
#define jiffies_to_usecs(j) ((unsigned int)((j) * 1000))
#define nsecs_to_jiffies(ns) ((unsigned long)((ns) / 1000000))

#define time_after(a, b) ((long)((unsigned long)(b) - (unsigned long)(a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) (!time_before(a, b))
#define time_before_eq(a, b) (!time_after(a, b))
#define time_is_before_jiffies(a) time_after(jiffies, a)
#define time_is_after_jiffies(a) time_before(jiffies, a)
