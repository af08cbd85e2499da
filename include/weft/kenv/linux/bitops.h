#pragma once

/* Bits of arrays of words. Those without two underscores are atomic. */

#include <linux/bits.h>
#include <linux/types.h>

static inline void set_bit(long n, volatile unsigned long *words)
{
	__atomic_fetch_or(&words[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_SEQ_CST);
}

static inline void clear_bit(long n, volatile unsigned long *words)
{
	__atomic_fetch_and(&words[BIT_WORD(n)], ~BIT_MASK(n), __ATOMIC_SEQ_CST);
}

static inline void change_bit(long n, volatile unsigned long *words)
{
	__atomic_fetch_xor(&words[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_SEQ_CST);
}

static inline bool test_bit(long n, const volatile unsigned long *words)
{
	return (__atomic_load_n(&words[BIT_WORD(n)], __ATOMIC_ACQUIRE) & BIT_MASK(n)) != 0;
}

static inline bool test_and_set_bit(long n, volatile unsigned long *words)
{
	return (__atomic_fetch_or(&words[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_SEQ_CST) & BIT_MASK(n)) != 0;
}

static inline bool test_and_clear_bit(long n, volatile unsigned long *words)
{
	return (__atomic_fetch_and(&words[BIT_WORD(n)], ~BIT_MASK(n), __ATOMIC_SEQ_CST) & BIT_MASK(n)) != 0;
}

static inline void __set_bit(long n, unsigned long *words)
{
	words[BIT_WORD(n)] |= BIT_MASK(n);
}

static inline void __clear_bit(long n, unsigned long *words)
{
	words[BIT_WORD(n)] &= ~BIT_MASK(n);
}

#define set_bit_unlock(n, words) set_bit(n, words)
#define clear_bit_unlock(n, words) clear_bit(n, words)

/* The first bit from `from` on whose value is `wanted`; `size` if there is none. */
static inline unsigned long weft_kenv_find_bit(const unsigned long *words, unsigned long size,
					       unsigned long from, bool wanted)
{
	for (; from < size; from++)
		if (((words[BIT_WORD(from)] & BIT_MASK(from)) != 0) == wanted)
			break;
	return from < size ? from : size;
}

#define find_first_bit(words, size) weft_kenv_find_bit(words, size, 0, true)
#define find_next_bit(words, size, from) weft_kenv_find_bit(words, size, from, true)
#define find_first_zero_bit(words, size) weft_kenv_find_bit(words, size, 0, false)
#define find_next_zero_bit(words, size, from) weft_kenv_find_bit(words, size, from, false)
#define for_each_set_bit(bit, words, size) \
	for ((bit) = find_first_bit(words, size); (bit) < (size); (bit) = find_next_bit(words, size, (bit) + 1))

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline int fls(unsigned int x)
{
	return fls64(x);
}

#define __ffs(x) ((unsigned long)__builtin_ctzl(x))
#define hweight32(x) ((unsigned int)__builtin_popcount(x))
#define hweight64(x) ((unsigned long)__builtin_popcountll(x))
#define hweight_long(x) hweight64(x)
