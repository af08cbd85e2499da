#pragma once

/* Counters of references: never up from zero, never below it. */

#include <linux/atomic.h>
#include <linux/bug.h>

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

#define REFCOUNT_INIT(n) { .refs = ATOMIC_INIT(n) }

static inline void refcount_set(refcount_t *r, int n)
{
	atomic_set(&r->refs, n);
}

static inline unsigned int refcount_read(const refcount_t *r)
{
	return (unsigned int)atomic_read(&r->refs);
}

static inline bool refcount_inc_not_zero(refcount_t *r)
{
	return atomic_inc_not_zero(&r->refs);
}

static inline void refcount_inc(refcount_t *r)
{
	WARN_ON(!atomic_inc_not_zero(&r->refs));
}

static inline void refcount_add(int n, refcount_t *r)
{
	WARN_ON(!atomic_add_unless(&r->refs, n, 0));
}

static inline bool refcount_sub_and_test(int n, refcount_t *r)
{
	int left = atomic_sub_return(n, &r->refs);

	WARN_ON(left < 0);
	return left == 0;
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	return refcount_sub_and_test(1, r);
}

static inline void refcount_dec(refcount_t *r)
{
	WARN_ON(refcount_sub_and_test(1, r));
}
