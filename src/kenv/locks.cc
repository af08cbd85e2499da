// Locks: the operating system's, in the memory of the kernel's names.

#include <pthread.h>

#include <cerrno>

#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>

#include "base/assert.h"

namespace {

static_assert(sizeof(weft_kenv_mutex) >= sizeof(pthread_mutex_t));
static_assert(sizeof(weft_kenv_rwlock) >= sizeof(pthread_rwlock_t));

[[nodiscard]] pthread_mutex_t* own(weft_kenv_mutex& lock) {
  return static_cast<pthread_mutex_t*>(static_cast<void*>(&lock));
}

[[nodiscard]] pthread_rwlock_t* own(weft_kenv_rwlock& lock) {
  return static_cast<pthread_rwlock_t*>(static_cast<void*>(&lock));
}

void take(weft_kenv_mutex& lock) {
  const int error = pthread_mutex_lock(own(lock));
  WEFT_ASSERT(error == 0, "a lock that was initialised, and that is not destroyed");
}

void give(weft_kenv_mutex& lock) {
  const int error = pthread_mutex_unlock(own(lock));
  WEFT_ASSERT(error == 0, "a lock is given back by who has it");
}

}  // namespace

void spin_lock_init(spinlock_t* lock) { pthread_mutex_init(own(lock->lock), nullptr); }
void spin_lock(spinlock_t* lock) { take(lock->lock); }
int spin_trylock(spinlock_t* lock) { return pthread_mutex_trylock(own(lock->lock)) == 0 ? 1 : 0; }
void spin_unlock(spinlock_t* lock) { give(lock->lock); }

void mutex_init(struct mutex* lock) { pthread_mutex_init(own(lock->lock), nullptr); }

void mutex_destroy(struct mutex* lock) {
  const int error = pthread_mutex_destroy(own(lock->lock));
  WEFT_ASSERT(error == 0, "nobody has a mutex that is destroyed");
}

void mutex_lock(struct mutex* lock) { take(lock->lock); }

int mutex_trylock(struct mutex* lock) {
  return pthread_mutex_trylock(own(lock->lock)) == 0 ? 1 : 0;
}

void mutex_unlock(struct mutex* lock) { give(lock->lock); }

bool mutex_is_locked(struct mutex* lock) {
  if (mutex_trylock(lock) == 0) {
    return true;
  }
  mutex_unlock(lock);
  return false;
}

void rwlock_init(rwlock_t* lock) { pthread_rwlock_init(own(lock->lock), nullptr); }
void read_lock(rwlock_t* lock) { pthread_rwlock_rdlock(own(lock->lock)); }
void read_unlock(rwlock_t* lock) { pthread_rwlock_unlock(own(lock->lock)); }
void write_lock(rwlock_t* lock) { pthread_rwlock_wrlock(own(lock->lock)); }
void write_unlock(rwlock_t* lock) { pthread_rwlock_unlock(own(lock->lock)); }

void init_rwsem(struct rw_semaphore* lock) { pthread_rwlock_init(own(lock->lock), nullptr); }
void down_read(struct rw_semaphore* lock) { pthread_rwlock_rdlock(own(lock->lock)); }

int down_read_trylock(struct rw_semaphore* lock) {
  return pthread_rwlock_tryrdlock(own(lock->lock)) == 0 ? 1 : 0;
}

void up_read(struct rw_semaphore* lock) { pthread_rwlock_unlock(own(lock->lock)); }
void down_write(struct rw_semaphore* lock) { pthread_rwlock_wrlock(own(lock->lock)); }

int down_write_trylock(struct rw_semaphore* lock) {
  return pthread_rwlock_trywrlock(own(lock->lock)) == 0 ? 1 : 0;
}

void up_write(struct rw_semaphore* lock) { pthread_rwlock_unlock(own(lock->lock)); }
