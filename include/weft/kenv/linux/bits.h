#pragma once

#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define BIT_MASK(n) (1UL << ((n) % 64))
#define BIT_WORD(n) ((n) / 64)
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (63 - (high))))
