#include "kernel/process_memory.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "kernel/host.h"
#include "os/process_pages.h"

namespace weft::kernel {
namespace {

/// The ways to try, the best first.
[[nodiscard]] std::vector<Paging> ways(std::optional<Paging> wanted) {
  if (wanted) {
    return {*wanted};
  }
  const char* const chosen = std::getenv("WEFT_USERFAULTFD");
  if (chosen != nullptr && std::string_view{chosen} == "0") {
    return {Paging::Told};
  }
  return {Paging::AllFaults, Paging::ProgramFaults};
}

}  // namespace

std::uint32_t ProcessMemory::page_size() const { return os::page_size(); }

std::uint64_t ProcessMemory::lock_limit() const { return os::lock_limit(); }

Result<Paging> ProcessMemory::start_paging() {
  const std::lock_guard lock{mutex_};
  if (std::exchange(is_started_, true)) {
    return paging_;
  }
  for (const Paging way : ways(wanted_)) {
    paging_ = way;
    if (way == Paging::Told) {
      break;
    }
    auto started =
        PageEvents::start(way == Paging::AllFaults ? os::FaultsOf::All : os::FaultsOf::Programs,
                          [this](const os::MemoryMessage& change) { take(change); });
    if (started) {
      started_ = *std::move(started);
      events_.store(started_.get(), std::memory_order_release);
      break;
    }
    paging_ = std::unexpected(started.error());
  }
  return paging_;
}

const char* ProcessMemory::unheard() {
  static_cast<void>(start_paging());
  if (events() != nullptr) {
    return nullptr;
  }
  const std::lock_guard lock{mutex_};  // what is started once does not change
  return paging_ ? "WEFT_USERFAULTFD=0 is set" : paging_.error().reason.c_str();
}

std::uint64_t ProcessMemory::faults() const {
  const PageEvents* const heard = events();
  return heard != nullptr ? heard->faults() : 0;
}

bool ProcessMemory::settle() {
  PageEvents* const heard = events();
  return heard == nullptr || heard->settle();
}

/// Pages are watched when they are mapped for a device, not before: in a range that is mapped only
/// here and there may be anything, as the stack of the thread that serves faults.
void ProcessMemory::watch(const Range& /*range*/) {
  if (const auto started = start_paging(); !started) {
    static_cast<void>(refuse(started.error()));
  }
}

/// False: as of files, whose changes somebody has to say.
bool ProcessMemory::watch_pages(PageEvents& heard, const Range& range) {
  const std::lock_guard lock{mutex_};
  if (!heard.watch(range.first, range.second - range.first)) {
    return false;
  }
  Range whole = range;
  auto at = watched_.upper_bound(whole.second);
  while (at != watched_.begin() && std::prev(at)->second >= whole.first) {
    --at;
    whole = {std::min(whole.first, at->first), std::max(whole.second, at->second)};
    at = watched_.erase(at);
  }
  watched_.emplace(whole.first, whole.second);
  return true;
}

void ProcessMemory::unwatch(const Range& range) {
  PageEvents* const heard = events();
  if (heard == nullptr) {
    return;
  }
  for (const auto& [first, last] : unheard_parts(range)) {
    const std::lock_guard lock{mutex_};
    auto at = watched_.upper_bound(first);
    if (at != watched_.begin() && std::prev(at)->second > first) {
      --at;
    }
    while (at != watched_.end() && at->first < last) {
      const Range whole{at->first, at->second};
      const Range gone{std::max(first, whole.first), std::min(last, whole.second)};
      at = watched_.erase(at);
      if (whole.first < gone.first) {
        watched_.emplace(whole.first, gone.first);
      }
      if (gone.second < whole.second) {
        watched_.emplace(gone.second, whole.second);
      }
      heard->unwatch(gone.first, gone.second - gone.first);
    }
  }
}

void ProcessMemory::take(const os::MemoryMessage& change) {
  invalidate(change.first, change.last);
  if (change.kind == os::MemoryMessage::Kind::Moved) {  // it is watched where it is now
    for (const auto& [first, last] :
         unheard_parts({change.moved_to, change.moved_to + (change.last - change.first)})) {
      events()->unwatch(first, last - first);
    }
  }
}

/// Makes pages present. What notifiers are of is watched, also where it was: it may have been
/// mapped anew meanwhile. What is watched is filled, since a system call may not fault it in, or
/// must wait for the thread that serves faults. It may go again, or be mapped anew, between any two
/// of these steps.
Result<void> ProcessMemory::bring_in(std::uint64_t start, std::uint64_t bytes, bool for_writing) {
  constexpr int kMostTries = 50;  // policy: while another thread changes it
  PageEvents* const heard = events();
  if (heard == nullptr) {
    return os::populate(start, bytes, for_writing);
  }
  const bool is_watched = is_heard({start, start + bytes});
  Result<void> there;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const bool can_watch = is_watched && watch_pages(*heard, {start, start + bytes});
    const bool is_filled = heard->fill(start, bytes);
    there = os::populate(start, bytes, for_writing);
    if (there || (!is_filled && !can_watch)) {
      break;
    }
  }
  return there;
}

Result<void> ProcessMemory::pin(std::uint64_t start, std::uint64_t count, bool for_writing,
                                std::vector<std::uint64_t>& pages) {
  const std::uint64_t size = os::page_size();
  if (auto there = bring_in(start, count * size, for_writing); !there) {
    return there;
  }
  const std::lock_guard lock{mutex_};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t page = start + i * size;
    if (++pins_[page] != 1) {
      continue;
    }
    if (auto locked = os::lock_pages(page, size); !locked) {
      for (std::uint64_t undone = start; undone <= page; undone += size) {
        release(undone);
      }
      return locked;
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    pages.push_back(start + i * size);
  }
  return {};
}

/// Without a lock, which keeps madvise() from a page.
Result<void> ProcessMemory::fault_in(std::uint64_t start, std::uint64_t count, bool for_writing,
                                     std::vector<std::uint64_t>& pages) {
  const std::uint64_t size = os::page_size();
  if (auto there = bring_in(start, count * size, for_writing); !there) {
    return there;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    pages.push_back(start + i * size);
  }
  return {};
}

void ProcessMemory::unpin(std::uint64_t start, std::uint64_t count, bool /*is_dirty*/) {
  const std::lock_guard lock{mutex_};
  for (std::uint64_t i = 0; i < count; ++i) {
    release(start + i * os::page_size());
  }
}

void ProcessMemory::release(std::uint64_t page) {
  const auto found = pins_.find(page);
  if (found != pins_.end() && --found->second == 0) {
    pins_.erase(found);
    os::unlock_pages(page, os::page_size());
  }
}

ProcessMemory& process_memory() {
  static auto& made = *new ProcessMemory;  // never destroyed: its threads outlive main()
  return made;
}

}  // namespace weft::kernel
