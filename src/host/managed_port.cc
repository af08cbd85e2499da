#include "host/managed_port.h"

#include <algorithm>

#include "host/control_socket.h"
#include "host/process.h"
#include "os/run_directory.h"
#include "uabi/messages.h"

namespace weft::host {

Result<ManagedPort> ask_managed_port(const ProcessOptions& options, const std::string& device,
                                     PortNumber port) {
  constexpr Duration kWaitLimit = Duration::seconds(10);  // policy
  const auto socket = ControlSocket::connect(os::control_path(options.run, options.fabric));
  if (!socket) {
    return std::unexpected(socket.error());
  }
  if (const auto sent = socket->send(uabi::DescribeUmadDevice{
          .version = uabi::kVersion, .node = options.host, .device = device});
      !sent) {
    return std::unexpected(sent.error());
  }
  const auto received = socket->receive(kWaitLimit);
  if (!received) {
    return std::unexpected(received.error());
  }
  const auto* const told = received->message.get_if<uabi::UmadDevice>();
  if (told == nullptr) {
    const auto* const refused = received->message.get_if<uabi::Refused>();
    return fail(ErrorCode::NoSuchDevice, "{}",
                refused != nullptr ? refused->reason : "the fabric daemon answered something else");
  }
  const auto found = std::ranges::find(told->ports, port.value(), &uabi::UmadPort::number);
  if (found == told->ports.end()) {
    return fail(ErrorCode::NoSuchDevice, "{} has no port {}", device, port.value());
  }
  return ManagedPort{.pkey_violations = found->pkey_violations,
                     .qkey_violations = found->qkey_violations,
                     .subnet_timeout = found->subnet_timeout,
                     .init_type_reply = found->init_type_reply};
}

}  // namespace weft::host
