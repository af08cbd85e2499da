#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/lock.h"
#include "base/time.h"

namespace weft::core {

/// Where deferred work runs, as the kernel's contexts do. Work may sleep everywhere but in SoftIrq.
enum class WorkContext : std::uint8_t {
  SoftIrq,           ///< bounded batches that never sleep; one thread a vector
  WorkQueue,         ///< a thread of the vector's processor
  UnboundWorkQueue,  ///< any thread
};

enum class LogLevel : std::uint8_t { Debug, Info, Warning, Error };

/// Something that an environment can run once for each time it is posted. It belongs to whoever
/// posts it, and outlives its time in the environment's queues. Consumers use Work (core/work.h).
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual void run() = 0;

 protected:
  ~Task() = default;
};

/// What the core needs of the program that it is part of: a clock, threads or a substitute, and a
/// way to sleep. The same core runs with one thread in the simulator and in tests, and with many in
/// a live program. Everything may be called from any thread, without locks of the core held.
class Environment {
 public:
  virtual ~Environment() = default;

  /// None where only one thread ever calls the core and its tasks run inside wait_until() or
  /// between calls.
  [[nodiscard]] virtual LockPolicy lock_policy() const = 0;

  /// Processors that run tasks: at least 1.
  [[nodiscard]] virtual unsigned processor_count() const = 0;

  [[nodiscard]] virtual Instant now() const = 0;

  /// Runs `task` once, after `delay`, in a thread of `context` and of completion vector `vector`
  /// (ignored by UnboundWorkQueue). Never runs it inside this call. A task is posted at most once
  /// at a time.
  virtual void post(Task& task, WorkContext context, unsigned vector, Duration delay) = 0;

  /// Takes a posted task back. False: it has begun, or was not posted.
  virtual bool revoke(Task& task) = 0;

  /// Sleeps until `condition` holds, which is looked at in this thread, at first and whenever
  /// notify() was called. A single thread runs tasks and lets the rest of its world go on
  /// meanwhile. False: `deadline` passed and it still does not hold.
  virtual bool wait_until(const std::function<bool()>& condition, Instant deadline) = 0;

  /// Something that conditions look at has changed. Called without locks.
  virtual void notify() = 0;

  virtual void log(LogLevel level, std::string_view text) = 0;
};

}  // namespace weft::core
