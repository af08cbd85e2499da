#pragma once

/* Annotations of kernel sources. Those that would break headers of C++ are C's alone. */

#define __user
#define __must_check __attribute__((__warn_unused_result__))
#define __printf(format, first) __attribute__((__format__(__printf__, format, first)))

#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif

#ifndef __cplusplus
#define __kernel
#define __iomem
#define __force
#define __percpu
#define __rcu
#define __must_hold(x)
#define __acquires(x)
#define __releases(x)
#define __init
#define __exit
#define __initdata
#define __exitdata
#define __initconst
#define __read_mostly
#define __ref
#define __randomize_layout
#define __cold
#define asmlinkage
#define __maybe_unused __attribute__((__unused__))
#define __always_unused __attribute__((__unused__))
#define __packed __attribute__((__packed__))
#define __aligned(x) __attribute__((__aligned__(x)))
#define ____cacheline_aligned __attribute__((__aligned__(64)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#define barrier() __asm__ __volatile__("" ::: "memory")
#define noinline __attribute__((__noinline__))
#define fallthrough __attribute__((__fallthrough__))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* One access, as it stands, which other threads may run beside. */
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELAXED)

#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define mb() smp_mb()
#define rmb() smp_rmb()
#define wmb() smp_wmb()
#define dma_rmb() smp_rmb()
#define dma_wmb() smp_wmb()
#define smp_mb__before_atomic() smp_mb()
#define smp_mb__after_atomic() smp_mb()
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)
#define smp_store_mb(x, value) __atomic_store_n(&(x), (value), __ATOMIC_SEQ_CST)

/* Around what the environment's library exports. */
#ifdef __cplusplus
#define WEFT_KENV_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define WEFT_KENV_END } _Pragma("GCC visibility pop")
#else
#define WEFT_KENV_BEGIN _Pragma("GCC visibility push(default)")
#define WEFT_KENV_END _Pragma("GCC visibility pop")
#endif
