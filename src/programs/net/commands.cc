#include "programs/net/commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "os/unique_fd.h"
#include "programs/host/control.h"
#include "programs/host/on_host.h"
#include "programs/net/addresses.h"
#include "programs/net/host_interface.h"
#include "programs/net/service.h"

namespace weft::programs::net {
namespace {

constexpr int kFailed = 1;
constexpr int kEndWaitMs = 5'000;                      // policy
constexpr Duration kAskWithin = Duration::seconds(5);  // policy

/// The weft command beside this program: installed in one folder, in a tree of builds in two.
[[nodiscard]] std::string weft_command() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& candidate : {folder / "weft", folder / ".." / ".." / "cli" / "weft"}) {
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return "weft";
}

[[nodiscard]] std::string own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

/// `weft exec --ns HOST -- weft-net ...`, whose standard output is what the result reads.
[[nodiscard]] Result<std::pair<pid_t, os::UniqueFd>> start_on(const std::string& host,
                                                              const HostsOptions& options,
                                                              std::vector<std::string> arguments) {
  std::vector<std::string> command{weft_command(), "exec"};
  if (!options.fabric.empty()) {
    command.insert(command.end(), {"--name", options.fabric});
  }
  command.insert(command.end(), {"--ns", host, "--", own_path()});
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
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
    execvp(words.front(), words.data());
    _exit(127);
  }
  return std::pair{child, std::move(ours)};
}

/// What it says, to its end or to the first line's.
[[nodiscard]] std::string first_line(const os::UniqueFd& from) {
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

[[nodiscard]] int print_error(const Error& error) {
  fmt::print(stderr, "weft-net: {}\n", error.reason);
  return kFailed;
}

[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses_for(const HostsOptions& options) {
  if (options.addresses.empty()) {
    return ib0_addresses(addresses_of("eth0"));
  }
  std::vector<InterfaceAddress> addresses;
  for (const std::string& text : options.addresses) {
    const auto address = parse_interface_address(text);
    if (!address) {
      return std::unexpected(address.error());
    }
    addresses.push_back(*address);
  }
  return addresses;
}

/// From now on it runs by itself: no terminal, and its own log.
void leave_caller() {
  setsid();
  const os::UniqueFd log{open(kLogFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  const os::UniqueFd null{open("/dev/null", O_RDWR | O_CLOEXEC)};
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
  dup2(log ? log.get() : null.get(), STDERR_FILENO);
  static_cast<void>(!chdir("/"));
}

}  // namespace

int up(const HostsOptions& options) {
  std::vector<std::string> arguments{"run"};
  for (const std::string& address : options.addresses) {
    arguments.insert(arguments.end(), {"--address", address});
  }
  if (options.mtu != 0) {
    arguments.insert(arguments.end(), {"--mtu", std::to_string(options.mtu)});
  }
  arguments.insert(arguments.end(), {"--mode", options.mode});
  int status = 0;
  std::vector<std::pair<std::string, std::pair<pid_t, os::UniqueFd>>> started;
  for (const std::string& host : options.hosts) {
    auto child = start_on(host, options, arguments);
    if (!child) {
      return print_error(child.error());
    }
    started.emplace_back(host, std::move(*child));
  }
  for (const auto& [host, child] : started) {
    const std::string line = first_line(child.second);
    if (!line.empty()) {
      fmt::print("{}: {}", host, line);
      continue;
    }
    int ended = 0;  // it has said why
    waitpid(child.first, &ended, 0);
    status = WIFEXITED(ended) && WEXITSTATUS(ended) != 0 ? WEXITSTATUS(ended) : kFailed;
  }
  return status;
}

int down(const HostsOptions& options) {
  int status = 0;
  for (const std::string& host : options.hosts) {
    const auto child = start_on(host, options, {"stop"});
    if (!child) {
      return print_error(child.error());
    }
    fmt::print("{}", first_line(child->second));
    int ended = 0;
    waitpid(child->first, &ended, 0);
    status = WIFEXITED(ended) && WEXITSTATUS(ended) == 0 ? status : kFailed;
  }
  return status;
}

int run_interface(const HostsOptions& options) {
  const auto addresses = addresses_for(options);
  if (!addresses) {
    return print_error(addresses.error());
  }
  const auto lock = take_interface();
  if (!lock) {
    return print_error(lock.error());
  }
  const auto mode =
      options.mode == "connected" ? ipoib::ConnectedMode::Reliable : ipoib::ConnectedMode::None;
  const auto service = Service::start({.addresses = *addresses, .mtu = options.mtu, .mode = mode});
  if (!service) {
    return print_error(service.error());
  }
  const auto ended = (*service)->run([&](std::uint32_t mtu) {
    std::string list;
    for (const InterfaceAddress& address : *addresses) {
      list += " " + to_string(address);
    }
    fmt::print("ib0{} mtu {}\n", list, mtu);
    std::fflush(stdout);
    leave_caller();
  });
  return ended ? 0 : print_error(ended.error());
}

int show(const ShowOptions& options) {
  if (!options.host.empty()) {
    std::vector<std::string> words{options.what};
    if (options.is_json) {
      words.emplace_back("--json");
    }
    return run_on_host(options.host, options.fabric, words);
  }
  const auto said = ask(kServiceName, options.what + (options.is_json ? " json" : ""), kAskWithin);
  if (!said) {
    return print_error(said.error().code == ErrorCode::NotFound
                           ? Error{ErrorCode::NotFound, "ib0 is not up: weft net up HOST"}
                           : said.error());
  }
  fmt::print("{}", *said);
  return 0;
}

int stop_interface() {
  const auto owner = owner_of_interface();
  if (!owner) {
    return print_error({ErrorCode::NotFound, "ib0 is not up"});
  }
  const os::UniqueFd process{static_cast<int>(syscall(SYS_pidfd_open, *owner, 0))};
  if (!process || owner_of_interface() != owner ||  // still, so the descriptor is its
      syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0) {
    return print_error(
        {ErrorCode::Io, fmt::format("process {}: {}", *owner, std::strerror(errno))});
  }
  pollfd wait{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, kEndWaitMs) != 1) {
    return print_error({ErrorCode::TimedOut, fmt::format("process {} does not end", *owner)});
  }
  return 0;
}

}  // namespace weft::programs::net
