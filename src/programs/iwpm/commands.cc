#include "programs/iwpm/commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "programs/iwpm/driver.h"
#include "programs/iwpm/reserved_socket.h"
#include "programs/iwpm/service.h"
#include "programs/iwpm/sockets.h"

namespace weft::programs::iwpm {

using wire::iwpm::ConnectionInfo;
using wire::iwpm::SocketAddress;

namespace {

constexpr int kFailed = 1;
constexpr int kConnectWaitMs = 60'000;  // policy
constexpr Duration kStatusWithin = Duration::seconds(5);
constexpr std::uint16_t kRemoteReject =
    static_cast<std::uint16_t>(wire::iwpm::DaemonError::RemoteQueryReject);

[[nodiscard]] int print_error(std::string_view reason) {
  fmt::print(stderr, "weft-iwpm: {}\n", reason);
  return kFailed;
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);  // who started it may wait for the line
}

/// A mapping, whose error is none or that the peer has none.
[[nodiscard]] Result<ConnectionInfo> usable(Result<ConnectionInfo> info) {
  if (info && info->error != 0 && info->error != kRemoteReject) {
    return fail(ErrorCode::Refused, "{}", error_text(info->error));
  }
  return info;
}

[[nodiscard]] std::string text_of(const ConnectionInfo& info) {
  std::string text = fmt::format("{} mapped to {}", wire::iwpm::to_string(info.local),
                                 wire::iwpm::to_string(info.mapped_local));
  if (info.remote.is_ip()) {
    text += fmt::format(", {} to {}", wire::iwpm::to_string(info.remote),
                        wire::iwpm::to_string(info.mapped_remote));
  }
  return info.error == 0 ? text : fmt::format("{} ({})", text, error_text(info.error));
}

[[nodiscard]] bool waits_for(int fd, short events) {
  pollfd wait{.fd = fd, .events = events, .revents = 0};
  return poll(&wait, 1, kConnectWaitMs) == 1;
}

}  // namespace

int serve() {
  const auto service = Service::start();
  if (!service) {
    return print_error(service.error().reason);
  }
  print_line("the port mapper listens");
  const auto ended = (*service)->run();
  return ended ? 0 : print_error(ended.error().reason);
}

int show_status(bool is_json) {
  const auto said = ask(kServiceName, is_json ? "json" : "status", kStatusWithin);
  if (!said) {
    return print_error(said.error().reason);
  }
  fmt::print("{}", *said);
  return 0;
}

int map(const MapOptions& options) {
  const auto local = parse_address(options.local);
  const auto remote = options.remote.empty() ? Result<SocketAddress>{SocketAddress{}}
                                             : parse_address(options.remote);
  if (!local || !remote) {
    return print_error((local ? remote : local).error().reason);
  }
  auto driver = Driver::open();
  if (!driver) {
    return print_error(driver.error().reason);
  }
  const std::uint32_t flags = options.keeps_port ? wire::iwpm::kFlagNoPortMap : 0;
  const auto info = usable(remote->is_ip() ? driver->connect(*local, *remote, flags)
                                           : driver->map(*local, flags));
  if (!info) {
    return print_error(info.error().reason);
  }
  print_line(text_of(*info));
  if (options.holds) {
    std::array<char, 256> ignored{};
    while (::read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) {
    }
  }
  const auto unmapped = driver->unmap(*local);
  return unmapped ? 0 : print_error(unmapped.error().reason);
}

int listen(const std::string& text) {
  const auto local = parse_address(text);
  auto driver = local ? Driver::open() : std::unexpected(local.error());
  if (!driver) {
    return print_error(driver.error().reason);
  }
  const auto info = usable(driver->map(*local, 0));
  if (!info) {
    return print_error(info.error().reason);
  }
  const auto listener = mapped_socket(info->mapped_local);
  if (!listener || ::listen(listener->get(), 1) != 0) {
    return print_error(listener ? std::strerror(errno) : listener.error().reason);
  }
  print_line(text_of(*info));
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  auto* const address = std::bit_cast<sockaddr*>(&from);
  if (!waits_for(listener->get(), POLLIN)) {
    return print_error("nobody connects");
  }
  const os::UniqueFd accepted{accept4(listener->get(), address, &size, SOCK_CLOEXEC)};
  const auto mapped_remote = accepted ? address_of(address) : std::nullopt;
  if (!mapped_remote) {
    return print_error(std::strerror(errno));
  }
  const auto whose = driver->find_remote(info->mapped_local, *mapped_remote);
  if (!whose) {
    return print_error(whose.error().reason);
  }
  print_line(whose->error == 0
                 ? fmt::format("a connection of {} from {}", wire::iwpm::to_string(whose->remote),
                               wire::iwpm::to_string(*mapped_remote))
                 : fmt::format("a connection from {}", wire::iwpm::to_string(*mapped_remote)));
  const auto unmapped = driver->unmap(*local);
  return unmapped ? 0 : print_error(unmapped.error().reason);
}

int connect(const std::string& from, const std::string& to) {
  const auto local = parse_address(from);
  const auto remote = parse_address(to);
  if (!local || !remote) {
    return print_error((local ? remote : local).error().reason);
  }
  auto driver = Driver::open();
  if (!driver) {
    return print_error(driver.error().reason);
  }
  const auto info = usable(driver->connect(*local, *remote, 0));
  if (!info) {
    return print_error(info.error().reason);
  }
  print_line(text_of(*info));
  const auto socket = mapped_socket(info->mapped_local);
  if (!socket) {
    return print_error(socket.error().reason);
  }
  const RawAddress peer = raw(info->mapped_remote);
  int error =
      ::connect(socket->get(), std::bit_cast<const sockaddr*>(&peer.storage), peer.size) == 0
          ? 0
          : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!waits_for(socket->get(), POLLOUT) ||
        getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = ETIMEDOUT;
    }
  }
  if (error != 0) {
    return print_error(
        fmt::format("{}: {}", wire::iwpm::to_string(info->mapped_remote), std::strerror(error)));
  }
  print_line("connected");
  const auto unmapped = driver->unmap(*local);
  return unmapped ? 0 : print_error(unmapped.error().reason);
}

}  // namespace weft::programs::iwpm
