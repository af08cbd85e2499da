#pragma once

/* Counters that threads share. Everything that returns a value is a full barrier. */

#include <linux/types.h>

#define WEFT_KENV_ATOMIC(prefix, type, number)                                                        \
	static inline number prefix##_read(const type *v)                                             \
	{                                                                                             \
		return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);                                \
	}                                                                                             \
	static inline void prefix##_set(type *v, number i)                                            \
	{                                                                                             \
		__atomic_store_n(&v->counter, i, __ATOMIC_RELAXED);                                   \
	}                                                                                             \
	static inline number prefix##_add_return(number i, type *v)                                   \
	{                                                                                             \
		return __atomic_add_fetch(&v->counter, i, __ATOMIC_SEQ_CST);                          \
	}                                                                                             \
	static inline number prefix##_sub_return(number i, type *v)                                   \
	{                                                                                             \
		return __atomic_sub_fetch(&v->counter, i, __ATOMIC_SEQ_CST);                          \
	}                                                                                             \
	static inline number prefix##_fetch_add(number i, type *v)                                    \
	{                                                                                             \
		return __atomic_fetch_add(&v->counter, i, __ATOMIC_SEQ_CST);                          \
	}                                                                                             \
	static inline void prefix##_add(number i, type *v)                                            \
	{                                                                                             \
		(void)prefix##_add_return(i, v);                                                      \
	}                                                                                             \
	static inline void prefix##_sub(number i, type *v)                                            \
	{                                                                                             \
		(void)prefix##_sub_return(i, v);                                                      \
	}                                                                                             \
	static inline void prefix##_inc(type *v)                                                      \
	{                                                                                             \
		(void)prefix##_add_return(1, v);                                                      \
	}                                                                                             \
	static inline void prefix##_dec(type *v)                                                      \
	{                                                                                             \
		(void)prefix##_sub_return(1, v);                                                      \
	}                                                                                             \
	static inline number prefix##_inc_return(type *v)                                             \
	{                                                                                             \
		return prefix##_add_return(1, v);                                                     \
	}                                                                                             \
	static inline number prefix##_dec_return(type *v)                                             \
	{                                                                                             \
		return prefix##_sub_return(1, v);                                                     \
	}                                                                                             \
	static inline bool prefix##_dec_and_test(type *v)                                             \
	{                                                                                             \
		return prefix##_sub_return(1, v) == 0;                                                \
	}                                                                                             \
	static inline bool prefix##_inc_and_test(type *v)                                             \
	{                                                                                             \
		return prefix##_add_return(1, v) == 0;                                                \
	}                                                                                             \
	static inline bool prefix##_sub_and_test(number i, type *v)                                   \
	{                                                                                             \
		return prefix##_sub_return(i, v) == 0;                                                \
	}                                                                                             \
	static inline number prefix##_xchg(type *v, number to)                                        \
	{                                                                                             \
		return __atomic_exchange_n(&v->counter, to, __ATOMIC_SEQ_CST);                        \
	}                                                                                             \
	static inline number prefix##_cmpxchg(type *v, number from, number to)                        \
	{                                                                                             \
		__atomic_compare_exchange_n(&v->counter, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		return from;                                                                          \
	}                                                                                             \
	static inline bool prefix##_add_unless(type *v, number i, number unless)                      \
	{                                                                                             \
		number seen = prefix##_read(v);                                                       \
		while (seen != unless)                                                                \
			if (__atomic_compare_exchange_n(&v->counter, &seen, seen + i, 0, __ATOMIC_SEQ_CST, \
							__ATOMIC_SEQ_CST))                            \
				return true;                                                          \
		return false;                                                                         \
	}                                                                                             \
	static inline bool prefix##_inc_not_zero(type *v)                                             \
	{                                                                                             \
		return prefix##_add_unless(v, 1, 0);                                                  \
	}

WEFT_KENV_ATOMIC(atomic, atomic_t, int)
WEFT_KENV_ATOMIC(atomic64, atomic64_t, s64)
WEFT_KENV_ATOMIC(atomic_long, atomic_long_t, long)
#undef WEFT_KENV_ATOMIC

#define xchg(pointer, to) __atomic_exchange_n(pointer, to, __ATOMIC_SEQ_CST)
#define cmpxchg(pointer, from, to)                                                                     \
	__extension__ ({                                                                                             \
		__typeof__(*(pointer)) weft_seen = (from);                                             \
		__atomic_compare_exchange_n(pointer, &weft_seen, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		weft_seen;                                                                             \
	})
