#include "tcp_driver.h"

#include <poll.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "programs/iwpm/reserved_socket.h"
#include "programs/iwpm/sockets.h"

namespace weft::testing {

namespace iwpm = programs::iwpm;
using wire::iwpm::ConnectionInfo;
using wire::iwpm::SocketAddress;

namespace {

constexpr int kWaitMs = 60'000;  // policy

/// The peer's mapper may have no mapping: then its own address stands (R-IWPM-18).
[[nodiscard]] Result<ConnectionInfo> usable(Result<ConnectionInfo> info) {
  constexpr auto kReject = static_cast<std::uint16_t>(wire::iwpm::DaemonError::RemoteQueryReject);
  if (info && info->error != 0 && info->error != kReject) {
    return fail(ErrorCode::Refused, "{}", iwpm::error_text(info->error));
  }
  return info;
}

[[nodiscard]] Result<void> wait_for(const os::UniqueFd& socket, short events) {
  pollfd wait{.fd = socket.get(), .events = events, .revents = 0};
  return poll(&wait, 1, kWaitMs) == 1 ? Result<void>{}
                                      : fail(ErrorCode::TimedOut, "nothing happens on TCP");
}

void as_rnic(core::DeviceInit& init) { init.node_type = core::NodeType::Rnic; }

}  // namespace

TcpDriver::TcpDriver(core::Registry& registry, iwpm::Driver mapper)
    : FakeDriver(
          registry,
          core::PortCapabilities{core::PortCapability::IwCm} | core::PortCapability::ProtocolIwarp,
          as_rnic),
      registry_(registry),
      mapper_(std::move(mapper)) {}

Result<std::unique_ptr<TcpDriver>> TcpDriver::open(core::Registry& registry) {
  auto mapper = iwpm::Driver::open();
  if (!mapper) {
    return std::unexpected(std::move(mapper.error()));
  }
  std::unique_ptr<TcpDriver> made{
      new TcpDriver{registry, *std::move(mapper)}
  };
  if (auto registered = made->register_as("iwtcp%d"); !registered) {
    return std::unexpected(std::move(registered.error()));
  }
  return made;
}

TcpDriver::~TcpDriver() { registry_.unregister_device(device()); }

TcpDriver* TcpDriver::of(core::Device& device) {
  const bool is_ours = device.port_can(device.first_port(), core::PortCapability::IwCm) &&
                       device.operations().driver_id == kDriverId;
  return is_ours ? static_cast<TcpDriver*>(&core::testing::driver_of(device)) : nullptr;
}

Result<TcpEnd> TcpDriver::listen(const SocketAddress& local) {
  auto info = usable(mapper_.map(local, 0));
  if (!info) {
    return std::unexpected(std::move(info.error()));
  }
  auto socket = iwpm::mapped_socket(info->mapped_local);
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  if (::listen(socket->get(), 1) != 0) {
    return fail(ErrorCode::Io, "listen: {}", std::strerror(errno));
  }
  return TcpEnd{.socket = *std::move(socket), .info = *info};
}

Result<TcpEnd> TcpDriver::accept(const TcpEnd& listener) {
  if (auto ready = wait_for(listener.socket, POLLIN); !ready) {
    return std::unexpected(std::move(ready.error()));
  }
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  auto* const address = std::bit_cast<sockaddr*>(&from);
  os::UniqueFd accepted{::accept4(listener.socket.get(), address, &size, SOCK_CLOEXEC)};
  const auto mapped_remote = accepted ? iwpm::address_of(address) : std::nullopt;
  if (!mapped_remote) {
    return fail(ErrorCode::Io, "accept: {}", std::strerror(errno));
  }
  auto info = mapper_.find_remote(listener.info.mapped_local, *mapped_remote);
  if (!info) {
    return std::unexpected(std::move(info.error()));
  }
  info->mapped_remote = *mapped_remote;
  return TcpEnd{.socket = std::move(accepted), .info = *info};
}

Result<TcpEnd> TcpDriver::connect(const SocketAddress& local, const SocketAddress& remote) {
  auto info = usable(mapper_.connect(local, remote, 0));
  auto socket = info ? iwpm::mapped_socket(info->mapped_local) : std::unexpected(info.error());
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  const iwpm::RawAddress peer = iwpm::raw(info->mapped_remote);
  int error = ::connect(socket->get(), std::bit_cast<const sockaddr*>(&peer.storage), peer.size);
  if (error != 0 && errno == EINPROGRESS && wait_for(*socket, POLLOUT)) {
    socklen_t size = sizeof error;
    getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
  }
  if (error != 0) {
    return fail(ErrorCode::Refused, "{}: {}", wire::iwpm::to_string(info->mapped_remote),
                std::strerror(errno));
  }
  return TcpEnd{.socket = *std::move(socket), .info = *info};
}

Result<void> TcpDriver::unmap(const SocketAddress& local) { return mapper_.unmap(local); }

}  // namespace weft::testing
