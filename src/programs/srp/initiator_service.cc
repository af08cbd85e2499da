#include "programs/srp/initiator_service.h"

#include <fmt/format.h>
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
#include <system_error>
#include <utility>

#include "os/clock.h"
#include "programs/srp/session_path.h"
#include "programs/srp/target_url.h"
#include "scsi/lun.h"
#include "ulp/srp/port_name.h"

namespace weft::programs::srp {
namespace {

namespace fs = std::filesystem;

const fs::path kPorts{"/sys/class/infiniband"};
const fs::path kTakers{"/sys/class/infiniband_srp"};
const fs::path kHosts{"/sys/class/scsi_host"};
constexpr const char* kHostMark = "/run/weft-hostname";  // which hosts as namespaces have
constexpr const char* kOnePerHost = "add-target";
constexpr Duration kAttachPatience = Duration::seconds(15);  // policy
constexpr std::chrono::milliseconds kAttachStep{20};
constexpr Duration kEndPatience = Duration::seconds(10);  // policy: of all units' logouts
constexpr std::size_t kMostUnits = 64;                    // policy: of one target
constexpr std::size_t kListHead = 8;  // REPORT LUNS' parameter data (SPC-4 §6.33)
constexpr std::size_t kListEntry = 8;

void say(std::string_view text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

[[nodiscard]] std::string first_line(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream{path}, line);
  return line;
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream{path} << text << '\n';
}

[[nodiscard]] std::string without_colons(std::string gid) {
  std::erase(gid, ':');
  return gid;
}

[[nodiscard]] std::string groups_of(const Gid& gid) {
  std::string text;
  for (const std::uint64_t half : {gid.prefix(), gid.interface_id().value()}) {
    for (int shift = 48; shift >= 0; shift -= 16) {
      text += fmt::format("{}{:04x}", text.empty() ? "" : ":", half >> shift & 0xFFFF);
    }
  }
  return text;
}

[[nodiscard]] std::vector<InitiatorPort> ports_of_host() {
  std::vector<InitiatorPort> all;
  std::error_code error;
  for (const auto& device : fs::directory_iterator{kPorts, error}) {
    for (const auto& port : fs::directory_iterator{device.path() / "ports", error}) {
      all.push_back({.device = device.path().filename(),
                     .number = port.path().filename(),
                     .gid = first_line(port.path() / "gids" / "0")});
    }
  }
  std::ranges::sort(all, {},
                    [](const InitiatorPort& port) { return std::pair{port.device, port.number}; });
  return all;
}

/// Of one that was killed.
void remove_leftovers() {
  std::error_code error;
  for (const auto& port : fs::directory_iterator{kTakers, error}) {
    WrittenFile::unmount(port.path() / "add_target");
  }
  fs::remove_all(kTakers, error);
  std::vector<fs::path> ours;
  for (const auto& host : fs::directory_iterator{kHosts, error}) {
    if (fs::exists(host.path() / "ioc_guid", error)) {
      ours.push_back(host.path());
    }
  }
  for (const fs::path& host : ours) {
    fs::remove_all(host, error);
  }
}

[[nodiscard]] fs::path folder_of(unsigned host) { return kHosts / fmt::format("host{}", host); }

/// LUNs as REPORT LUNS lists them; of forms that no unit here has, none.
[[nodiscard]] std::vector<std::uint16_t> units_in(ByteSpan list) {
  std::vector<std::uint16_t> units;
  for (std::size_t at = kListHead; at + kListEntry <= list.size(); at += kListEntry) {
    std::uint64_t address = 0;
    for (const std::byte octet : list.subspan(at, kListEntry)) {
      address = address << 8 | std::to_integer<std::uint64_t>(octet);
    }
    if (const auto lun = scsi::parse_lun(address)) {
      units.push_back(lun->value());
    }
  }
  return units;
}

/// The sessions' processes end with this one, however it ends.
[[noreturn]] void become_unit(std::vector<char*>& words) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(words.front(), words.data());
  _exit(127);
}

/// False: it has ended, and is no more.
[[nodiscard]] bool still_runs(pid_t child) { return waitpid(child, nullptr, WNOHANG) == 0; }

[[nodiscard]] sigset_t signals_of_service() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

std::string initiator_name(const weft::srp::AddTarget& target, const InitiatorPort& port) {
  const std::string extension = fmt::format("{:016x}", target.initiator_ext);
  const std::string guid = without_colons(port.gid).substr(16);
  return "0x" + (target.is_revision_10 ? guid + extension : extension + guid);
}

std::string unit_name(const weft::srp::AddTarget& target, const InitiatorPort& port,
                      std::uint16_t lun) {
  if (!target.destination.empty()) {
    return fmt::format("srp://{}/{}/{}", target.destination,
                       weft::srp::to_string(target.target_port_id()).substr(2), lun);
  }
  return fmt::format(
      "id_ext={:016x},ioc_guid={:016x},dgid={},pkey={:04x},service_id={:016x},lun={:x},sgid={}{}",
      target.id_ext, target.ioc_guid.value(), without_colons(groups_of(target.destination_gid)),
      target.pkey.value(), target.service_id, lun, without_colons(port.gid),
      target.is_revision_10 ? ",io_class=ff00" : "");
}

Result<std::unique_ptr<InitiatorService>> InitiatorService::start(const InitiatorOptions& options) {
  if (access(kHostMark, R_OK) != 0) {
    return fail(ErrorCode::NotSupported,
                "only hosts as namespaces have a /sys of their own: weft srp initiator --host "
                "HOST, or weft exec --ns HOST -- weft srp initiator");
  }
  auto control = Control::listen(kOnePerHost);
  if (!control) {
    return fail(control.error().code, "one initiator per host: {}", control.error().reason);
  }
  const sigset_t signals = signals_of_service();
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // of every thread that comes
  std::unique_ptr<InitiatorService> made{
      new InitiatorService{options, *std::move(control)}
  };
  if (auto opened = made->open(); !opened) {
    return std::unexpected(opened.error());
  }
  return made;
}

Result<void> InitiatorService::open() {
  remove_leftovers();
  std::error_code error;
  fs::create_directories(options_.sockets, error);
  if (error) {
    return fail(ErrorCode::Io, "{}: {}", options_.sockets, error.message());
  }
  const auto ports = ports_of_host();
  if (ports.empty()) {
    return fail(ErrorCode::NoSuchDevice, "there is no port in {}", kPorts.string());
  }
  for (const InitiatorPort& port : ports) {
    if (auto opened = open(port); !opened) {
      return opened;
    }
  }
  return {};
}

Result<void> InitiatorService::open(const InitiatorPort& port) {
  const fs::path folder = kTakers / fmt::format("srp-{}-{}", port.device, port.number);
  std::error_code error;
  fs::create_directories(folder, error);
  write_file(folder / "ibdev", port.device);
  write_file(folder / "port", port.number);
  const std::string path = folder / "add_target";
  auto file =
      WrittenFile::mount(path, [this, port](std::string_view line) { return take(port, line); });
  if (!file) {
    return std::unexpected(file.error());
  }
  std::thread thread{[served = file->get()] { served->serve(); }};
  takers_.push_back({.file = *std::move(file), .thread = std::move(thread)});
  return {};
}

InitiatorService::~InitiatorService() {
  for (Taker& taker : takers_) {
    taker.file->stop();
  }
  for (Taker& taker : takers_) {
    taker.thread.join();
  }
  takers_.clear();
  for (const auto& [number, host] : hosts_) {
    for (const pid_t unit : host.units) {
      kill(unit, SIGTERM);
    }
  }
  const Instant until = os::now() + kEndPatience;
  while (!hosts_.empty() && os::now() < until) {
    collect();
    std::this_thread::sleep_for(kAttachStep);
  }
  for (const auto& [number, host] : hosts_) {
    for (const pid_t unit : host.units) {
      kill(unit, SIGKILL);
    }
  }
  remove_leftovers();
}

std::vector<std::string> InitiatorService::files() const {
  std::vector<std::string> all;
  for (const Taker& taker : takers_) {
    all.push_back(taker.file->path());
  }
  return all;
}

void InitiatorService::run() {
  const sigset_t signals = signals_of_service();
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || signal != SIGCHLD) {
      return;
    }
    collect();
  }
}

/// Hosts whose units have all ended.
void InitiatorService::collect() {
  const std::lock_guard lock{mutex_};
  for (auto at = hosts_.begin(); at != hosts_.end();) {
    auto& [number, host] = *at;
    std::erase_if(host.units, [](pid_t unit) { return !still_runs(unit); });
    if (!host.is_up || !host.units.empty()) {
      ++at;
      continue;
    }
    std::error_code error;
    fs::remove_all(folder_of(number), error);
    say(fmt::format("host{}: gone", number));
    at = hosts_.erase(at);
  }
}

/// What the one who writes gets, as ib_srp has it.
int InitiatorService::take(const InitiatorPort& port, std::string_view line) {
  const auto target = weft::srp::parse_add_target(line);
  if (!target) {
    say(target.error().reason);
    return EINVAL;
  }
  const auto number = reserve(port, *target);
  if (!number) {
    say(number.error().reason);
    return EEXIST;
  }
  const auto connected = connect(*number, {.target = *target, .port = port, .units = {}});
  if (!connected) {
    say(fmt::format("host{}: {}", *number, connected.error().reason));
    give_up(*number);
    return connected.error().code == ErrorCode::NotFound ? ENODEV : ECONNRESET;
  }
  return 0;
}

/// The number of a new host; Exists: its session is there, or is being made.
Result<unsigned> InitiatorService::reserve(const InitiatorPort& port,
                                           const weft::srp::AddTarget& target) {
  const std::lock_guard lock{mutex_};
  for (const auto& [number, host] : hosts_) {
    if (host.port == port && host.target.is_same_session(target)) {
      return fail(ErrorCode::Exists, "host{} has that session already", number);
    }
  }
  unsigned number = 0;
  while (hosts_.contains(number)) {
    ++number;
  }
  hosts_.emplace(number, Host{.target = target, .port = port, .units = {}});
  return number;
}

void InitiatorService::give_up(unsigned number) {
  const std::lock_guard lock{mutex_};
  hosts_.erase(number);
}

/// Logs in for long enough to ask.
Result<std::vector<std::uint16_t>> InitiatorService::find_units(const Host& host) const {
  auto url = find_target(unit_name(host.target, host.port, 0));
  if (!url) {
    return std::unexpected(url.error());
  }
  PathOptions options{.initiator = initiator_name(host.target, host.port),
                      .device = host.port.device};
  options.keeps_channels = true;
  SessionPath path{std::vector{*std::move(url)}, options, [](const std::string&) {}};
  if (auto opened = path.open(); !opened) {
    return std::unexpected(opened.error());
  }
  std::array<std::byte, kListHead + kMostUnits * kListEntry> list{};
  std::array<std::byte, 12> report{std::byte{0xA0}};  // REPORT LUNS (SPC-4 §6.33)
  report[8] = static_cast<std::byte>(list.size() >> 8);
  report[9] = static_cast<std::byte>(list.size() & 0xFF);
  constexpr int kTries = 3;  // a unit attention is told once
  for (int tried = 0; tried < kTries; ++tried) {
    const disk::DiskAnswer answer = path.execute({.cdb = report, .data_in = list});
    if (answer.kind == disk::DiskAnswer::Kind::Answered && answer.status == scsi::Status::Good) {
      return units_in(ByteSpan{list}.first(answer.data_in_bytes));
    }
  }
  return fail(ErrorCode::Io, "the target does not list its units");
}

/// A process that serves the unit; it serves when its socket is there.
Result<pid_t> InitiatorService::attach(const Host& host, const std::string& socket,
                                       std::uint16_t lun) const {
  std::error_code error;
  fs::remove(socket, error);
  std::vector<std::string> texts{fs::read_symlink("/proc/self/exe", error).string(),
                                 "attach",
                                 unit_name(host.target, host.port, lun),
                                 "--nbd",
                                 socket,
                                 "--device",
                                 host.port.device,
                                 "--initiator",
                                 initiator_name(host.target, host.port),
                                 "--keep-channels",
                                 fmt::format("--fast-fail={}", options_.fast_fail_seconds),
                                 fmt::format("--dev-loss={}", options_.dev_loss_seconds)};
  std::vector<char*> words;
  for (std::string& text : texts) {
    words.push_back(text.data());
  }
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    return fail(ErrorCode::OutOfMemory, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    become_unit(words);
  }
  const Instant until = os::now() + kAttachPatience;
  while (!fs::exists(socket, error)) {
    if (!still_runs(child)) {
      return fail(ErrorCode::NotFound, "LUN {} is no disk that can be attached", lun);
    }
    if (os::now() > until) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return fail(ErrorCode::Io, "LUN {} is not attached in time", lun);
    }
    std::this_thread::sleep_for(kAttachStep);
  }
  return child;
}

/// NotFound: there is no unit. Others: there is no session.
Result<void> InitiatorService::connect(unsigned number, Host host) {
  const auto units = find_units(host);
  if (!units) {
    return std::unexpected(units.error());
  }
  std::string sockets;
  for (const std::uint16_t lun : *units) {
    const std::string socket = fmt::format("{}/host{}-lun{}.sock", options_.sockets, number, lun);
    const auto unit = attach(host, socket, lun);
    if (!unit) {
      say(fmt::format("host{}: {}", number, unit.error().reason));
      continue;
    }
    host.units.push_back(*unit);
    sockets += fmt::format("{}{} {}", sockets.empty() ? "" : "\n", lun, socket);
  }
  if (host.units.empty()) {
    return fail(ErrorCode::NotFound, "the target has no unit for this initiator");
  }
  const fs::path folder = folder_of(number);
  const weft::srp::AddTarget& target = host.target;
  std::error_code error;
  fs::create_directories(folder, error);
  write_file(folder / "id_ext", fmt::format("0x{:016x}", target.id_ext));
  write_file(folder / "ioc_guid", fmt::format("0x{:016x}", target.ioc_guid.value()));
  if (target.destination.empty()) {
    write_file(folder / "service_id", fmt::format("0x{:016x}", target.service_id));
    write_file(folder / "pkey", fmt::format("0x{:04x}", target.pkey.value()));
    write_file(folder / "dgid", groups_of(target.destination_gid));
    write_file(folder / "orig_dgid", groups_of(target.destination_gid));
  }
  write_file(folder / "sgid", host.port.gid);
  write_file(folder / "local_ib_device", host.port.device);
  write_file(folder / "local_ib_port", host.port.number);
  write_file(folder / "nbd", sockets);
  say(fmt::format("host{}: target {}, LUN and socket:\n{}", number,
                  weft::srp::to_string(target.target_port_id()), sockets));
  const std::lock_guard lock{mutex_};
  host.is_up = true;
  hosts_[number] = std::move(host);
  return {};
}

}  // namespace weft::programs::srp
