#pragma once

// An open port of this program: one connection for agents, and one for MADs, whose descriptor is
// the number by which the program knows the port. Any thread may call any member.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "compat/ibumad/abi.h"
#include "host/control_socket.h"

namespace weft::compat {

/// One port opened by umad_open_port(3).
class OpenPort {
 public:
  OpenPort(host::ControlSocket control, host::ControlSocket mads)
      : control_(std::move(control)), mads_(std::move(mads)) {}

  [[nodiscard]] int fd() const { return mads_.fd(); }

  /// Returns the agent's number.
  [[nodiscard]] Result<std::uint32_t> register_agent(const uabi::RegisterUmadAgent& agent);
  [[nodiscard]] Result<void> unregister_agent(std::uint32_t agent);
  /// True if the agent is registered on this port.
  [[nodiscard]] bool has_agent(std::uint32_t agent) const;

  /// Sends a MAD; returns 0 or an errno. Waits while too many are queued at the daemon.
  [[nodiscard]] int send(const ib_user_mad& envelope, ByteSpan mad);

  /// Receives the next MAD and sets `size` to its length; returns 0 or an errno: EAGAIN if there is
  /// none; ENOSPC or EINVAL if `size` is too small, and the MAD stays queued.
  [[nodiscard]] int receive(ib_user_mad& envelope, int& size);

 private:
  [[nodiscard]] Result<std::uint32_t> answer_to(const uabi::Message& question);
  [[nodiscard]] int take(ib_user_mad& envelope, const uabi::Message& message, int& size);

  host::ControlSocket control_;
  host::ControlSocket mads_;
  std::mutex asking_;
  std::mutex reading_;
  std::atomic<std::uint32_t> agents_{};  // one bit each
  std::array<std::byte, uabi::kMaxMessageBytes> buffer_{};
};

/// Null if the program has no such port open.
[[nodiscard]] std::shared_ptr<OpenPort> port_of(int number);

}  // namespace weft::compat
