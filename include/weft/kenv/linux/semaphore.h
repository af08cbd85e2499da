#pragma once

#include <linux/wait.h>

struct semaphore {
	unsigned int count;
	wait_queue_head_t wait;
};

#define __SEMAPHORE_INITIALIZER(name, n) { (n), __WAIT_QUEUE_HEAD_INITIALIZER((name).wait) }
#define DEFINE_SEMAPHORE(name, n) struct semaphore name = __SEMAPHORE_INITIALIZER(name, n)

WEFT_KENV_BEGIN
void sema_init(struct semaphore *sem, int count);
void down(struct semaphore *sem);
int __must_check down_interruptible(struct semaphore *sem);
/* 0: taken; unlike with mutexes. */
int __must_check down_trylock(struct semaphore *sem);
/* -ETIME: not in time. */
int __must_check down_timeout(struct semaphore *sem, long timeout);
void up(struct semaphore *sem);
WEFT_KENV_END

#define down_killable(sem) down_interruptible(sem)
