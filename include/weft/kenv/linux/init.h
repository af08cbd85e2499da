#pragma once

#include <linux/compiler.h>

WEFT_KENV_BEGIN
/* What `weft module` calls; the last ones that were named count. */
void weft_kenv_set_init(int (*function)(void));
void weft_kenv_set_exit(void (*function)(void));
WEFT_KENV_END

#define module_init(function)                                                       \
	static void __attribute__((__constructor__)) weft_kenv_init_##function(void) \
	{                                                                            \
		weft_kenv_set_init(function);                                        \
	}
#define module_exit(function)                                                       \
	static void __attribute__((__constructor__)) weft_kenv_exit_##function(void) \
	{                                                                            \
		weft_kenv_set_exit(function);                                        \
	}
