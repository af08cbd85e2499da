#include "kernel/page_events.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "os/block_signals.h"
#include "os/process_pages.h"

namespace weft::kernel {
namespace {

using namespace std::chrono_literals;
using Kind = os::MemoryMessage::Kind;

constexpr auto kMostWait = 10s;  // policy: for changes to be told of, or to end
constexpr int kMostYields = 20;  // policy: before a page waits for what else there is to read
constexpr auto kPause = 50us;    // policy: between two tries to fill while memory changes

}  // namespace

Result<std::unique_ptr<PageEvents>> PageEvents::start(os::FaultsOf whose, Told told) {
  auto faults = os::UserFaults::open(whose);
  if (!faults) {
    return std::unexpected(faults.error());
  }
  os::UniqueFd stop{eventfd(0, EFD_CLOEXEC)};
  if (!stop) {
    return fail(ErrorCode::NotSupported, "no descriptor for page faults: {}", std::strerror(errno));
  }
  return std::unique_ptr<PageEvents>{
      new PageEvents(*std::move(faults), std::move(stop), std::move(told))};
}

PageEvents::PageEvents(os::UserFaults faults, os::UniqueFd stop, Told told)
    : faults_(std::move(faults)), stop_(std::move(stop)), told_(std::move(told)) {
  reader_ = os::block_signals([this] { read_messages(); });
  teller_ = os::block_signals([this] { tell_changes(); });
}

PageEvents::~PageEvents() {
  {
    const std::lock_guard lock{mutex_};
    stops_ = true;
  }
  wakes_.notify_all();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  reader_.join();
  teller_.join();
}

bool PageEvents::fill(std::uint64_t start, std::uint64_t bytes) {
  // While memory changes no page is filled: until the other thread has read of it.
  for (auto waited = 0us; waited < kMostWait; waited += kPause) {
    const os::FillOutcome outcome = faults_.fill(start, bytes);
    if (outcome != os::FillOutcome::Changing) {
      return outcome == os::FillOutcome::Filled;
    }
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

bool PageEvents::settle() {
  std::unique_lock lock{mutex_};
  return wakes_.wait_for(lock, kMostWait,
                         [&] { return !is_reading_ && pending_count_ == 0 && !is_telling_; });
}

void PageEvents::read_messages() {
  Unserved unserved;
  for (;;) {
    constexpr int kSoon = 1;  // ms; policy
    std::array<pollfd, 2> waits{
        {{.fd = faults_.fd(), .events = POLLIN, .revents = 0},
         {.fd = stop_.get(), .events = POLLIN, .revents = 0}}
    };
    static_cast<void>(::poll(waits.data(), waits.size(), unserved.count == 0 ? -1 : kSoon));
    if ((waits[1].revents & POLLIN) != 0) {
      return;
    }
    {
      // First: who makes a change goes on as soon as it was read, and may call settle().
      const std::lock_guard lock{mutex_};
      is_reading_ = true;
    }
    read_all(unserved);
    serve(unserved);
    {
      const std::lock_guard lock{mutex_};
      is_reading_ = false;
    }
    wakes_.notify_all();  // the thread that tells, and who settles
  }
}

void PageEvents::read_all(Unserved& unserved) {
  while (const auto message = faults_.next()) {
    if (message->kind != Kind::Fault) {
      keep(*message);
    } else if (unserved.count < unserved.pages.size()) {
      unserved.pages.at(unserved.count++) = message->first;
      seen_.fetch_add(1, std::memory_order_relaxed);
    } else {
      faults_.wake(message->first, os::page_size());  // it faults again
    }
  }
}

/// Those that cannot be filled now stay.
void PageEvents::serve(Unserved& unserved) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < unserved.count; ++i) {
    const std::uint64_t page = unserved.pages.at(i);
    os::FillOutcome outcome = faults_.fill(page, os::page_size());
    for (int tries = 0; outcome == os::FillOutcome::Changing && tries < kMostYields; ++tries) {
      std::this_thread::yield();  // to who changes memory: it goes on as soon as that was read
      outcome = faults_.fill(page, os::page_size());
    }
    if (outcome == os::FillOutcome::Changing) {
      unserved.pages.at(kept++) = page;
      continue;
    }
    faults_.wake(page, os::page_size());  // another may have filled it, or it is gone
  }
  unserved.count = kept;
}

void PageEvents::keep(const os::MemoryMessage& change) {
  const std::lock_guard lock{mutex_};
  if (pending_count_ < kMostPending) {
    pending_.at((first_pending_ + pending_count_++) % kMostPending) = change;
    return;
  }
  os::MemoryMessage& last = pending_.at((first_pending_ + kMostPending - 1) % kMostPending);
  last = {.kind = Kind::Removed,
          .first = std::min(last.first, change.first),
          .last = std::max(last.last, change.last)};
}

void PageEvents::tell_changes() {
  std::unique_lock lock{mutex_};
  for (;;) {
    wakes_.wait(lock, [&] { return stops_ || pending_count_ != 0; });
    if (stops_) {
      return;
    }
    const os::MemoryMessage change = pending_.at(first_pending_);
    first_pending_ = (first_pending_ + 1) % kMostPending;
    --pending_count_;
    is_telling_ = true;
    lock.unlock();
    told_(change);
    lock.lock();
    is_telling_ = false;
    wakes_.notify_all();
  }
}

}  // namespace weft::kernel
