#include "programs/host/kernel_addresses.h"

#include <algorithm>
#include <string>

#include "programs/host/daemon_request.h"
#include "uabi/messages.h"

namespace weft::programs {

Result<KernelAddresses> KernelAddresses::open() {
  auto socket = connect_to_daemon();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return KernelAddresses{*std::move(socket)};
}

Result<void> KernelAddresses::set(PKey pkey, std::span<const InterfaceAddress> addresses) {
  uabi::CarryAddresses request{
      .version = uabi::kVersion, .host = own_host(), .pkey = pkey.value(), .addresses = {}};
  for (const InterfaceAddress& address :
       addresses.first(std::min(addresses.size(), uabi::kMaxHostAddresses))) {
    request.addresses.push_back(to_string(address));
  }
  const auto answer = ask_daemon(socket_, std::move(request));
  return answer ? Result<void>{} : std::unexpected(answer.error());
}

}  // namespace weft::programs
