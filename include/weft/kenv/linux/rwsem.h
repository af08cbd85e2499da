#pragma once

#include <linux/types.h>

struct rw_semaphore {
	struct weft_kenv_rwlock lock;
};

#define DECLARE_RWSEM(name) struct rw_semaphore name = { { { 0 } } }

WEFT_KENV_BEGIN
void init_rwsem(struct rw_semaphore *lock);
void down_read(struct rw_semaphore *lock);
int down_read_trylock(struct rw_semaphore *lock);
void up_read(struct rw_semaphore *lock);
void down_write(struct rw_semaphore *lock);
int down_write_trylock(struct rw_semaphore *lock);
void up_write(struct rw_semaphore *lock);
WEFT_KENV_END
