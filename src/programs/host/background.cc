#include "programs/host/background.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/time.h"
#include "os/clock.h"
#include "programs/control/on_host.h"

namespace weft::programs {
namespace {

// Policy.
constexpr Duration kPatience = Duration::seconds(2);
constexpr std::chrono::milliseconds kPause{10};
constexpr int kEndWaitMs = 5'000;
constexpr int kFailed = 1;

/// /run is the host's own. Locked by who has the service, so that its end, of whatever kind, ends
/// this, too.
[[nodiscard]] std::string lock_file_of(std::string_view service) {
  return fmt::format("/run/weft-{}.pid", service);
}

}  // namespace

std::string log_file_of(std::string_view service) {
  return fmt::format("/run/weft-{}.log", service);
}

Result<os::UniqueFd> take_service(std::string_view service, const std::function<bool()>& is_there) {
  const std::string path = lock_file_of(service);
  os::UniqueFd file{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  if (!file) {
    return fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  const Instant patient_until = os::now() + kPatience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (is_there() || os::now() >= patient_until) {
      return fail(ErrorCode::Exists, "weft-{} runs on this host already", service);
    }
    std::this_thread::sleep_for(kPause);
  }
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(file.get(), 0) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  return file;
}

std::optional<pid_t> owner_of_service(std::string_view service) {
  const os::UniqueFd file{open(lock_file_of(service).c_str(), O_RDWR | O_CLOEXEC)};
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    return std::nullopt;
  }
  std::array<char, 32> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  pid_t pid = 0;
  const auto read = std::from_chars(text.data(), text.data() + std::max<ssize_t>(length, 0), pid);
  return read.ec == std::errc{} && pid > 1 ? std::optional{pid} : std::nullopt;
}

Result<StartedChild> start_on(const std::string& host, const std::string& fabric,
                              const std::vector<std::string>& arguments) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::Io, "pipe: {}", std::strerror(errno));
  }
  os::UniqueFd ours{ends[0]};
  const os::UniqueFd theirs{ends[1]};
  const pid_t child = fork();
  if (child < 0) {
    return fail(ErrorCode::Io, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    dup2(theirs.get(), STDOUT_FILENO);
    _exit(run_on_host(host, fabric, arguments));
  }
  return StartedChild{.pid = child, .output = std::move(ours)};
}

std::string first_line(const os::UniqueFd& from) {
  std::string text;
  char letter = 0;
  while (::read(from.get(), &letter, 1) == 1) {
    text += letter;
    if (letter == '\n') {
      break;
    }
  }
  return text;
}

int start_on_all(const std::vector<std::string>& hosts, const std::string& fabric,
                 const std::vector<std::string>& arguments) {
  int status = 0;
  std::vector<std::pair<std::string, StartedChild>> started;
  for (const std::string& host : hosts) {
    auto child = start_on(host, fabric, arguments);
    if (!child) {
      fmt::print(stderr, "{}: {}\n", host, child.error().reason);
      return kFailed;
    }
    started.emplace_back(host, std::move(*child));
  }
  for (const auto& [host, child] : started) {
    const std::string line = first_line(child.output);
    if (!line.empty()) {
      fmt::print("{}: {}", host, line);
      continue;
    }
    int ended = 0;  // it has said why
    waitpid(child.pid, &ended, 0);
    status = WIFEXITED(ended) && WEXITSTATUS(ended) != 0 ? WEXITSTATUS(ended) : kFailed;
  }
  return status;
}

int run_on_all(const std::vector<std::string>& hosts, const std::string& fabric,
               const std::vector<std::string>& arguments) {
  int status = 0;
  for (const std::string& host : hosts) {
    const auto child = start_on(host, fabric, arguments);
    if (!child) {
      fmt::print(stderr, "{}: {}\n", host, child.error().reason);
      return kFailed;
    }
    fmt::print("{}", first_line(child->output));
    int ended = 0;
    waitpid(child->pid, &ended, 0);
    status = WIFEXITED(ended) && WEXITSTATUS(ended) == 0 ? status : kFailed;
  }
  return status;
}

void leave_caller(std::string_view service) {
  setsid();
  const os::UniqueFd log{
      open(log_file_of(service).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  const os::UniqueFd null{open("/dev/null", O_RDWR | O_CLOEXEC)};
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
  dup2(log ? log.get() : null.get(), STDERR_FILENO);
  static_cast<void>(!chdir("/"));
}

Result<void> stop_service(std::string_view service) {
  const auto owner = owner_of_service(service);
  if (!owner) {
    return fail(ErrorCode::NotFound, "weft-{} does not run on this host", service);
  }
  const os::UniqueFd process{static_cast<int>(syscall(SYS_pidfd_open, *owner, 0))};
  if (!process || owner_of_service(service) != owner ||  // still, so the descriptor is its
      syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0) {
    return fail(ErrorCode::Io, "process {}: {}", *owner, std::strerror(errno));
  }
  pollfd wait{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kEndWaitMs) != 1) {
    return fail(ErrorCode::TimedOut, "process {} does not end", *owner);
  }
  return {};
}

}  // namespace weft::programs
