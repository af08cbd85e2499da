#pragma once

/* A program's memory is the module's own. Returned: bytes that were not copied. */

#include <string.h>

#include <linux/types.h>

static inline unsigned long __must_check copy_from_user(void *to, const void __user *from, unsigned long count)
{
	memcpy(to, from, count);
	return 0;
}

static inline unsigned long __must_check copy_to_user(void __user *to, const void *from, unsigned long count)
{
	memcpy(to, from, count);
	return 0;
}

#define get_user(to, from) ((to) = *(from), 0)
#define put_user(value, to) (*(to) = (value), 0)
#define access_ok(at, size) true
