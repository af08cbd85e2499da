#pragma once

/* What one task waits for and another says, once for each that waits, or for all from now on. */

#include <linux/wait.h>

struct completion {
	unsigned int done; /* ~0: for all */
	wait_queue_head_t wait;
};

#define COMPLETION_INITIALIZER(name) { 0, __WAIT_QUEUE_HEAD_INITIALIZER((name).wait) }
#define COMPLETION_INITIALIZER_ONSTACK(name) COMPLETION_INITIALIZER(name)
#define DECLARE_COMPLETION(name) struct completion name = COMPLETION_INITIALIZER(name)
#define DECLARE_COMPLETION_ONSTACK(name) DECLARE_COMPLETION(name)

WEFT_KENV_BEGIN
void init_completion(struct completion *x);
void reinit_completion(struct completion *x);
void complete(struct completion *x);
void complete_all(struct completion *x);
bool try_wait_for_completion(struct completion *x);
bool completion_done(struct completion *x);
/* Jiffies that were left, at least 1; 0: the time passed; -ERESTARTSYS: a signal came. */
long weft_kenv_wait_for_completion(struct completion *x, int state, long timeout);
WEFT_KENV_END

static inline void wait_for_completion(struct completion *x)
{
	weft_kenv_wait_for_completion(x, TASK_UNINTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
}

static inline int wait_for_completion_interruptible(struct completion *x)
{
	long left = weft_kenv_wait_for_completion(x, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);

	return left < 0 ? (int)left : 0;
}

#define wait_for_completion_killable(x) wait_for_completion_interruptible(x)

static inline unsigned long wait_for_completion_timeout(struct completion *x, unsigned long timeout)
{
	return (unsigned long)weft_kenv_wait_for_completion(x, TASK_UNINTERRUPTIBLE, (long)timeout);
}

static inline long wait_for_completion_interruptible_timeout(struct completion *x, unsigned long timeout)
{
	return weft_kenv_wait_for_completion(x, TASK_INTERRUPTIBLE, (long)timeout);
}
