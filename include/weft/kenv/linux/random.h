#pragma once

#include <linux/types.h>

WEFT_KENV_BEGIN
void get_random_bytes(void *to, size_t count);
u32 get_random_u32(void);
u64 get_random_u64(void);
WEFT_KENV_END

#define prandom_u32() get_random_u32()
#define get_random_u32_below(ceiling) (get_random_u32() % (ceiling))
