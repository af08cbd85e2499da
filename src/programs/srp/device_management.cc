#include "programs/srp/device_management.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace weft::programs::srp {

DeviceManagement::~DeviceManagement() {
  for (Port& port : ports_) {
    port.readiness.release();  // the descriptor is the library's
  }
}

void DeviceManagement::add_port(const std::string& device, std::uint8_t port) {
  auto opened = UmadPort::open(device, port);
  if (!opened) {
    log_(fmt::format("srp_daemon will not find targets here: {}", opened.error().reason));
    return;
  }
  const int fd = opened->fd();
  Port& added = ports_.emplace_back(*std::move(opened), asio::posix::stream_descriptor{loop_, fd});
  wait(added);
}

void DeviceManagement::wait(Port& port) {
  port.readiness.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, &port](const std::error_code& error) {
                              if (!error) {
                                answer_all(port);
                              }
                            });
}

void DeviceManagement::answer_all(Port& port) {
  for (;;) {
    const auto request = port.umad.receive();
    if (!request) {
      log_(request.error().reason);
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
