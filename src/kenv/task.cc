// Tasks that sleep and are woken, and threads of modules.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/sched.h>

struct weft_kenv_thread {
  std::mutex mutex;  // of what follows
  std::condition_variable changes;
  unsigned state{TASK_RUNNING};
  // Of kthreads only:
  int (*function)(void*){};
  void* data{};
  bool should_stop{};
  bool has_ended{};
  int result{};
  std::atomic<int> references{1};  // the thread's own
};

namespace {

/// A task with what the environment keeps of it.
struct Task {
  task_struct shown{};
  weft_kenv_thread kept;
  Task() { shown.thread = &kept; }
};

thread_local task_struct* the_current = nullptr;

[[nodiscard]] bool has_signal(const task_struct& task) {
  return __atomic_load_n(&task.is_signalled, __ATOMIC_ACQUIRE);
}

/// With its mutex: nothing that it sleeps for any more.
[[nodiscard]] bool may_run(const task_struct& task) {
  const unsigned state = task.thread->state;
  return state == TASK_RUNNING || ((state & TASK_INTERRUPTIBLE) != 0 && has_signal(task));
}

void name_thread(const task_struct& task) { pthread_setname_np(pthread_self(), &task.comm[0]); }

void serve_kthread(task_struct* task) {
  the_current = task;
  task->pid = gettid();
  name_thread(*task);
  schedule();  // until it is woken for the first time
  weft_kenv_thread& own = *task->thread;
  bool is_stopped = false;
  {
    const std::lock_guard lock{own.mutex};
    is_stopped = own.should_stop;
  }
  const int result = is_stopped ? -EINTR : own.function(own.data);
  {
    const std::lock_guard lock{own.mutex};
    own.result = result;
    own.has_ended = true;
    own.changes.notify_all();
  }
  put_task_struct(task);
}

}  // namespace

task_struct* weft_kenv_current() {
  if (the_current == nullptr) {
    static thread_local Task own;
    own.shown.pid = gettid();
    pthread_getname_np(pthread_self(), &own.shown.comm[0], TASK_COMM_LEN);
    the_current = &own.shown;
  }
  return the_current;
}

int weft_kenv_wake(task_struct* task, unsigned states) {
  weft_kenv_thread& own = *task->thread;
  const std::lock_guard lock{own.mutex};
  if ((own.state & states) == 0) {
    return 0;
  }
  own.state = TASK_RUNNING;
  own.changes.notify_all();
  return 1;
}

int wake_up_process(task_struct* task) { return weft_kenv_wake(task, TASK_NORMAL); }

void weft_kenv_set_state(unsigned state) {
  weft_kenv_thread& own = *weft_kenv_current()->thread;
  const std::lock_guard lock{own.mutex};
  own.state = state;
}

void schedule() { static_cast<void>(schedule_timeout(MAX_SCHEDULE_TIMEOUT)); }

long schedule_timeout(long timeout) {
  task_struct& task = *weft_kenv_current();
  weft_kenv_thread& own = *task.thread;
  std::unique_lock lock{own.mutex};
  const auto runs = [&] { return may_run(task); };
  if (timeout == MAX_SCHEDULE_TIMEOUT) {
    own.changes.wait(lock, runs);
    own.state = TASK_RUNNING;
    return timeout;
  }
  const unsigned long end = jiffies + static_cast<unsigned long>(std::max(timeout, 0L));
  own.changes.wait_for(lock, std::chrono::milliseconds{std::max(timeout, 0L)}, runs);
  own.state = TASK_RUNNING;
  return std::max(static_cast<long>(end - jiffies), 0L);
}

void weft_kenv_signal(task_struct* task) {
  weft_kenv_thread& own = *task->thread;
  const std::lock_guard lock{own.mutex};
  __atomic_store_n(&task->is_signalled, true, __ATOMIC_RELEASE);
  own.changes.notify_all();
}

void cond_resched() { std::this_thread::yield(); }

unsigned weft_kenv_processors() { return std::max(std::thread::hardware_concurrency(), 1U); }

task_struct* weft_kenv_kthread(int (*function)(void* data), void* data, const char* format, ...) {
  std::unique_ptr<Task> made{new (std::nothrow) Task};
  if (made == nullptr) {
    return static_cast<task_struct*>(ERR_PTR(-ENOMEM));
  }
  va_list arguments;
  va_start(arguments, format);
  vscnprintf(&made->shown.comm[0], TASK_COMM_LEN, format, arguments);
  va_end(arguments);
  made->kept.state = TASK_UNINTERRUPTIBLE;
  made->kept.function = function;
  made->kept.data = data;
  try {
    std::thread{serve_kthread, &made->shown}.detach();
  } catch (const std::system_error&) {
    return static_cast<task_struct*>(ERR_PTR(-EAGAIN));
  }
  return &made.release()->shown;
}

int kthread_stop(task_struct* task) {
  get_task_struct(task);
  weft_kenv_thread& own = *task->thread;
  int result = 0;
  {
    std::unique_lock lock{own.mutex};
    own.should_stop = true;
    own.state = TASK_RUNNING;
    own.changes.notify_all();
    own.changes.wait(lock, [&] { return own.has_ended; });
    result = own.result;
  }
  put_task_struct(task);
  return result;
}

bool kthread_should_stop() {
  weft_kenv_thread& own = *weft_kenv_current()->thread;
  const std::lock_guard lock{own.mutex};
  return own.should_stop;
}

task_struct* get_task_struct(task_struct* task) {
  ++task->thread->references;
  return task;
}

void put_task_struct(task_struct* task) {
  if (--task->thread->references == 0) {
    // What is shown is a task's first member.
    std::unique_ptr<Task>{static_cast<Task*>(static_cast<void*>(task))}.reset();
  }
}
