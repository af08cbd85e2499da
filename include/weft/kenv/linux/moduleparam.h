#pragma once

/* Parameters of a module: `weft module run FILE.so --host HOST name=value`. Types: byte, short, ushort,
 * int, uint, long, ulong, ullong, bool, invbool, charp. */

#include <linux/types.h>

#define WEFT_KENV_PASTE_(a, b) a##b
#define WEFT_KENV_PASTE(a, b) WEFT_KENV_PASTE_(a, b)
#define WEFT_KENV_UNIQUE(name) WEFT_KENV_PASTE(weft_kenv_##name##_, __COUNTER__)

typedef char *charp;

WEFT_KENV_BEGIN
/* `count` NULL: a value; else an array of `most` elements of `size` bytes, whose count is told there. */
void weft_kenv_add_parameter(const char *name, const char *type, void *value, unsigned int most, unsigned int size,
			     unsigned int *count);
void weft_kenv_describe_parameter(const char *name, const char *text);
WEFT_KENV_END

#define WEFT_KENV_AT_LOAD(function, ...)                                   \
	static void __attribute__((__constructor__)) function(void)        \
	{                                                                  \
		__VA_ARGS__;                                               \
	}
#define module_param_named(name, value, type, perm) \
	WEFT_KENV_AT_LOAD(weft_kenv_parameter_##name, weft_kenv_add_parameter(#name, #type, &(value), 1, sizeof(value), NULL))
#define module_param(name, type, perm) module_param_named(name, name, type, perm)
#define module_param_string(name, text, size, perm) \
	WEFT_KENV_AT_LOAD(weft_kenv_parameter_##name, weft_kenv_add_parameter(#name, "string", text, 1, size, NULL))
#define module_param_array_named(name, array, type, count, perm)                                      \
	static unsigned int weft_kenv_count_##name;                                                   \
	WEFT_KENV_AT_LOAD(weft_kenv_parameter_##name,                                                 \
			  unsigned int *weft_to = (count);                                            \
			  weft_kenv_add_parameter(#name, #type, array, sizeof(array) / sizeof((array)[0]), \
						  sizeof((array)[0]), weft_to ? weft_to : &weft_kenv_count_##name))
#define module_param_array(name, type, count, perm) module_param_array_named(name, name, type, count, perm)
#define MODULE_PARM_DESC(name, text) \
	WEFT_KENV_AT_LOAD(weft_kenv_description_##name, weft_kenv_describe_parameter(#name, text))
