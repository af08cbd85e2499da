#pragma once

/* Tasks: threads of the process, as those that sleep and wake each other see them. */

#include <linux/jiffies.h>
#include <linux/types.h>

#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_KILLABLE TASK_INTERRUPTIBLE
#define TASK_IDLE TASK_UNINTERRUPTIBLE
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define TASK_COMM_LEN 16
#define MAX_SCHEDULE_TIMEOUT ((long)(~0UL >> 1))

struct weft_kenv_thread;

struct task_struct {
	char comm[TASK_COMM_LEN];
	pid_t pid;
	bool is_signalled; /* of the environment, as what follows */
	struct weft_kenv_thread *thread;
};

WEFT_KENV_BEGIN
struct task_struct *weft_kenv_current(void);
/* 1: it slept, and does no more. */
int wake_up_process(struct task_struct *task);
void weft_kenv_set_state(unsigned int state);
/* Sleeps until the state is TASK_RUNNING again. */
void schedule(void);
/* Jiffies that were left. */
long schedule_timeout(long timeout);
/* Marks a task, and wakes it if it sleeps interruptibly. */
void weft_kenv_signal(struct task_struct *task);
/* Of the caller: wakes only if its state is one of these. */
int weft_kenv_wake(struct task_struct *task, unsigned int states);
void cond_resched(void);
WEFT_KENV_END

#ifndef __cplusplus
#define current (weft_kenv_current())
#define yield() cond_resched()
#endif
#define set_current_state(state) weft_kenv_set_state(state)
#define __set_current_state(state) weft_kenv_set_state(state)

static inline int signal_pending(struct task_struct *task)
{
	return __atomic_load_n(&task->is_signalled, __ATOMIC_ACQUIRE);
}

#define fatal_signal_pending(task) signal_pending(task)

static inline long schedule_timeout_interruptible(long timeout)
{
	weft_kenv_set_state(TASK_INTERRUPTIBLE);
	return schedule_timeout(timeout);
}

static inline long schedule_timeout_uninterruptible(long timeout)
{
	weft_kenv_set_state(TASK_UNINTERRUPTIBLE);
	return schedule_timeout(timeout);
}

#define smp_processor_id() 0
#define raw_smp_processor_id() 0
#define get_cpu() 0
#define put_cpu() ((void)0)
#define num_online_cpus() weft_kenv_processors()
#define num_possible_cpus() weft_kenv_processors()
WEFT_KENV_BEGIN
unsigned int weft_kenv_processors(void);
WEFT_KENV_END
