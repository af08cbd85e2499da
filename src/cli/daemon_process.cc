#include "cli/daemon_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/fabric_client.h"
#include "daemon/daemon.h"
#include "os/run_directory.h"

namespace weft::cli {
namespace {

struct Pipe {
  os::UniqueFd read;
  os::UniqueFd write;
};

[[nodiscard]] Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::Io, "pipe: {}", std::strerror(errno));
  }
  return Pipe{os::UniqueFd{ends[0]}, os::UniqueFd{ends[1]}};
}

/// In the new process. Says "ok" or the reason through `report`, then serves.
[[noreturn]] void serve(daemon::DaemonOptions options, os::UniqueFd report) {
  setsid();
  signal(SIGHUP, SIG_IGN);
  prctl(PR_SET_NAME, "weftd");
  // Each program uses several descriptors, and a fabric may have thousands of programs.
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  auto daemon = daemon::Daemon::create(std::move(options));
  const std::string said = daemon ? "ok" : daemon.error().reason;
  // From here on nobody reads what a daemon prints.
  const os::UniqueFd null{open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null.get(), standard);
  }
  static_cast<void>(!write(report.get(), said.data(), said.size()));
  report.reset();
  if (daemon) {
    daemon->run();
  }
  {
    auto ended = std::move(daemon);  // destroyed first: removes the fabric's directory
  }
  _exit(0);
}

}  // namespace

Result<DaemonProcess> start_daemon(const DaemonStart& start, const fabric::Topology& topology) {
  const auto run = os::run_directory();
  if (!run) {
    return std::unexpected(run.error());
  }
  clear_dead_fabrics();
  auto report = make_pipe();
  auto lifeline = make_pipe();
  if (!report || !lifeline) {
    return std::unexpected(report ? lifeline.error() : report.error());
  }
  const pid_t child = fork();
  if (child < 0) {
    return fail(ErrorCode::Io, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    report->read.reset();
    lifeline->write.reset();
    serve({.run = *run,
           .fabric = start.name,
           .topology = topology,
           .has_subnet_manager = start.has_subnet_manager,
           .sm_priority = start.sm_priority,
           .sm_port = start.sm_port,
           .ibsim = start.ibsim,
           .is_isolating = start.is_isolating,
           .lifeline = start.is_bound ? std::move(lifeline->read) : os::UniqueFd{}},
          std::move(report->write));
  }
  report->write.reset();
  lifeline->read.reset();
  std::string said;
  std::array<char, 512> buffer{};
  while (true) {
    const ssize_t count = read(report->read.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      break;
    }
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (said != "ok") {
    waitpid(child, nullptr, 0);
    return fail(ErrorCode::Io, "{}", said.empty() ? "the fabric daemon died while starting" : said);
  }
  return DaemonProcess{.pid = child,
                       .lifeline = start.is_bound ? std::move(lifeline->write) : os::UniqueFd{}};
}

}  // namespace weft::cli
