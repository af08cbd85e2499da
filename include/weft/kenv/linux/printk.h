#pragma once

/* What a module says, on the standard error of its process. Besides printf's conversions: %pI4, %pI6
 * (and %pI6c), %pIS with p (sockets' addresses, with ports), %pM, %pe (error pointers), %ph, %*ph. */

#include <stdarg.h>

#include <linux/compiler.h>
#include <linux/types.h>

#define KERN_SOH "\001"
#define KERN_EMERG KERN_SOH "0"
#define KERN_ALERT KERN_SOH "1"
#define KERN_CRIT KERN_SOH "2"
#define KERN_ERR KERN_SOH "3"
#define KERN_WARNING KERN_SOH "4"
#define KERN_NOTICE KERN_SOH "5"
#define KERN_INFO KERN_SOH "6"
#define KERN_DEBUG KERN_SOH "7"
#define KERN_DEFAULT ""
#define KERN_CONT KERN_SOH "c"

WEFT_KENV_BEGIN
int printk(const char *format, ...) __printf(1, 2);
int vprintk(const char *format, va_list arguments);
/* At most `limit` in 5 seconds at each place; the rest is dropped. */
bool weft_kenv_may_print(unsigned long *state);
WEFT_KENV_END

#define _printk printk

#ifndef pr_fmt
#define pr_fmt(format) format
#endif

#define pr_emerg(format, ...) printk(KERN_EMERG pr_fmt(format), ##__VA_ARGS__)
#define pr_alert(format, ...) printk(KERN_ALERT pr_fmt(format), ##__VA_ARGS__)
#define pr_crit(format, ...) printk(KERN_CRIT pr_fmt(format), ##__VA_ARGS__)
#define pr_err(format, ...) printk(KERN_ERR pr_fmt(format), ##__VA_ARGS__)
#define pr_warn(format, ...) printk(KERN_WARNING pr_fmt(format), ##__VA_ARGS__)
#define pr_warning pr_warn
#define pr_notice(format, ...) printk(KERN_NOTICE pr_fmt(format), ##__VA_ARGS__)
#define pr_info(format, ...) printk(KERN_INFO pr_fmt(format), ##__VA_ARGS__)
#define pr_cont(format, ...) printk(KERN_CONT format, ##__VA_ARGS__)
#define pr_debug(format, ...) printk(KERN_DEBUG pr_fmt(format), ##__VA_ARGS__)
#define pr_devel pr_debug
#define no_printk(format, ...) ((void)0)

#define printk_ratelimited(format, ...)                            \
	do {                                                       \
		static unsigned long weft_state;                   \
		if (weft_kenv_may_print(&weft_state))              \
			printk(format, ##__VA_ARGS__);             \
	} while (0)
#define printk_once(format, ...)                                                          \
	do {                                                                              \
		static bool weft_said;                                                    \
		if (!__atomic_exchange_n(&weft_said, true, __ATOMIC_RELAXED))             \
			printk(format, ##__VA_ARGS__);                                    \
	} while (0)
#define pr_err_ratelimited(format, ...) printk_ratelimited(KERN_ERR pr_fmt(format), ##__VA_ARGS__)
#define pr_warn_ratelimited(format, ...) printk_ratelimited(KERN_WARNING pr_fmt(format), ##__VA_ARGS__)
#define pr_info_ratelimited(format, ...) printk_ratelimited(KERN_INFO pr_fmt(format), ##__VA_ARGS__)
#define pr_warn_once(format, ...) printk_once(KERN_WARNING pr_fmt(format), ##__VA_ARGS__)
#define pr_info_once(format, ...) printk_once(KERN_INFO pr_fmt(format), ##__VA_ARGS__)
