#include "programs/srp/device_management.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace weft::programs::srp {

DeviceManagement::~DeviceManagement() {
  for (Port& port : ports_) {
    port.readiness.release();  // the descriptor is the library's
  }
}

void DeviceManagement::remove_port(std::uint8_t port) {
  const auto found = std::ranges::find(ports_, port, &Port::number);
  if (found != ports_.end()) {
    found->readiness.release();
    ports_.erase(found);
  }
}

void DeviceManagement::refresh_port(const std::string& device, std::uint8_t port) {
  if (std::ranges::find(ports_, port, &Port::number) != ports_.end()) {
    return;  // its agent is bound to no LID or GID
  }
  auto opened = UmadPort::open(device, port);
  if (!opened) {
    log_(fmt::format("srp_daemon will not find targets here: {}", opened.error().reason));
    return;
  }
  const int fd = opened->fd();
  Port& added =
      ports_.emplace_back(port, *std::move(opened), asio::posix::stream_descriptor{loop_, fd});
  wait(added);
}

void DeviceManagement::wait(Port& port) {
  port.readiness.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [this, &port, alive = std::weak_ptr{port.alive}](const std::error_code& error) {
        if (!error && !alive.expired()) {
          answer_all(port);
        }
      });
}

void DeviceManagement::answer_all(Port& port) {
  for (;;) {
    const auto request = port.umad.receive();
    if (!request) {
      log_(request.error().reason);
      remove_port(port.number);  // until it is refreshed
      return;
    }
    if (!*request) {
      break;
    }
    port.umad.answer(agent_.answer(**request));
  }
  wait(port);
}

}  // namespace weft::programs::srp
