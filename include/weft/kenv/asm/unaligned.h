#pragma once

#include <string.h>

#include <asm/byteorder.h>
#include <linux/types.h>

static inline u16 get_unaligned_be16(const void *at)
{
	u16 n;

	memcpy(&n, at, sizeof(n));
	return be16_to_cpu(n);
}

static inline u32 get_unaligned_be32(const void *at)
{
	u32 n;

	memcpy(&n, at, sizeof(n));
	return be32_to_cpu(n);
}

static inline u64 get_unaligned_be64(const void *at)
{
	u64 n;

	memcpy(&n, at, sizeof(n));
	return be64_to_cpu(n);
}

static inline void put_unaligned_be16(u16 n, void *at)
{
	n = cpu_to_be16(n);
	memcpy(at, &n, sizeof(n));
}

static inline void put_unaligned_be32(u32 n, void *at)
{
	n = cpu_to_be32(n);
	memcpy(at, &n, sizeof(n));
}

static inline void put_unaligned_be64(u64 n, void *at)
{
	n = cpu_to_be64(n);
	memcpy(at, &n, sizeof(n));
}
