#pragma once

/* Locks of threads. There are no interrupts: every form is the same lock. */

#include <linux/types.h>

typedef struct spinlock {
	struct weft_kenv_mutex lock;
} spinlock_t;

typedef spinlock_t raw_spinlock_t;

typedef struct {
	struct weft_kenv_rwlock lock;
} rwlock_t;

#define __SPIN_LOCK_UNLOCKED(name) { { { 0 } } }
#define DEFINE_SPINLOCK(name) spinlock_t name = __SPIN_LOCK_UNLOCKED(name)
#define DEFINE_RWLOCK(name) rwlock_t name = { { { 0 } } }

WEFT_KENV_BEGIN
void spin_lock_init(spinlock_t *lock);
void spin_lock(spinlock_t *lock);
int spin_trylock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
void rwlock_init(rwlock_t *lock);
void read_lock(rwlock_t *lock);
void read_unlock(rwlock_t *lock);
void write_lock(rwlock_t *lock);
void write_unlock(rwlock_t *lock);
WEFT_KENV_END

#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_bh(lock) spin_lock(lock)
#define spin_unlock_bh(lock) spin_unlock(lock)
#define spin_lock_nested(lock, subclass) spin_lock(lock)
#define spin_lock_irqsave(lock, flags) ((flags) = 0, spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))
#define read_lock_irqsave(lock, flags) ((flags) = 0, read_lock(lock))
#define read_unlock_irqrestore(lock, flags) ((void)(flags), read_unlock(lock))
#define write_lock_irqsave(lock, flags) ((flags) = 0, write_lock(lock))
#define write_unlock_irqrestore(lock, flags) ((void)(flags), write_unlock(lock))
#define read_lock_bh(lock) read_lock(lock)
#define read_unlock_bh(lock) read_unlock(lock)
#define write_lock_bh(lock) write_lock(lock)
#define write_unlock_bh(lock) write_unlock(lock)
#define raw_spin_lock(lock) spin_lock(lock)
#define raw_spin_unlock(lock) spin_unlock(lock)
#define lockdep_assert_held(lock) ((void)(lock))
#define local_irq_save(flags) ((flags) = 0)
#define local_irq_restore(flags) ((void)(flags))
#define in_interrupt() 0
#define in_atomic() 0
