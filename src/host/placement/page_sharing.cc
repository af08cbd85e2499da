#include "host/placement/page_sharing.h"

#include <dirent.h>
#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <utility>

#include "base/sanitizers.h"
#include "base/time.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// How long our own threads may take to come where they can be held: microseconds, but for a
/// machine in trouble. Policy.
constexpr Duration kMostWait = Duration::seconds(1);

/// Threads of this process; 0: unknown.
[[nodiscard]] std::size_t count_threads() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{opendir("/proc/self/task"), closedir};
  if (folder == nullptr) {
    return 0;
  }
  std::size_t count = 0;
  while (const dirent* const entry = readdir(folder.get())) {
    count += entry->d_name[0] != '.' ? 1 : 0;
  }
  return count;
}

/// While this exists, nobody but the calling thread writes memory of the program, if is_alone().
class ThreadsHeld {
 public:
  explicit ThreadsHeld(const PageSharing::Parts& parts) : parts_(parts) {
    const std::size_t own =
        (parts.daemon.has_thread() ? 1U : 0U) + (parts.thread.has_thread() ? 1U : 0U);
    if (count_threads() != own + 1) {
      return;
    }
    holds_daemon_ = parts.daemon.request_hold();
    holds_progress_ = parts.thread.request_hold();
    const Instant limit = os::now() + kMostWait;
    while (!are_held() && os::now() < limit) {
      constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000};
      nanosleep(&kPause, nullptr);
    }
    is_alone_ = are_held();
  }
  ~ThreadsHeld() {
    if (holds_daemon_) {
      parts_.daemon.release_hold();
    }
    if (holds_progress_) {
      parts_.thread.release_hold();
    }
  }
  ThreadsHeld(const ThreadsHeld&) = delete;
  ThreadsHeld& operator=(const ThreadsHeld&) = delete;

  [[nodiscard]] bool is_alone() const { return is_alone_; }

 private:
  [[nodiscard]] bool are_held() const {
    return (!holds_daemon_ || parts_.daemon.is_held()) &&
           (!holds_progress_ || parts_.thread.is_held());
  }

  const PageSharing::Parts& parts_;
  bool holds_daemon_{};
  bool holds_progress_{};
  bool is_alone_{};
};

/// Those of this process, for fork(2). The lock is held while it forks, so that it is free in the
/// child.
struct Instances {
  std::mutex lock;
  std::vector<PageSharing*> all;
};
[[nodiscard]] Instances& instances() {
  static auto& known = *new Instances;  // never destroyed: a program may fork while it exits
  return known;
}

void before_fork() {
  instances().lock.lock();
  std::ranges::for_each(instances().all, [](PageSharing* each) { each->end(); });
}
void after_fork() { instances().lock.unlock(); }

}  // namespace

void PageSharing::turn_on() {
  static const bool is_told = pthread_atfork(before_fork, after_fork, after_fork) == 0;
  is_on_ = is_told;
  began_ = os::now();
  const std::lock_guard guard{instances().lock};
  instances().all.push_back(this);
}

PageSharing::~PageSharing() {
  const std::lock_guard guard{instances().lock};
  std::erase(instances().all, this);
}

bool PageSharing::may_share(std::span<const std::byte> memory, Instant now) const {
#if WEFT_THREAD_SANITIZER
  return false;  // it knows memory by mappings that it has seen (os/tsan_mapping.h)
#endif
  return is_on_ && tries_ < kMostTries && memory.size() <= kMostBytes &&
         bytes_ + memory.size() <= kMostAtOnce &&
         spent_ <= kFreeTime + (now - began_) / kShareOfTime &&
         std::ranges::none_of(
             shared_, [&](const Shared& each) { return each.pages.overlaps(memory); });
}

void PageSharing::share(const void* region, std::span<const std::byte> memory) {
  const std::lock_guard guard{lock_};
  const auto there =
      std::ranges::find_if(shared_, [&](const Shared& each) { return each.pages.covers(memory); });
  if (there != shared_.end()) {
    there->regions.insert(region);
    return;
  }
  const Instant start = os::now();
  if (!may_share(memory, start)) {
    return;
  }
  {
    const ThreadsHeld held{parts_};
    if (!held.is_alone()) {
      return;
    }
    parts_.placements.withdraw();  // or a peer may be writing to regions of the same pages
    ++tries_;
    if (auto pages = os::ShareablePages::make(memory)) {
      bytes_ += pages->size();
      shared_.push_back({.pages = std::move(*pages), .regions = {region}});
    }
  }
  spent_ = spent_ + (os::now() - start);
}

void PageSharing::forget(const void* region) {
  const std::lock_guard guard{lock_};
  const auto of = std::ranges::find_if(
      shared_, [&](const Shared& each) { return each.regions.contains(region); });
  if (of == shared_.end()) {
    return;
  }
  of->regions.erase(region);
  if (of->regions.empty()) {
    const Instant start = os::now();
    give_back(*of);
    bytes_ -= of->pages.size();
    shared_.erase(of);
    spent_ = spent_ + (os::now() - start);
  }
}

void PageSharing::give_back(Shared& shared) {
  const ThreadsHeld held{parts_};
  parts_.placements.withdraw();
  if (held.is_alone()) {
    shared.pages.restore();
  } else {
    shared.pages.make_private();
  }
}

void PageSharing::end() {
  const std::lock_guard guard{lock_};
  if (shared_.empty()) {
    return;
  }
  std::vector<const void*> regions;
  for (const Shared& each : shared_) {
    regions.insert(regions.end(), each.regions.begin(), each.regions.end());
  }
  parts_.placements.unshare(regions, [this] {
    std::ranges::for_each(shared_, [](Shared& each) { each.pages.make_private(); });
  });
  shared_.clear();
  bytes_ = 0;
}

}  // namespace weft::host
