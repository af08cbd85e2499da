#pragma once

/* Files of a page of text at most. `weft module read` and `weft module write` reach those of devices. */

#include <linux/mm_types.h>
#include <linux/types.h>

struct attribute {
	const char *name;
	umode_t mode;
};

#define __ATTR(name, mode, show, store) { { #name, mode }, show, store }
#define __ATTR_RO(name) __ATTR(name, 0444, name##_show, NULL)
#define __ATTR_RW(name) __ATTR(name, 0644, name##_show, name##_store)
#define __ATTR_WO(name) __ATTR(name, 0200, NULL, name##_store)

WEFT_KENV_BEGIN
/* `buffer` is the page that a show function was given. */
int sysfs_emit(char *buffer, const char *format, ...) __printf(2, 3);
int sysfs_emit_at(char *buffer, int at, const char *format, ...) __printf(3, 4);
WEFT_KENV_END
