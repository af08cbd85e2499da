#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "ring/testing/choices.h"
#include "ring/testing/memory_model.h"

namespace weft::ring::testing {

/// Runs a small scenario of some fibers over shared words in many interleavings
/// (docs/ARCHITECTURE.md, decision 13). Every load, store, exchange, fence and copy through
/// ExploredAtomics is a step at which another fiber may be scheduled, and every load may see any
/// value that MemoryModel permits.
///
/// In the default run no fiber is preempted and loads see the newest value. Each preemption and
/// each old value seen is a deviation. `every()` tries all runs up to a number of deviations, depth
/// first; `at_random()` is not bounded. A run is determined by its choices, so failures are
/// reproducible.
///
/// A scenario is a function called for each run: it allocates memory, declares what is shared, and
/// adds fibers. Accesses outside fibers go to the memory directly. Fibers must not keep objects on
/// their stack that need destruction, because a failed run is abandoned. One explorer per process
/// at a time.
class Explorer {
 public:
  using Scenario = std::function<void(Explorer&)>;
  struct Limits {
    std::size_t deviations;
    std::uint64_t runs;
  };
  struct Report {
    std::uint64_t runs{};
    bool is_complete{};   // every run within the bound was tried
    std::string failure;  // the first one and the run that led to it; empty when all went well
  };

  [[nodiscard]] static Report every(const Scenario& scenario, Limits limits) {
    return Explorer{Choices::every(limits.deviations)}.explore(scenario, limits.runs);
  }
  [[nodiscard]] static Report at_random(const Scenario& scenario, std::uint64_t seed,
                                        std::uint64_t runs) {
    return Explorer{Choices::at_random(seed)}.explore(scenario, runs);
  }

  // For scenarios.
  void share(std::string_view name, std::span<const std::byte> memory) {
    shared_.push_back({name, memory});
  }
  template <class Object>
    requires(!std::convertible_to<const Object&, std::span<const std::byte>>)
  void share(std::string_view name, const Object& object) {
    share(name, std::as_bytes(std::span{&object, 1}));
  }
  void add_fiber(std::string_view name, std::function<void()> body) {
    WEFT_ASSERT(fibers_.size() < kMaxFibers, "a scenario has few threads");
    fibers_.emplace_back().name = name;
    fibers_.back().body = std::move(body);
  }

  // For fibers.
  static Explorer* running() { return running_; }

  void check(bool holds, std::string_view claim) {
    if (!holds) {
      fail("not so: ", claim);
    }
  }

  /// Waits until another fiber stores something.
  void pause() { block(State::Paused); }

  /// The futex call: sleeps until wake(word), unless the word holds something else now. A sleep
  /// that `is_bounded` is over when nobody else goes on: false, then.
  bool sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                   bool is_bounded = false) {
    step();
    const std::uint64_t now = newest(word);
    note("asks to sleep, if unchanged", word_of(word),
         {.value = now, .age = 0, .racing_fiber = {}});
    if (now == value) {
      fibers_[current_].sleeps_on = &word;
      fibers_[current_].is_bounded = is_bounded;
      block(State::Asleep);
      return !std::exchange(fibers_[current_].is_over, false);
    }
    return true;
  }
  void wake(const std::atomic<std::uint32_t>& word) {
    step();
    note("wakes who sleeps on", word_of(word), MemoryModel::Access{});
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::Asleep && fiber.sleeps_on == &word) {
        fiber.state = State::Ready;
      }
    }
  }

  /// What was last stored, for a check: no step, and nothing that the fiber knows then.
  template <class Value>
  [[nodiscard]] std::uint64_t newest(const std::atomic<Value>& word) {
    return memory_.newest(word_of(word));
  }

  // For ExploredAtomics.
  using Word = MemoryModel::Word;
  template <class Value>
  [[nodiscard]] static Word word_of(const std::atomic<Value>& word) {
    return {.at = &word, .bytes = sizeof(Value)};
  }
  std::uint64_t load(Word word, std::memory_order order) {
    step();
    const auto pick = [this](std::size_t count) { return choices_.choose(count, false); };
    return note("loads", word, memory_.load(current_, word, order, pick));
  }
  void store(Word word, std::uint64_t value, std::memory_order order) {
    step();
    note(order == std::memory_order_relaxed ? "stores relaxed" : "stores", word,
         memory_.store(current_, word, value, order));
    ++stores_;
    end_pauses();
  }
  template <class Change>
  std::uint64_t modify(Word word, Change change, std::memory_order order) {
    step();
    ++stores_;
    end_pauses();
    return note("changes", word, memory_.modify(current_, word, change, order));
  }
  void fence() {
    step();
    memory_.fence(current_);
  }
  /// Copies whole words into or out of shared memory.
  void copy(std::byte* to, const std::byte* from, std::size_t count) {
    WEFT_ASSERT(count % sizeof(std::uint32_t) == 0 &&
                    (region_of(to) == nullptr) != (region_of(from) == nullptr),
                "the explorer is used as it is meant");
    step();
    const bool is_write = region_of(to) != nullptr;
    for (std::size_t at = 0; at < count; at += sizeof(std::uint32_t)) {
      std::uint32_t value = 0;
      const Word word{.at = (is_write ? to : from) + at, .bytes = sizeof value};
      if (is_write) {
        std::memcpy(&value, from + at, sizeof value);
        note("writes", word, memory_.write_plain(current_, word, value));
      } else {
        value = static_cast<std::uint32_t>(note("reads", word, memory_.read_plain(current_, word)));
        std::memcpy(to + at, &value, sizeof value);
      }
    }
  }

 private:
  static constexpr std::size_t kStackBytes = std::size_t{1} << 16U;
  static constexpr std::size_t kMaxSteps = 10'000;  // of a run; policy
  static constexpr std::size_t kOutside = kMaxFibers;

  enum class State : std::uint8_t { Ready, Paused, Asleep, Finished };
  struct Fiber {
    std::string_view name;
    std::function<void()> body;
    State state{State::Ready};
    const void* sleeps_on{};
    bool is_bounded{};  // its sleep
    bool is_over{};     // a bounded sleep ended by itself
  };
  struct Region {
    std::string_view name;
    std::span<const std::byte> memory;
  };
  struct Event {
    std::size_t fiber;
    std::string_view what;
    const void* word;
    MemoryModel::Access access;
  };

  explicit Explorer(Choices choices)
      : stacks_(kMaxFibers, std::vector<std::byte>(kStackBytes)), choices_(std::move(choices)) {}

  Report explore(const Scenario& scenario, std::uint64_t runs) {
    Report report;
    do {
      report.failure = run(scenario);
      ++report.runs;
      report.is_complete = !choices_.go_on();
    } while (report.failure.empty() && !report.is_complete && report.runs < runs);
    return report;
  }

  std::string run(const Scenario& scenario) {
    fibers_.clear();
    shared_.clear();
    events_.clear();
    failure_.clear();
    memory_ = {};
    steps_ = stores_ = revealed_ = 0;
    scenario(*this);
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      make_context(contexts_[i], stacks_[i]);
    }
    running_ = this;
    switch_to(next_ready());
    running_ = nullptr;
    for (const Fiber& fiber : fibers_) {
      if (failure_.empty() && fiber.state != State::Finished) {
        failure_ = std::string{fiber.name} +
                   (fiber.state == State::Asleep ? " sleeps for ever" : " waits for ever");
      }
    }
    return failure_.empty() ? "" : failure_ + "\n" + trace();
  }

  /// A separate function, because getcontext() returns twice.
  [[gnu::noinline]] static void make_context(ucontext_t& context, std::span<std::byte> stack) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack.data();
    context.uc_stack.ss_size = stack.size();
    makecontext(&context, &Explorer::enter, 0);
  }

  static void enter() {
    Explorer& self = *running_;
    self.fibers_[self.current_].body();
    self.block(State::Finished);
  }

  /// A scheduling point: another fiber may continue here.
  void step() {
    if (++steps_ > kMaxSteps) {
      fail("the run does not end", "");
    }
    std::array<std::size_t, kMaxFibers> ready{current_};
    std::size_t count = 1;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      if (i != current_ && fibers_[i].state == State::Ready) {
        ready.at(count++) = i;
      }
    }
    switch_to(ready.at(choices_.choose(count, false)));
  }

  void block(State state) {
    fibers_[current_].state = state;
    switch_to(next_ready());
  }

  std::size_t next_ready() {
    std::vector<std::size_t> ready;
    const auto collect = [&] {
      for (std::size_t i = 0; i < fibers_.size(); ++i) {
        if (fibers_[i].state == State::Ready) {
          ready.push_back(i);
        }
      }
    };
    collect();
    if (ready.empty() && revealed_ != stores_) {
      revealed_ = stores_;
      memory_.reveal();
      end_pauses();
      collect();
    }
    if (ready.empty() && end_bounded_sleeps()) {
      collect();
    }
    return ready.empty() ? kOutside : ready[choices_.choose(ready.size(), true)];
  }

  void switch_to(std::size_t next) {
    if (next != current_) {
      const std::size_t before = std::exchange(current_, next);
      swapcontext(&contexts_.at(before), &contexts_.at(next));
    }
  }

  /// Ends the run; does not come back.
  void fail(std::string_view what, std::string_view details) {
    failure_.assign(what).append(details);
    switch_to(kOutside);
  }

  void end_pauses() {
    for (Fiber& fiber : fibers_) {
      fiber.state = fiber.state == State::Paused ? State::Ready : fiber.state;
    }
  }

  bool end_bounded_sleeps() {
    bool any = false;
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::Asleep && fiber.is_bounded) {
        fiber.state = State::Ready;
        fiber.is_over = any = true;
      }
    }
    return any;
  }

  [[nodiscard]] const Region* region_of(const void* word) const {
    const auto* const byte = static_cast<const std::byte*>(word);
    const auto found = std::ranges::find_if(shared_, [byte](const Region& region) {
      const auto begin = region.memory.data();
      return std::less_equal<>{}(begin, byte) && std::less<>{}(byte, begin + region.memory.size());
    });
    return found == shared_.end() ? nullptr : &*found;
  }

  std::uint64_t note(std::string_view what, Word word, MemoryModel::Access access) {
    WEFT_ASSERT(region_of(word.at) != nullptr, "the explorer is used as it is meant");
    events_.push_back({.fiber = current_, .what = what, .word = word.at, .access = access});
    if (access.racing_fiber) {
      fail("a data race with ", fibers_[*access.racing_fiber].name);
    }
    return access.value;
  }

  /// The trace of the run, a line per step.
  [[nodiscard]] std::string trace() const {
    std::string text;
    for (const Event& event : events_) {
      const Region& region = *region_of(event.word);
      const auto at = static_cast<const std::byte*>(event.word) - region.memory.data();
      text.append("  ").append(fibers_[event.fiber].name).append(" ").append(event.what);
      text.append(" ").append(region.name).append("+").append(std::to_string(at));
      text.append(": ").append(std::to_string(event.access.value));
      text += event.access.age == 0 ? "\n" : ", an old value\n";
    }
    return text;
  }

  static inline Explorer* running_ = nullptr;

  // Of the exploration.
  std::vector<std::vector<std::byte>> stacks_;
  std::array<ucontext_t, kMaxFibers + 1> contexts_{};
  Choices choices_;

  // Of this run.
  std::vector<Fiber> fibers_;
  std::vector<Region> shared_;
  std::vector<Event> events_;
  MemoryModel memory_;
  std::string failure_;
  std::size_t current_{kOutside};
  std::size_t steps_{};
  std::uint64_t stores_{};
  std::uint64_t revealed_{};  // stores_ when all stores were last made visible
};

}  // namespace weft::ring::testing
