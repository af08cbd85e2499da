#pragma once

#include <linux/types.h>

WEFT_KENV_BEGIN
void msleep(unsigned int ms);
/* Milliseconds that were left when a signal came. */
unsigned long msleep_interruptible(unsigned int ms);
void usleep_range(unsigned long least, unsigned long most);
void udelay(unsigned long us);
WEFT_KENV_END

#define ssleep(s) msleep((s) * 1000)
#define fsleep(us) usleep_range(us, us)
#define mdelay(ms) udelay((ms) * 1000UL)
#define ndelay(ns) udelay(((ns) + 999UL) / 1000)
