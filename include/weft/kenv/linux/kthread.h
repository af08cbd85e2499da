#pragma once

/* Threads of a module. */

#include <linux/err.h>
#include <linux/sched.h>

WEFT_KENV_BEGIN
/* A task that begins when it is woken, or ends then if it was stopped before. -EAGAIN: no thread. */
struct task_struct *weft_kenv_kthread(int (*function)(void *data), void *data, const char *format, ...)
	__printf(3, 4);
/* Asks it to end, wakes it, waits, and gives what its function returned; -EINTR: it never began. */
int kthread_stop(struct task_struct *task);
bool kthread_should_stop(void);
struct task_struct *get_task_struct(struct task_struct *task);
void put_task_struct(struct task_struct *task);
WEFT_KENV_END

#define kthread_create(function, data, ...) weft_kenv_kthread(function, data, __VA_ARGS__)
#define kthread_create_on_node(function, data, node, ...) weft_kenv_kthread(function, data, __VA_ARGS__)
#define kthread_run(function, data, ...)                                                       \
	__extension__ ({                                                                                     \
		struct task_struct *weft_task = weft_kenv_kthread(function, data, __VA_ARGS__); \
		if (!IS_ERR(weft_task))                                                        \
			wake_up_process(weft_task);                                            \
		weft_task;                                                                     \
	})
#define kthread_bind(task, cpu) ((void)(task))
