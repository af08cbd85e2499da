// Wait queues, and what is made of them: completions and semaphores.

#include <linux/completion.h>
#include <linux/errno.h>
#include <linux/semaphore.h>
#include <linux/wait.h>

namespace {

constexpr unsigned kForAll = ~0U;

void enter(wait_queue_head_t& queue, wait_queue_entry_t& entry) {
  if (!list_empty(&entry.entry)) {
    return;
  }
  // Those that wake all come first, so that the first exclusive one ends the walk.
  if (entry.is_exclusive) {
    list_add_tail(&entry.entry, &queue.head);
  } else {
    list_add(&entry.entry, &queue.head);
  }
}

void prepare(wait_queue_head_t& queue, wait_queue_entry_t& entry, int state) {
  spin_lock(&queue.lock);
  enter(queue, entry);
  weft_kenv_set_state(static_cast<unsigned>(state));
  spin_unlock(&queue.lock);
}

/// Takes one of `count` (kForAll stays), or waits for it.
long take(unsigned& count, wait_queue_head_t& queue, int state, long timeout) {
  wait_queue_entry_t entry{.task = weft_kenv_current(), .is_exclusive = true, .entry = {}};
  INIT_LIST_HEAD(&entry.entry);
  long left = timeout;
  long result = 0;
  for (;;) {
    prepare_to_wait_exclusive(&queue, &entry, state);
    spin_lock(&queue.lock);
    const bool is_there = count != 0;
    if (is_there && count != kForAll) {
      --count;
    }
    spin_unlock(&queue.lock);
    if (is_there) {
      result = left > 0 ? left : 1;
      break;
    }
    if (state == TASK_INTERRUPTIBLE && signal_pending(weft_kenv_current()) != 0) {
      result = -ERESTARTSYS;
      break;
    }
    if (left <= 0) {
      break;
    }
    left = schedule_timeout(left);
  }
  finish_wait(&queue, &entry);
  return result;
}

}  // namespace

void init_waitqueue_head(wait_queue_head_t* queue) {
  spin_lock_init(&queue->lock);
  INIT_LIST_HEAD(&queue->head);
}

void add_wait_queue(wait_queue_head_t* queue, wait_queue_entry_t* entry) {
  spin_lock(&queue->lock);
  enter(*queue, *entry);
  spin_unlock(&queue->lock);
}

void remove_wait_queue(wait_queue_head_t* queue, wait_queue_entry_t* entry) {
  spin_lock(&queue->lock);
  list_del_init(&entry->entry);
  spin_unlock(&queue->lock);
}

void prepare_to_wait(wait_queue_head_t* queue, wait_queue_entry_t* entry, int state) {
  entry->is_exclusive = false;
  prepare(*queue, *entry, state);
}

void prepare_to_wait_exclusive(wait_queue_head_t* queue, wait_queue_entry_t* entry, int state) {
  entry->is_exclusive = true;
  prepare(*queue, *entry, state);
}

void finish_wait(wait_queue_head_t* queue, wait_queue_entry_t* entry) {
  weft_kenv_set_state(TASK_RUNNING);
  // Always under the lock: who wakes has it until it is done with the entry, and with the queue.
  remove_wait_queue(queue, entry);
}

void weft_kenv_wake_up_locked(wait_queue_head_t* queue, unsigned states, int exclusive) {
  wait_queue_entry_t* entry = nullptr;
  list_for_each_entry(entry, &queue->head, entry) {
    if (weft_kenv_wake(entry->task, states) != 0 && entry->is_exclusive && exclusive > 0 &&
        --exclusive == 0) {
      return;
    }
  }
}

void __wake_up(wait_queue_head_t* queue, unsigned states, int exclusive, void* /*key*/) {
  spin_lock(&queue->lock);
  weft_kenv_wake_up_locked(queue, states, exclusive);
  spin_unlock(&queue->lock);
}

bool waitqueue_active(wait_queue_head_t* queue) {
  spin_lock(&queue->lock);
  const bool is_active = !list_empty(&queue->head);
  spin_unlock(&queue->lock);
  return is_active;
}

void init_completion(struct completion* x) {
  x->done = 0;
  init_waitqueue_head(&x->wait);
}

void reinit_completion(struct completion* x) {
  spin_lock(&x->wait.lock);
  x->done = 0;
  spin_unlock(&x->wait.lock);
}

void complete(struct completion* x) {
  spin_lock(&x->wait.lock);
  if (x->done != kForAll) {
    ++x->done;
  }
  weft_kenv_wake_up_locked(&x->wait, TASK_NORMAL, 1);
  spin_unlock(&x->wait.lock);
}

void complete_all(struct completion* x) {
  spin_lock(&x->wait.lock);
  x->done = kForAll;
  weft_kenv_wake_up_locked(&x->wait, TASK_NORMAL, 0);
  spin_unlock(&x->wait.lock);
}

bool try_wait_for_completion(struct completion* x) {
  spin_lock(&x->wait.lock);
  const bool is_done = x->done != 0;
  if (is_done && x->done != kForAll) {
    --x->done;
  }
  spin_unlock(&x->wait.lock);
  return is_done;
}

bool completion_done(struct completion* x) {
  spin_lock(&x->wait.lock);
  const bool is_done = x->done != 0;
  spin_unlock(&x->wait.lock);
  return is_done;
}

long weft_kenv_wait_for_completion(struct completion* x, int state, long timeout) {
  return take(x->done, x->wait, state, timeout);
}

void sema_init(struct semaphore* sem, int count) {
  sem->count = static_cast<unsigned>(count);
  init_waitqueue_head(&sem->wait);
}

void down(struct semaphore* sem) {
  static_cast<void>(take(sem->count, sem->wait, TASK_UNINTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT));
}

int down_interruptible(struct semaphore* sem) {
  return take(sem->count, sem->wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT) < 0 ? -EINTR : 0;
}

int down_trylock(struct semaphore* sem) {
  spin_lock(&sem->wait.lock);
  const bool is_free = sem->count != 0;
  if (is_free) {
    --sem->count;
  }
  spin_unlock(&sem->wait.lock);
  return is_free ? 0 : 1;
}

int down_timeout(struct semaphore* sem, long timeout) {
  return take(sem->count, sem->wait, TASK_UNINTERRUPTIBLE, timeout) == 0 ? -ETIME : 0;
}

void up(struct semaphore* sem) {
  spin_lock(&sem->wait.lock);
  ++sem->count;
  weft_kenv_wake_up_locked(&sem->wait, TASK_NORMAL, 1);
  spin_unlock(&sem->wait.lock);
}
