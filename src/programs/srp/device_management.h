#pragma once

// Device management of a host with targets: what srp_daemon and ibsrpdm ask of its ports is
// answered from srp::DeviceAgent. The loop's thread.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "programs/srp/umad_port.h"
#include "ulp/srp/device_agent.h"

namespace weft::programs::srp {

class DeviceManagement {
 public:
  using Log = std::function<void(const std::string&)>;

  DeviceManagement(asio::io_context& loop, Log log) : loop_(loop), log_(std::move(log)) {}
  ~DeviceManagement();
  DeviceManagement(const DeviceManagement&) = delete;
  DeviceManagement& operator=(const DeviceManagement&) = delete;

  /// Answers at a port, if it does not yet (srpt_refresh_port). A port that cannot be had is
  /// logged, with the reason, and may be had later.
  void refresh_port(const std::string& device, std::uint8_t port);
  /// Answers there no more; any number of times (srpt_unregister_mad_agent).
  void remove_port(std::uint8_t port);
  /// What is answered from now on.
  void set_agent(weft::srp::DeviceAgent agent) { agent_ = std::move(agent); }

 private:
  struct Port {
    std::uint8_t number;
    UmadPort umad;
    asio::posix::stream_descriptor readiness;
    std::shared_ptr<char> alive = std::make_shared<char>();  // for a handler that comes late
  };
  void wait(Port& port);
  void answer_all(Port& port);

  asio::io_context& loop_;
  const Log log_;
  weft::srp::DeviceAgent agent_{weft::srp::ControllerOptions{}};
  std::list<Port> ports_;
};

/// The service id by which RDMA-CM listens on a port of its TCP port space (IBTA annex A11.2).
[[nodiscard]] constexpr std::uint64_t service_id_of(std::uint16_t port) {
  return 0x0000'0000'0106'0000 | std::uint64_t{port};
}

}  // namespace weft::programs::srp
