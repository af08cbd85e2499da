#include "daemon/namespaces/process_ender.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "base/time.h"
#include "os/clock.h"
#include "os/unique_fd.h"

namespace weft::daemon {
namespace {

// Policy: from SIGTERM to SIGKILL, from there to giving up, and how often it looks.
constexpr Duration kWaitLimit = Duration::seconds(2);
constexpr Duration kKillWaitLimit = Duration::seconds(2);
constexpr std::chrono::milliseconds kPause{20};

/// By their descriptors: a number may come to mean somebody else between looking and sending.
void send(const std::vector<pid_t>& pids, int signal, const ProcessEnder::Finder& find) {
  std::map<pid_t, os::UniqueFd> opened;
  for (const pid_t pid : pids) {
    opened[pid] = os::UniqueFd{static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
  }
  for (const os::RunningProcess& process : find()) {  // still, so the descriptors are theirs
    if (const auto at = opened.find(process.pid); at != opened.end() && at->second) {
      syscall(SYS_pidfd_send_signal, at->second.get(), signal, nullptr, 0);
      // A stopped process hears of SIGTERM only when it goes on.
      syscall(SYS_pidfd_send_signal, at->second.get(), SIGCONT, nullptr, 0);
    }
  }
}

}  // namespace

struct ProcessEnder::Task {
  Finder find;
  Done done;
  asio::steady_timer timer;
  Instant began{};
  std::set<pid_t> asked{};
  std::set<pid_t> killed{};
};

void ProcessEnder::end(Finder find, Done done) {
  poll(std::make_shared<Task>(Task{.find = std::move(find),
                                   .done = std::move(done),
                                   .timer = asio::steady_timer{loop_},
                                   .began = os::now()}));
}

std::string ProcessEnder::describe(const Ended& ended) {
  std::string text =
      fmt::format("{} {} on its hosts {} ended", ended.asked,
                  ended.asked == 1 ? "process" : "processes", ended.asked == 1 ? "was" : "were");
  if (ended.killed != 0) {
    text += fmt::format(", {} of them by SIGKILL", ended.killed);
  }
  if (ended.left != 0) {
    text += fmt::format("; {} could not be", ended.left);
  }
  return text;
}

void ProcessEnder::poll(const std::shared_ptr<Task>& task) {
  const auto left = task->find();
  const Duration passed = os::now() - task->began;
  if (left.empty() || passed > kWaitLimit + kKillWaitLimit) {
    task->done({.asked = task->asked.size(), .killed = task->killed.size(), .left = left.size()});
    return;
  }
  const bool is_last = passed > kWaitLimit;
  std::vector<pid_t> now;
  for (const os::RunningProcess& process : left) {
    if ((is_last ? task->killed : task->asked).insert(process.pid).second) {
      now.push_back(process.pid);
    }
  }
  if (!now.empty()) {
    send(now, is_last ? SIGKILL : SIGTERM, task->find);
  }
  task->timer.expires_after(kPause);
  task->timer.async_wait([task](const std::error_code& error) {
    if (!error) {
      poll(task);
    }
  });
}

}  // namespace weft::daemon
