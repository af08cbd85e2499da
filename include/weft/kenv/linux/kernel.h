#pragma once

/* Small things that everything uses. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/container_of.h>
#include <linux/errno.h>
#include <linux/printk.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define DIV_ROUND_UP(n, by) (((n) + (by) - 1) / (by))
#define roundup(n, to) (DIV_ROUND_UP(n, to) * (to))
#define rounddown(n, to) ((n) - ((n) % (to)))
#define ALIGN(n, to) (((n) + ((__typeof__(n))(to) - 1)) & ~((__typeof__(n))(to) - 1))
#define ALIGN_DOWN(n, to) ((n) & ~((__typeof__(n))(to) - 1))
#define IS_ALIGNED(n, to) (((n) & ((__typeof__(n))(to) - 1)) == 0)
#define PTR_ALIGN(p, to) ((__typeof__(p))ALIGN((unsigned long)(p), (to)))
#define round_up(n, to) ALIGN(n, to)
#define round_down(n, to) ALIGN_DOWN(n, to)
#define upper_32_bits(n) ((u32)((u64)(n) >> 32))
#define lower_32_bits(n) ((u32)(n))
#define IS_ENABLED(option) 0
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define struct_size(pointer, member, count) \
	(sizeof(*(pointer)) + sizeof((pointer)->member[0]) * (size_t)(count))

#ifndef __cplusplus
#define min(a, b)                              \
	__extension__ ({                                     \
		__typeof__(a) weft_a = (a);    \
		__typeof__(b) weft_b = (b);    \
		weft_a < weft_b ? weft_a : weft_b; \
	})
#define max(a, b)                              \
	__extension__ ({                                     \
		__typeof__(a) weft_a = (a);    \
		__typeof__(b) weft_b = (b);    \
		weft_a > weft_b ? weft_a : weft_b; \
	})
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define clamp(n, low, high) min(max(n, low), high)
#define clamp_t(type, n, low, high) clamp((type)(n), (type)(low), (type)(high))
#define clamp_val(n, low, high) clamp_t(__typeof__(n), n, low, high)
#define swap(a, b)                             \
	do {                                   \
		__typeof__(a) weft_a = (a);    \
		(a) = (b);                     \
		(b) = weft_a;                  \
	} while (0)
#endif

#define might_sleep() ((void)0)
#define U8_MAX 0xff
#define U16_MAX 0xffff
#define U32_MAX 0xffffffffU
#define S32_MAX 0x7fffffff
#define U64_MAX (~0ULL)

WEFT_KENV_BEGIN
unsigned long simple_strtoul(const char *text, char **end, unsigned int base);
long simple_strtol(const char *text, char **end, unsigned int base);
unsigned long long simple_strtoull(const char *text, char **end, unsigned int base);

/* 0, -EINVAL or -ERANGE; one newline at the end is allowed. Base 0: as the prefix says. */
int kstrtoull(const char *text, unsigned int base, unsigned long long *to);
int kstrtoll(const char *text, unsigned int base, long long *to);
int kstrtoul(const char *text, unsigned int base, unsigned long *to);
int kstrtol(const char *text, unsigned int base, long *to);
int kstrtouint(const char *text, unsigned int base, unsigned int *to);
int kstrtoint(const char *text, unsigned int base, int *to);
int kstrtou16(const char *text, unsigned int base, u16 *to);
int kstrtou8(const char *text, unsigned int base, u8 *to);
int kstrtobool(const char *text, bool *to);

/* How many characters are there now, without the end. */
int scnprintf(char *to, size_t size, const char *format, ...) __printf(3, 4);
int vscnprintf(char *to, size_t size, const char *format, va_list arguments);
WEFT_KENV_END
