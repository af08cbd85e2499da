#include "programs/control/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "os/clock.h"
#include "programs/control/on_host.h"

namespace weft::programs {
namespace {

constexpr std::size_t kMostHeard = 256;           // policy: of one line
constexpr std::size_t kMostAnswered = 16U << 20;  // policy

struct Address {
  sockaddr_un value{};
  socklen_t size{};
};

[[nodiscard]] Result<Address> address_of(std::string_view service) {
  const std::string key = host_key();
  if (key.empty()) {
    return fail(ErrorCode::NoSuchDevice,
                "this program is on no simulated host (weft exec --ns HOST -- ..., or --host)");
  }
  const std::string name = fmt::format("weft-{}:{}", service, key);
  Address address;
  address.value.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.value.sun_path) {
    return fail(ErrorCode::InvalidArgument, "the names of fabric and host are too long");
  }
  std::ranges::copy(name, &address.value.sun_path[1]);  // the NUL before it: the abstract ones
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

[[nodiscard]] const sockaddr* raw(const Address& address) {
  return std::bit_cast<const sockaddr*>(&address.value);
}

[[nodiscard]] bool is_trusted(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

[[nodiscard]] bool send_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

[[nodiscard]] Result<os::UniqueFd> connect_to(std::string_view service) {
  const auto address = address_of(service);
  if (!address) {
    return std::unexpected(address.error());
  }
  os::UniqueFd fd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd || connect(fd.get(), raw(*address), address->size) != 0) {
    return fail(ErrorCode::NotFound, "no weft-{} runs on this host", service);
  }
  return fd;
}

}  // namespace

Result<Control> Control::listen(std::string_view service) {
  const auto address = address_of(service);
  if (!address) {
    return std::unexpected(address.error());
  }
  os::UniqueFd fd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd || bind(fd.get(), raw(*address), address->size) != 0 || ::listen(fd.get(), kMost) != 0) {
    return fail(errno == EADDRINUSE ? ErrorCode::Exists : ErrorCode::Io,
                "{}: weft-{} runs on this host already, or its socket cannot be made",
                std::strerror(errno), service);
  }
  return Control{std::move(fd)};
}

std::vector<int> Control::descriptors() const {
  std::vector<int> all{listener_.get()};
  for (const Connection& connection : connections_) {
    all.push_back(connection.fd.get());
  }
  return all;
}

void Control::accept() {
  while (true) {
    os::UniqueFd fd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!fd) {
      return;
    }
    if (connections_.size() < kMost && is_trusted(fd.get())) {
      connections_.push_back({.fd = std::move(fd), .heard = {}});
    }
  }
}

/// False: the connection is over.
bool Control::take(Connection& connection, const Answer& answer) {
  std::array<char, kMostHeard> buffer{};
  const ssize_t length = recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (length <= 0) {
    return length < 0 && errno == EAGAIN;
  }
  connection.heard.append(buffer.data(), static_cast<std::size_t>(length));
  const auto end = connection.heard.find('\n');
  if (end == std::string::npos) {
    return connection.heard.size() < kMostHeard;
  }
  const std::string line = connection.heard.substr(0, end);
  connection.heard.erase(0, end + 1);
  if (line == "watch") {
    connection.watches = true;
    return true;
  }
  static_cast<void>(send_whole(connection.fd.get(), answer(line)));
  return false;
}

void Control::handle(const Answer& answer) {
  accept();
  std::erase_if(connections_, [&](Connection& connection) { return !take(connection, answer); });
}

void Control::push(std::string_view line) {
  const std::string whole = std::string{line} + "\n";
  std::erase_if(connections_, [&](const Connection& connection) {
    return connection.watches && !send_whole(connection.fd.get(), whole);
  });
}

std::size_t Control::watchers() const {
  return static_cast<std::size_t>(std::ranges::count_if(connections_, &Connection::watches));
}

Result<std::string> ask(std::string_view service, std::string_view line, Duration within) {
  const auto fd = connect_to(service);
  if (!fd) {
    return std::unexpected(fd.error());
  }
  if (!send_whole(fd->get(), std::string{line} + "\n")) {
    return fail(ErrorCode::Io, "weft-{} does not listen", service);
  }
  const Instant until = os::now() + within;
  std::string said;
  std::array<char, 4'096> buffer{};
  while (said.size() < kMostAnswered) {
    const std::int64_t left_ms = (until - os::now()).nanoseconds() / 1'000'000;
    pollfd wait{.fd = fd->get(), .events = POLLIN, .revents = 0};
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) != 1) {
      return fail(ErrorCode::TimedOut, "weft-{} does not answer", service);
    }
    const ssize_t length = recv(fd->get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length <= 0) {
      break;
    }
    said.append(buffer.data(), static_cast<std::size_t>(length));
  }
  return said;
}

std::vector<std::string> services_named(std::string_view prefix, std::string_view key,
                                        std::string_view sockets) {
  const std::string begin = fmt::format(" @weft-{}", prefix);
  const std::string end = fmt::format(":{}", key);
  std::set<std::string> names;  // connections have the name of the socket that took them
  std::istringstream lines{std::string{sockets}};
  for (std::string line; !key.empty() && std::getline(lines, line);) {
    const std::size_t at = line.find(begin);
    if (at != std::string::npos && line.ends_with(end)) {
      const std::size_t name = at + begin.size() - prefix.size();
      names.insert(line.substr(name, line.size() - end.size() - name));
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> services_named(std::string_view prefix) {
  std::ifstream file{"/proc/net/unix"};
  std::ostringstream text;
  text << file.rdbuf();
  return services_named(prefix, host_key(), text.view());
}

Result<os::UniqueFd> watch(std::string_view service) {
  auto fd = connect_to(service);
  if (fd && !send_whole(fd->get(), "watch\n")) {
    return fail(ErrorCode::Io, "weft-{} does not listen", service);
  }
  return fd;
}

}  // namespace weft::programs
