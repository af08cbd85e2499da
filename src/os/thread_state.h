#pragma once

// What the kernel says of a thread of another process of the same user (proc_pid_status(5)).

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>

namespace weft::os {

struct ThreadState {
  bool is_gone{};
  bool is_runnable{};        ///< it runs, or waits for nothing but a CPU
  std::uint64_t switches{};  ///< how often it has left a CPU
};

/// Nothing: that cannot be known.
[[nodiscard]] std::optional<ThreadState> thread_state(pid_t process, std::uint32_t thread);

/// The same, of a text in the kernel's form; for tests.
[[nodiscard]] std::optional<ThreadState> read_thread_state(std::istream& status);

/// Decides from looks at a thread, the first of which comes after a word was changed, whether it
/// has been interrupted since then: what it had begun by os::copy_while_live() is then over.
///
/// A thread that is switched out after the first look is counted. One that has been off its CPU
/// from before it is not counted any more, but is found waiting or stopped again and again: twice,
/// for between its change of state and its leaving the CPU are some hundred instructions, in which
/// the first look may have come.
class InterruptionWatch {
 public:
  [[nodiscard]] bool has_been_interrupted(const ThreadState& now) {
    if (now.is_gone) {
      return true;
    }
    if (!first_) {
      first_ = now;
      return false;
    }
    return now.switches != first_->switches || (!now.is_runnable && !first_->is_runnable);
  }

 private:
  std::optional<ThreadState> first_;
};

}  // namespace weft::os
