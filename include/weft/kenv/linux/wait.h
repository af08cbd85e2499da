#pragma once

/* Queues of tasks that wait until something holds. A condition is looked at after the task has
 * entered the queue, so that no wake-up between look and sleep is lost. */

#include <linux/errno.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

typedef struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
} wait_queue_head_t;

typedef struct wait_queue_entry {
	struct task_struct *task;
	bool is_exclusive;
	struct list_head entry;
} wait_queue_entry_t;

#define __WAIT_QUEUE_HEAD_INITIALIZER(name) { __SPIN_LOCK_UNLOCKED(name.lock), LIST_HEAD_INIT((name).head) }
#define DECLARE_WAIT_QUEUE_HEAD(name) wait_queue_head_t name = __WAIT_QUEUE_HEAD_INITIALIZER(name)
#define DECLARE_WAIT_QUEUE_HEAD_ONSTACK(name) DECLARE_WAIT_QUEUE_HEAD(name)
#define DEFINE_WAIT(name) \
	wait_queue_entry_t name = { weft_kenv_current(), false, LIST_HEAD_INIT((name).entry) }
#define DECLARE_WAITQUEUE(name, whose) wait_queue_entry_t name = { (whose), false, LIST_HEAD_INIT((name).entry) }

WEFT_KENV_BEGIN
void init_waitqueue_head(wait_queue_head_t *queue);
void add_wait_queue(wait_queue_head_t *queue, wait_queue_entry_t *entry);
void remove_wait_queue(wait_queue_head_t *queue, wait_queue_entry_t *entry);
/* Enters the queue, once, and gives the task its state. */
void prepare_to_wait(wait_queue_head_t *queue, wait_queue_entry_t *entry, int state);
void prepare_to_wait_exclusive(wait_queue_head_t *queue, wait_queue_entry_t *entry, int state);
/* Leaves it; the task runs. */
void finish_wait(wait_queue_head_t *queue, wait_queue_entry_t *entry);
/* Wakes tasks of these states, of exclusive ones at most `exclusive` (0: all). */
void __wake_up(wait_queue_head_t *queue, unsigned int states, int exclusive, void *key);
/* With the queue's lock held. */
void weft_kenv_wake_up_locked(wait_queue_head_t *queue, unsigned int states, int exclusive);
bool waitqueue_active(wait_queue_head_t *queue);
WEFT_KENV_END

#define wake_up(queue) __wake_up(queue, TASK_NORMAL, 1, NULL)
#define wake_up_nr(queue, most) __wake_up(queue, TASK_NORMAL, most, NULL)
#define wake_up_all(queue) __wake_up(queue, TASK_NORMAL, 0, NULL)
#define wake_up_interruptible(queue) __wake_up(queue, TASK_INTERRUPTIBLE, 1, NULL)
#define wake_up_interruptible_all(queue) __wake_up(queue, TASK_INTERRUPTIBLE, 0, NULL)
#define wq_has_sleeper(queue) waitqueue_active(queue)

/* `left`: jiffies to wait at most, of which the rest is kept. 0, or -ERESTARTSYS. */
#define weft_kenv_wait(queue, condition, task_state, left)                                      \
	__extension__ ({                                                                                      \
		int weft_result = 0;                                                            \
		DEFINE_WAIT(weft_entry);                                                        \
		for (;;) {                                                                      \
			prepare_to_wait(&(queue), &weft_entry, task_state);                     \
			if (condition)                                                          \
				break;                                                          \
			if ((task_state) == TASK_INTERRUPTIBLE && signal_pending(weft_kenv_current())) { \
				weft_result = -ERESTARTSYS;                                     \
				break;                                                          \
			}                                                                       \
			if ((left) == 0)                                                        \
				break;                                                          \
			(left) = schedule_timeout(left);                                        \
		}                                                                               \
		finish_wait(&(queue), &weft_entry);                                             \
		weft_result;                                                                    \
	})

#define wait_event(queue, condition)                                                            \
	do {                                                                                    \
		long weft_left = MAX_SCHEDULE_TIMEOUT;                                          \
		if (!(condition))                                                               \
			(void)weft_kenv_wait(queue, condition, TASK_UNINTERRUPTIBLE, weft_left); \
	} while (0)
#define wait_event_interruptible(queue, condition)                                              \
	__extension__ ({                                                                                      \
		long weft_left = MAX_SCHEDULE_TIMEOUT;                                          \
		(condition) ? 0 : weft_kenv_wait(queue, condition, TASK_INTERRUPTIBLE, weft_left); \
	})
#define wait_event_killable(queue, condition) wait_event_interruptible(queue, condition)
/* 0: the time passed and it does not hold; else the jiffies that were left, at least 1. */
#define weft_kenv_wait_timeout(queue, condition, task_state, timeout)                           \
	__extension__ ({                                                                                      \
		long weft_left = (timeout);                                                     \
		bool weft_met = false;                                                          \
		int weft_error = weft_kenv_wait(queue, (weft_met = !!(condition)), task_state, weft_left); \
		weft_error ? (long)weft_error : !weft_met ? 0L : weft_left ? weft_left : 1L;    \
	})
#define wait_event_timeout(queue, condition, timeout) \
	weft_kenv_wait_timeout(queue, condition, TASK_UNINTERRUPTIBLE, timeout)
#define wait_event_interruptible_timeout(queue, condition, timeout) \
	weft_kenv_wait_timeout(queue, condition, TASK_INTERRUPTIBLE, timeout)
