#include "programs/module/service.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errno.h>
#include <linux/sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string_view>
#include <thread>
#include <utility>

#include <weft/module_host.h>
#include "os/clock.h"
#include "os/run_directory.h"
#include "os/unique_fd.h"
#include "programs/module/control.h"

namespace weft::programs::modules {
namespace {

constexpr int kFailed = 1;

[[nodiscard]] std::string name_of_error(long status) {
  const int number = static_cast<int>(-status);
  const char* const name = strerrorname_np(number);
  if (number == ERESTARTSYS) {
    return "interrupted (ERESTARTSYS)";
  }
  return name != nullptr ? fmt::format("{} ({})", std::strerror(number), name)
                         : fmt::format("error {}", status);
}

/// A request of another process, in a thread of its own, since the module may keep it waiting.
struct Call {
  os::UniqueFd socket;
  std::atomic<task_struct*> task{};
  std::atomic<bool> is_call{};  ///< of an entry
  std::atomic<bool> has_ended{};
  bool was_interrupted{};
  std::thread thread;
};

class Service {
 public:
  explicit Service(os::UniqueFd listener) : listener_(std::move(listener)) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    signals_ = os::UniqueFd{signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK)};
    changed_ = os::UniqueFd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  }

  /// Until the module is removed. Exit status.
  int run() {
    while (!is_removed_) {
      wait(-1);
      signalfd_siginfo signal{};
      if (read(signals_.get(), &signal, sizeof signal) > 0) {
        return end();
      }
    }
    join_all();
    return 0;
  }

 private:
  void wait(int milliseconds) {
    std::vector<pollfd> waits{
        {.fd = listener_.get(), .events = POLLIN, .revents = 0},
        {.fd = signals_.get(),  .events = POLLIN, .revents = 0},
        {.fd = changed_.get(),  .events = POLLIN, .revents = 0}
    };
    std::vector<Call*> whose;
    for (Call& call : calls_) {
      if (!call.was_interrupted) {
        waits.push_back({.fd = call.socket.get(), .events = POLLRDHUP, .revents = 0});
        whose.push_back(&call);
      }
    }
    ::poll(waits.data(), waits.size(), milliseconds);
    for (std::size_t i = 0; i < whose.size(); ++i) {
      constexpr std::size_t kOwn = 3;
      if (waits[kOwn + i].revents != 0) {
        interrupt(*whose[i]);  // nobody waits for it any more
      }
    }
    eventfd_t ignored = 0;
    eventfd_read(changed_.get(), &ignored);
    for (Call& call : calls_) {
      if (call.has_ended) {
        call.thread.join();
      }
    }
    std::erase_if(calls_,
                  [](const Call& call) { return call.has_ended && !call.thread.joinable(); });
    if (waits[0].revents != 0 && !is_removed_) {
      take();
    }
  }

  void take() {
    constexpr std::size_t kMostCalls = 64;  // policy
    os::UniqueFd socket{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!socket || !is_own_user(socket.get())) {
      return;
    }
    if (calls_.size() >= kMostCalls) {
      static_cast<void>(send_message(
          socket.get(), encode(Answer{.is_done = false, .text = "too many calls are under way"})));
      return;
    }
    Call& call = calls_.emplace_back();
    call.socket = std::move(socket);
    call.thread = std::thread{[this, &call] { answer(call); }};
  }

  void answer(Call& call) {
    call.task = weft_kenv_current();
    if (const auto bytes = receive_message(call.socket.get())) {
      const auto request = decode_request(*bytes);
      const Answer said =
          request ? run(call, *request) : Answer{.is_done = false, .text = request.error().reason};
      if (!send_message(call.socket.get(), encode(said))) {
        static_cast<void>(send_message(
            call.socket.get(), encode(Answer{.is_done = false, .text = "the answer is too long"})));
      }
    }
    call.has_ended = true;
    eventfd_write(changed_.get(), 1);
  }

  Answer run(Call& call, const Request& request) {
    switch (request.operation) {
      case Operation::Describe:
        return {.is_done = true, .text = fmt::format("{}", fmt::join(kenv::entries(), " "))};
      case Operation::Read:
        return run_entry(call, request, [&] { return kenv::read_entry(request.entry); });
      case Operation::Write:
        return run_entry(call, request,
                         [&] { return kenv::write_entry(request.entry, request.text); });
      case Operation::Remove:
        return remove();
    }
    return {.is_done = false, .text = "no such operation"};
  }

  template <class Function>
  Answer run_entry(Call& call, const Request& request, Function function) {
    call.is_call = true;
    ++under_way_;
    const kenv::EntryResult result = function();
    --under_way_;
    kenv::end_line();
    if (result.status >= 0) {
      return {.is_done = true, .text = result.text};
    }
    if (result.status == -ENOENT) {
      const auto names = kenv::entries();
      return {.is_done = false,
              .text = fmt::format(
                  "{} has no entry {}: it has {}", kenv::name_of_module(), request.entry,
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))};
    }
    return {.is_done = false,
            .text = fmt::format("{}: {}: {}", kenv::name_of_module(), request.entry,
                                name_of_error(result.status))};
  }

  Answer remove() {
    if (const unsigned calls = under_way_; calls != 0) {
      return {.is_done = false,
              .text = fmt::format("{} is in use: {} calls of its entries are under way; end those, "
                                  "or its process by SIGTERM",
                                  kenv::name_of_module(), calls)};
    }
    const auto stopped = kenv::stop_module();
    if (!stopped) {
      return {.is_done = false, .text = stopped.error().reason};
    }
    is_removed_ = true;
    return {.is_done = true, .text = {}};
  }

  void interrupt(Call& call) {
    task_struct* const task = call.task;
    if (task != nullptr) {
      call.was_interrupted = true;
      weft_kenv_signal(task);
    }
    shutdown(call.socket.get(), SHUT_RD);
  }

  /// By a signal: calls are interrupted, and have some time.
  int end() {
    constexpr Duration kTime = Duration::seconds(5);  // policy
    for (Call& call : calls_) {
      interrupt(call);
    }
    const Instant until = os::now() + kTime;
    while (under_way_ != 0 && os::now() < until) {
      constexpr int kMilliseconds = 20;
      wait(kMilliseconds);
    }
    const Answer removed = is_removed_ ? Answer{.is_done = true, .text = {}} : remove();
    if (!removed.is_done) {
      std::fflush(stderr);
      fmt::print(stderr, "weft module: {}\n", removed.text);
      _exit(kFailed);  // its threads go on until the process is gone
    }
    join_all();
    return 0;
  }

  void join_all() {
    for (Call& call : calls_) {
      shutdown(call.socket.get(), SHUT_RD);
      if (call.thread.joinable()) {
        call.thread.join();
      }
    }
    calls_.clear();
  }

  os::UniqueFd listener_;
  os::UniqueFd signals_;
  os::UniqueFd changed_;
  std::list<Call> calls_;
  std::atomic<unsigned> under_way_{};
  std::atomic<bool> is_removed_{};
};

[[nodiscard]] Result<void> set_parameters(const std::vector<std::string>& parameters) {
  for (const std::string& parameter : parameters) {
    const std::size_t end = std::min(parameter.find('='), parameter.size());
    const std::string value = end < parameter.size() ? parameter.substr(end + 1) : "";
    if (const auto set = kenv::set_parameter(parameter.substr(0, end), value); !set) {
      return set;
    }
  }
  return {};
}

}  // namespace

int print_error(const Error& error) {
  fmt::print(stderr, "weft module: {}\n", error.reason);
  return kFailed;
}

int serve(const ServeOptions& options) {
  sigset_t ends;  // blocked before there are threads, which inherit it
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  kenv::show_debug_messages(options.shows_debug);
  const char* const host = std::getenv("WEFT_HOST");
  if (host == nullptr || *host == '\0') {
    return print_error(
        {ErrorCode::InvalidArgument,
         "a module runs on a host of a fabric: say --host, or run it by `weft exec`"});
  }
  if (const auto loaded = kenv::load_module(options.file); !loaded) {
    return print_error(loaded.error());
  }
  if (const auto set = set_parameters(options.parameters); !set) {
    return print_error(set.error());
  }
  auto listener = listen_at(
      {.fabric = os::fabric_of_environment(), .host = host, .name = kenv::name_of_module()});
  if (!listener) {
    return print_error(listener.error());
  }
  if (const int status = kenv::start_module(); status != 0) {
    kenv::end_line();
    return print_error({ErrorCode::Io, fmt::format("{} does not begin: {}", kenv::name_of_module(),
                                                   name_of_error(status))});
  }
  fmt::print("{} is loaded on {}\n", kenv::name_of_module(), host);
  std::fflush(stdout);
  return Service{*std::move(listener)}.run();
}

}  // namespace weft::programs::modules
