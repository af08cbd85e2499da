#pragma once

/* Functions that are called at a time, in one thread after the other. */

#include <linux/container_of.h>
#include <linux/jiffies.h>
#include <linux/types.h>

struct timer_list {
	unsigned long expires; /* in jiffies */
	void (*function)(struct timer_list *timer);
	bool is_pending; /* of the environment */
};

WEFT_KENV_BEGIN
void timer_setup(struct timer_list *timer, void (*function)(struct timer_list *timer), unsigned int flags);
void add_timer(struct timer_list *timer);
/* 1: it was pending. */
int mod_timer(struct timer_list *timer, unsigned long expires);
int del_timer(struct timer_list *timer);
/* Its function does not run any more. Not from within it. */
int del_timer_sync(struct timer_list *timer);
bool timer_pending(struct timer_list *timer);
WEFT_KENV_END

#define DEFINE_TIMER(name, function) struct timer_list name = { 0, (function), false }
#define timer_delete(timer) del_timer(timer)
#define timer_delete_sync(timer) del_timer_sync(timer)
#define timer_shutdown_sync(timer) del_timer_sync(timer)
#define from_timer(name, timer, member) container_of(timer, __typeof__(*(name)), member)
#define timer_container_of(name, timer, member) from_timer(name, timer, member)
