#pragma once

/* What must not be: BUG ends the process, WARN says where and goes on. */

#include <linux/compiler.h>
#include <linux/types.h>

WEFT_KENV_BEGIN
void weft_kenv_bug(const char *file, int line, const char *what) __attribute__((__noreturn__));
bool weft_kenv_warn(const char *file, int line, const char *format, ...) __printf(3, 4);
WEFT_KENV_END

#define BUG() weft_kenv_bug(__FILE__, __LINE__, "BUG")
#define BUG_ON(x)                                                           \
	do {                                                                \
		if (__builtin_expect(!!(x), 0))                             \
			weft_kenv_bug(__FILE__, __LINE__, "BUG_ON(" #x ")"); \
	} while (0)
#define WARN(x, ...)                                                                     \
	__extension__ ({                                                                               \
		bool weft_met = !!(x);                                                   \
		if (__builtin_expect(weft_met, 0))                                       \
			weft_kenv_warn(__FILE__, __LINE__, __VA_ARGS__);                 \
		weft_met;                                                                \
	})
#define WARN_ON(x) WARN(x, "WARN_ON(" #x ")")
#define WARN_ONCE(x, ...)                                                                \
	__extension__ ({                                                                               \
		static bool weft_warned;                                                 \
		bool weft_once = !!(x);                                                  \
		if (__builtin_expect(weft_once && !__atomic_exchange_n(&weft_warned, true, __ATOMIC_RELAXED), 0)) \
			weft_kenv_warn(__FILE__, __LINE__, __VA_ARGS__);                 \
		weft_once;                                                               \
	})
#define WARN_ON_ONCE(x) WARN_ONCE(x, "WARN_ON_ONCE(" #x ")")
#ifdef __cplusplus
#define BUILD_BUG_ON(x) static_assert(!(x), #x)
#else
#define BUILD_BUG_ON(x) _Static_assert(!(x), #x)
#endif
