#pragma once

#include <linux/types.h>

struct mutex {
	struct weft_kenv_mutex lock;
};

#define __MUTEX_INITIALIZER(name) { { { 0 } } }
#define DEFINE_MUTEX(name) struct mutex name = __MUTEX_INITIALIZER(name)

WEFT_KENV_BEGIN
void mutex_init(struct mutex *lock);
void mutex_destroy(struct mutex *lock);
void mutex_lock(struct mutex *lock);
/* 1: it is the caller's now. */
int mutex_trylock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
bool mutex_is_locked(struct mutex *lock);
WEFT_KENV_END

#define mutex_lock_nested(lock, subclass) mutex_lock(lock)

/* Whoever holds a mutex gives it back in bounded time, so that there is nothing to interrupt. */
static inline int __must_check mutex_lock_interruptible(struct mutex *lock)
{
	mutex_lock(lock);
	return 0;
}

static inline int __must_check mutex_lock_killable(struct mutex *lock)
{
	mutex_lock(lock);
	return 0;
}
