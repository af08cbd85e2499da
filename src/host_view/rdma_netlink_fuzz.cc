// Any bytes as a datagram to RDMA netlink: refused as Linux would or answered, and every answer is
// whole messages.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "host_view/rdma_netlink.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace host_view = weft::host_view;
  static const host_view::HostView host = [] {
    host_view::ProgramView program{.pid = 1, .context = 1};
    program.qps.resize(40);
    program.cm_ids.resize(2);
    host_view::DeviceView device{.index = 1, .name = "weft0", .protocol = "ib"};
    device.ports.push_back({.number = 1});
    device.programs.push_back(program);
    host_view::HostView view;
    view.devices.push_back(device);
    return view;
  }();
  for (const auto& datagram :
       host_view::answer(std::as_bytes(std::span{data, size}), host, {}, nullptr)) {
    weft::ByteSpan rest = datagram;
    while (!rest.empty()) {
      if (!weft::wire::netlink::take_message(rest)) {
        std::abort();
      }
    }
  }
  return 0;
}
