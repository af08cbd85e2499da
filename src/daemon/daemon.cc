#include "daemon/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "daemon/daemon_impl.h"
#include "fabric/departure_clocks.h"
#include "os/clock.h"
#include "os/packet_socket.h"
#include "os/run_directory.h"
#include "os/shared_memory.h"

namespace weft::daemon {

using asio::posix::stream_descriptor;

namespace {

/// The fabric's directory with its lock, which dies with its holder: a directory whose lock is free
/// belongs to nobody.
[[nodiscard]] Result<os::UniqueFd> take_directory(const DaemonOptions& options) {
  const auto guard = os::lock_run_directory(options.run);
  if (!guard) {
    return std::unexpected(guard.error());
  }
  const std::string directory = os::fabric_directory(options.run, options.fabric);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::Io, "{}: {}", directory, std::strerror(errno));
  }
  const std::string path = os::lock_path(options.run, options.fabric);
  os::UniqueFd lock{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::Exists,
                "fabric {} is up already; `weft down --name {}` ends it, --name chooses another",
                options.fabric, options.fabric);
  }
  return lock;
}
constexpr int kAcceptsInTurn = 64;  // connections per event; policy

/// Memory that all programs of the fabric are given, and the daemon's own view of it.
struct SharedWords {
  os::UniqueFd file;
  os::Mapping mapping;
};

[[nodiscard]] Result<SharedWords> share_words(const char* name, std::size_t size) {
  auto file = os::create_shared_memory(name, size);
  if (!file) {
    return std::unexpected(file.error());
  }
  auto mapping = os::map_shared(*file, os::Protection::ReadWrite, size, size);
  if (!mapping) {
    return std::unexpected(mapping.error());
  }
  return SharedWords{.file = std::move(*file), .mapping = std::move(*mapping)};
}

[[nodiscard]] std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::Daemon(Daemon&&) noexcept = default;
Daemon& Daemon::operator=(Daemon&&) noexcept = default;
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }

Result<Daemon> Daemon::create(DaemonOptions options) {
  if (auto named = os::check_fabric_name(options.fabric); !named) {
    return std::unexpected(named.error());
  }
  auto lock = take_directory(options);
  if (!lock) {
    return std::unexpected(lock.error());
  }
  auto faults = share_words("weft-faults", fabric::FaultCounters::bytes_needed());
  if (!faults) {
    return std::unexpected(faults.error());
  }
  auto counters = std::make_unique<TrafficCounters>();
  auto fabric =
      node::Fabric::create(options.topology, os::now(),
                           {.has_subnet_manager = options.has_subnet_manager,
                            .sm_priority = options.sm_priority,
                            .sm_port = options.sm_port,
                            .seed = random_seed(),
                            .counters = counters.get(),
                            .faults = fabric::FaultCounters::open(faults->mapping.bytes())});
  if (!fabric) {
    return std::unexpected(fabric.error());
  }
  const std::string socket = os::control_path(options.run, options.fabric);
  unlink(socket.c_str());
  auto listener = os::listen_at(socket);
  if (!listener) {
    return std::unexpected(listener.error());
  }
  const std::string netlink =
      fmt::format("{}/{}", os::fabric_directory(options.run, options.fabric), uabi::kNetlinkSocket);
  unlink(netlink.c_str());
  auto netlink_listener = os::listen_at(netlink);
  if (!netlink_listener) {
    return std::unexpected(netlink_listener.error());
  }
  auto clocks = share_words(
      "weft-clocks", fabric::DepartureClocks::bytes_needed((*fabric)->builder().ports().size() +
                                                           node::Fabric::kReservedPorts));
  if (!clocks) {
    return std::unexpected(clocks.error());
  }
  std::optional<Impl::IbsimParts> ibsim;
  if (!options.ibsim.empty()) {
    auto place = IbsimLocation::read(options.ibsim);
    auto control = place ? IbsimServer::take(*place) : std::unexpected(place.error());
    if (!control) {
      return std::unexpected(control.error());
    }
    ibsim = {.place = std::move(*place), .control = std::move(*control)};
  }
  Impl::Parts parts{.counters = std::move(counters),
                    .fabric = std::move(*fabric),
                    .lock = std::move(*lock),
                    .listener = std::move(*listener),
                    .netlink_listener = std::move(*netlink_listener),
                    .ibsim = std::move(ibsim),
                    .clocks = std::move(clocks->file),
                    .clock_memory = std::move(clocks->mapping),
                    .fault_counters = std::move(faults->file),
                    .fault_memory = std::move(faults->mapping)};
  auto impl = std::make_unique<Impl>(std::move(options), std::move(parts));
  if (auto begun = impl->begin_faults(); !begun) {
    return std::unexpected(begun.error());
  }
  return Daemon{std::move(impl)};
}

Daemon::Impl::Impl(DaemonOptions options, Parts parts)
    : options_(std::move(options)),
      directory_(os::fabric_directory(options_.run, options_.fabric)),
      counters_(std::move(parts.counters)),
      fabric_(std::move(parts.fabric)),
      mad_capture_(fabric_->builder()),
      lock_(std::move(parts.lock)),
      reserve_fd_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      log_(directory_ + "/log"),
      listener_(loop_, parts.listener.release()),
      lifeline_(loop_),
      signals_(loop_, SIGTERM, SIGINT),
      clocks_(std::make_shared<const os::UniqueFd>(std::move(parts.clocks))),
      clock_memory_(std::move(parts.clock_memory)),
      fault_counters_(std::make_shared<const os::UniqueFd>(std::move(parts.fault_counters))),
      fault_memory_(std::move(parts.fault_memory)),
      faults_hit_(fabric::FaultCounters::open(fault_memory_.bytes())),
      fault_timer_(loop_),
      management_timer_(loop_),
      publish_timer_(loop_),
      is_sm_files_(loop_, [this](fabric::PortIndex port) { update_is_sm(port); }),
      fabric_id_(make_fabric_id(directory_)),
      namespaces_(loop_, namespace_handlers()),
      ender_(loop_) {
  counters_->begin(
      [this](const fabric::CounterLedger& ledger) { return ledger.read(view(), counter_pages()); });
  management().set_tap(&mad_capture_);
  management().shared_ports().set_tunnel_tap(
      [this](fabric::PortIndex physical, const sriov::TunnelDatagram& mad) {
        mad_capture_.show(physical, mad);
      });
  management().set_clocks(fabric::DepartureClocks::open(clock_memory_.bytes()));
  start_netlink(std::move(parts.netlink_listener));
  if (parts.ibsim) {
    start_ibsim(std::move(*parts.ibsim));
  }
  publish();
  log_.write(fmt::format("fabric {} is up: {} nodes", options_.fabric, view().nodes().size()));
}

Daemon::Impl::~Impl() {
  const auto guard = os::lock_run_directory(options_.run);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void Daemon::Impl::run() {
  accept();
  run_management();
  const auto stop_silently = [this](const std::error_code& error) {
    if (!error) {
      stop(std::nullopt, [](const std::string& /*ended*/) {});
    }
  };
  signals_.async_wait([=](const std::error_code& error, int) { stop_silently(error); });
  if (options_.lifeline) {
    lifeline_.assign(options_.lifeline.release());
    lifeline_.async_wait(stream_descriptor::wait_read, stop_silently);
  }
  loop_.run();
}

void Daemon::Impl::down(Client& client, const uabi::Down& /*request*/) {
  // The client may be gone before the programs are.
  stop(client.pid(), [weak = client.weak_from_this()](std::string ended) {
    if (const auto requester = weak.lock()) {
      requester->send(uabi::Text{.is_last = true, .text = std::move(ended)});
    }
  });
}

void Daemon::Impl::accept() {
  listener_.async_wait(stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) {
      return;
    }
    for (int turn = 0; turn < kAcceptsInTurn && accept_one(); ++turn) {
    }
    accept();
  });
}

/// Returns false if no connection is pending.
bool Daemon::Impl::accept_one() {
  os::UniqueFd fd{accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!fd && (errno == EMFILE || errno == ENFILE)) {
    // Out of descriptors. The connection is accepted with the reserve and closed, because the loop
    // would otherwise spin on a pending connection.
    reserve_fd_.reset();
    fd = os::UniqueFd{accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)};
    fd.reset();
    reserve_fd_ = os::UniqueFd{open("/dev/null", O_RDONLY | O_CLOEXEC)};
    if (const auto line = offences_.add({.pid = getpid(), .program = "weftd", .host = {}},
                                        "connections refused for want of descriptors")) {
      log_.write(*line);
    }
    return true;
  }
  if (!fd) {
    return false;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (known && peer.uid == getuid()) {  // only this user can open the directory
    serve(std::move(fd), peer.pid);
  }
  return true;
}

void Daemon::Impl::serve(os::UniqueFd connection, pid_t pid) {
  const auto requester = requester_of(pid);
  auto client =
      std::make_shared<Client>(loop_, host::ControlSocket{std::move(connection)}, requester);
  clients_.insert(client);
  client->start({
      .on_message = [this](Client& from,
                           host::Received received) { handle(from, std::move(received)); },
      .on_offence = [this](Client& from, std::string_view what) { record_offence(from, what); },
      .on_end = [this](Client& from) { handle_end(from); },
  });
  if (requester->connections > Requester::kMaxConnections) {
    record_offence(*client, "connections too many");
    client->refuse(
        fmt::format("a process may have {} connections to the daemon", Requester::kMaxConnections));
  }
}

/// The state of a process, shared by its connections; dropped when it has none and its budget is
/// full.
std::shared_ptr<Requester> Daemon::Impl::requester_of(pid_t pid) {
  constexpr std::size_t kMany = 1'024;  // policy
  if (requesters_.size() > kMany) {
    std::erase_if(requesters_, [](const auto& entry) {
      return entry.second->connections == 0 && entry.second->budget.is_full(os::now());
    });
  }
  auto& requester = requesters_[pid];
  if (!requester) {
    requester = std::make_shared<Requester>();
    requester->pid = pid;
  }
  // Read each time, since `weft exec` connects before it executes the program.
  std::ifstream file{fmt::format("/proc/{}/comm", pid)};
  if (std::string name; std::getline(file, name)) {
    requester->program = name;
  }
  return requester;
}

ProgramName Daemon::Impl::name_of(const Client& client) const {
  ProgramName name{.pid = client.pid(), .program = client.program(), .host = {}};
  if (client.process) {
    name.host = view().name(view().node(client.process->host));
    name.slot = client.process->slot;
  }
  return name;
}

/// Counts a violation, and logs it if this count is worth a line.
void Daemon::Impl::record_offence(const Client& offender, std::string_view what,
                                  std::uint64_t from) {
  if (const auto line = offences_.add(name_of(offender), what, 1, from)) {
    log_.write(*line);
  }
}

void Daemon::Impl::handle_end(Client& client) {
  end_captures(client);
  remove_program(client);
  close_umad(client);
  close_omni_path(client);
  close_rdma_cm(client);
  leave_host_makers(client);
  drop_addresses(client);
  drop_published_paths(client);
  std::erase_if(clients_, [&](const auto& known) { return known.get() == &client; });
}

}  // namespace weft::daemon
