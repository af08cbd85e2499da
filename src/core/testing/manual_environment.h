#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/environment.h"

namespace weft::core::testing {

/// An environment of one thread and a virtual clock, for tests and for whatever runs the core step
/// by step. Tasks run when run_one(), run_all() or wait_until() says so, in the order of their
/// times, then of their posting.
class ManualEnvironment final : public Environment {
 public:
  explicit ManualEnvironment(unsigned processors = 4) : processors_(processors) {}
  ~ManualEnvironment() override;

  // --- Environment
  [[nodiscard]] LockPolicy lock_policy() const override { return LockPolicy::None; }
  [[nodiscard]] unsigned processor_count() const override { return processors_; }
  [[nodiscard]] Instant now() const override { return now_; }
  void post(Task& task, WorkContext context, unsigned vector, Duration delay) override;
  bool revoke(Task& task) override;
  bool wait_until(const std::function<bool()>& condition, Instant deadline) override;
  void notify() override {}
  void log(LogLevel level, std::string_view text) override;

  /// Runs the first task that is due; false: none is.
  bool run_one();
  /// Runs all that are due and become so without the clock moving; at most `most`.
  void run_all(unsigned most = 1'000'000);
  /// Moves the clock on, and runs what becomes due on the way.
  void advance(Duration span);
  /// Moves the clock on, and runs nothing.
  void skip(Duration span) { now_ = now_ + span; }

  struct Posted {
    Task* task{};
    WorkContext context{};
    unsigned vector{};
    Instant at;
  };
  [[nodiscard]] const std::vector<Posted>& posted() const { return posted_; }

  /// The rest of the world, which goes on while somebody waits: does something, or returns false.
  std::function<bool()> world;

  struct Line {
    LogLevel level{};
    std::string text;
  };
  std::vector<Line> lines;  ///< of the log
  /// How many lines contain `text`.
  [[nodiscard]] std::size_t logged(std::string_view text) const;

 private:
  bool step(Instant until);

  unsigned processors_;
  Instant now_{Duration::seconds(1)};
  std::vector<Posted> posted_;
};

}  // namespace weft::core::testing
