#include "cli/program_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "cli/execute.h"
#include "cli/fabric_client.h"
#include "cli/terminal.h"
#include "cm/rdma/types.h"
#include "os/unique_fd.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Policy: how long to wait for a server to listen.
constexpr auto kListenWaitLimit = 10s;
constexpr auto kExitWaitLimit = 2s;
/// Policy: interval of status queries, which cover every port of the fabric.
constexpr auto kBetweenQuestions = 100ms;

volatile std::sig_atomic_t interrupted = 0;

struct Running {
  std::string host;
  unsigned number{};
  pid_t pid{};
  bool ended{};
  int status{};
  os::UniqueFd output;
  std::string line;  // what has no end yet
};

[[nodiscard]] int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

[[noreturn]] void become(const Program& program, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    const os::UniqueFd null{open("/dev/null", O_RDONLY | O_CLOEXEC)};
    dup2(null.get(), STDIN_FILENO);
  }
  setenv("WEFT_HOST", program.host.c_str(), 1);
  _exit(execute(program.command));
}

/// Inodes of listening TCP sockets.
[[nodiscard]] std::set<std::string> listening_sockets() {
  constexpr std::string_view kListen = "0A";
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file{table};
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words{line};
      std::array<std::string, 10> fields;
      for (std::string& field : fields) {
        words >> field;
      }
      if (fields[3] == kListen) {
        inodes.insert(fmt::format("socket:[{}]", fields[9]));
      }
    }
  }
  return inodes;
}

/// True if a process of the group listens on a TCP port; a shell's children belong to its group.
[[nodiscard]] bool listens(pid_t group) {
  const std::set<std::string> listening = listening_sockets();
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator{"/proc", error}) {
    const std::string name = process.path().filename().string();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }) ||
        getpgid(std::stoi(name)) != group) {
      continue;
    }
    std::error_code ignored;
    for (const auto& fd : std::filesystem::directory_iterator{process.path() / "fd", ignored}) {
      const auto target = std::filesystem::read_symlink(fd.path(), ignored);
      if (listening.contains(target.string())) {
        return true;
      }
    }
  }
  return false;
}

/// True if a process of the group listens by RDMA-CM, according to the daemon, which holds that
/// state.
[[nodiscard]] bool listens_by_rdma_cm(const std::string& fabric, pid_t group) {
  const auto answer = ask(fabric, uabi::QueryKind::Status);
  if (!answer) {
    return false;  // the caller notices that the daemon is gone
  }
  const nlohmann::json parsed = nlohmann::json::parse(*answer);
  return std::ranges::any_of(parsed["connections"], [&](const nlohmann::json& id) {
    return id["state"] == cm::name_of(cm::RdmaCmState::Listen) &&
           getpgid(id["pid"].get<pid_t>()) == group;
  });
}

class ProgramGroup {
 public:
  ProgramGroup(std::string fabric, std::vector<Program> programs)
      : fabric_(std::move(fabric)), programs_(std::move(programs)), alone_(programs_.size() == 1) {}

  int run(double delay_seconds);

 private:
  bool start(const Program& program);
  void serve(std::chrono::milliseconds longest);
  void print(Running& running, std::string_view text, bool at_end);
  void reap();
  void wait_until_ready(double delay_seconds);
  void end_all();

  std::string fabric_;
  std::vector<Program> programs_;
  bool alone_;
  std::vector<Running> running_;
};

bool ProgramGroup::start(const Program& program) {
  std::array<int, 2> ends{-1, -1};
  if (!alone_ && pipe2(ends.data(), O_CLOEXEC) != 0) {
    return false;
  }
  Running running;
  running.host = program.host;
  running.number = static_cast<unsigned>(running_.size());
  running.output = os::UniqueFd{ends[0]};
  const os::UniqueFd write_end{ends[1]};
  running.pid = fork();
  if (running.pid == 0) {
    become(program, write_end.get());
  }
  if (running.pid < 0) {
    return false;
  }
  setpgid(running.pid, running.pid);
  if (alone_ && isatty(STDIN_FILENO) == 1) {
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(STDIN_FILENO, running.pid);
  }
  running_.push_back(std::move(running));
  return true;
}

void ProgramGroup::print(Running& running, std::string_view text, bool at_end) {
  running.line += text;
  const std::string label =
      coloured(fmt::format("{} |", running.host), running.number, STDOUT_FILENO);
  std::size_t newline = 0;
  while ((newline = running.line.find('\n')) != std::string::npos) {
    fmt::print("{} {}\n", label, running.line.substr(0, newline));
    running.line.erase(0, newline + 1);
  }
  if (at_end && !running.line.empty()) {
    fmt::print("{} {}\n", label, running.line);
    running.line.clear();
  }
  std::fflush(stdout);
}

/// Forwards output for some time.
void ProgramGroup::serve(std::chrono::milliseconds longest) {
  std::vector<pollfd> waits;
  std::vector<Running*> whose;
  for (Running& running : running_) {
    if (running.output) {
      waits.push_back({.fd = running.output.get(), .events = POLLIN, .revents = 0});
      whose.push_back(&running);
    }
  }
  poll(waits.data(), waits.size(), static_cast<int>(longest.count()));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents != 0) {
      std::array<char, 8'192> buffer{};
      const ssize_t count = read(whose[i]->output.get(), buffer.data(), buffer.size());
      if (count > 0) {
        print(*whose[i], {buffer.data(), static_cast<std::size_t>(count)}, false);
      } else if (count == 0) {
        print(*whose[i], {}, true);
        whose[i]->output.reset();
      }
    }
  }
  reap();
}

void ProgramGroup::reap() {
  for (Running& running : running_) {
    int status = 0;
    if (!running.ended && waitpid(running.pid, &status, WNOHANG) == running.pid) {
      running.ended = true;
      running.status = exit_status(status);
    }
  }
}

void ProgramGroup::wait_until_ready(double delay_seconds) {
  const Running& newest = running_.back();
  const bool by_time = delay_seconds >= 0;
  const auto until = Clock::now() + (by_time ? std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>{delay_seconds})
                                             : kListenWaitLimit);
  auto next_solicitation = Clock::now();
  while (Clock::now() < until && interrupted == 0 && !newest.ended) {
    serve(20ms);
    if (by_time) {
      continue;
    }
    if (listens(newest.pid)) {
      return;
    }
    if (Clock::now() >= next_solicitation) {
      if (listens_by_rdma_cm(fabric_, newest.pid)) {
        return;
      }
      next_solicitation = Clock::now() + kBetweenQuestions;
    }
  }
}

void ProgramGroup::end_all() {
  for (const int how : {0, SIGTERM, SIGKILL}) {
    for (const Running& running : running_) {
      if (how != 0 && !running.ended) {
        kill(-running.pid, how);
      }
    }
    const auto until = Clock::now() + kExitWaitLimit;
    const auto is_over = [&] {
      return std::ranges::all_of(running_, [](const Running& r) { return r.ended; });
    };
    while (!is_over() && Clock::now() < until && !(how == 0 && interrupted != 0)) {
      serve(10ms);
    }
  }
  for (Running& running : running_) {
    kill(-running.pid, SIGKILL);  // processes that a shell left behind
  }
  while (std::ranges::any_of(running_, [](const Running& r) { return r.ended && r.output; })) {
    const auto open = std::ranges::count_if(running_, [](const Running& r) { return !!r.output; });
    serve(50ms);
    if (open == std::ranges::count_if(running_, [](const Running& r) { return !!r.output; })) {
      break;  // a process outside the group keeps the pipe open
    }
  }
}

int ProgramGroup::run(double delay_seconds) {
  for (std::size_t i = 0; i < programs_.size() && interrupted == 0; ++i) {
    if (!start(programs_[i])) {
      fmt::print(stderr, "weft: cannot start {}: {}\n", programs_[i].command.front(),
                 std::strerror(errno));
      end_all();
      return 1;
    }
    if (i + 1 < programs_.size()) {
      wait_until_ready(delay_seconds);
    }
  }
  while (interrupted == 0 && !running_.empty() && !running_.back().ended) {
    serve(50ms);
  }
  end_all();
  if (alone_ && isatty(STDIN_FILENO) == 1) {
    tcsetpgrp(STDIN_FILENO, getpgrp());
  }
  constexpr int kInterrupted = 130;
  return interrupted != 0 || running_.empty() ? kInterrupted : running_.back().status;
}

}  // namespace

int run_programs(const std::string& fabric, std::vector<Program> programs, double delay_seconds) {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  ProgramGroup group{fabric, std::move(programs)};
  return group.run(delay_seconds);
}

bool has_ended(pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; }

void wait_for_end(pid_t pid) {
  const auto until = Clock::now() + kExitWaitLimit;
  while (Clock::now() < until) {
    if (has_ended(pid)) {
      return;
    }
    poll(nullptr, 0, 5);
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace weft::cli
