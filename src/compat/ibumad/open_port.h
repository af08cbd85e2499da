#pragma once

// An open port of this program: its agents by one connection, its MADs by another, whose descriptor
// is the number that the program knows the port by.

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

class OpenPort {
 public:
  OpenPort(host::ControlSocket control, host::ControlSocket mads)
      : control_(std::move(control)), mads_(std::move(mads)) {}

  [[nodiscard]] int fd() const { return mads_.fd(); }

  /// The agent's number.
  [[nodiscard]] Result<std::uint32_t> register_agent(const uabi::RegisterUmadAgent& agent);
  [[nodiscard]] Result<void> unregister_agent(std::uint32_t agent);
  [[nodiscard]] bool has_agent(std::uint32_t agent) const;

  /// An errno, 0 when the daemon has it. Waits while it has too many already.
  [[nodiscard]] int send(const ib_user_mad& envelope, ByteSpan mad);

  /// The next MAD. An errno: EAGAIN when there is none; ENOSPC or EINVAL when `size` is too small,
  /// and then it stays. `size` becomes the MAD's.
  [[nodiscard]] int receive(ib_user_mad& envelope, int& size);

 private:
  [[nodiscard]] Result<std::uint32_t> answer_to(const uabi::Message& question);
  [[nodiscard]] int take(ib_user_mad& envelope, const uabi::Message& message, int& size);

  host::ControlSocket control_;
  host::ControlSocket mads_;
  std::mutex asking_;
  std::mutex reading_;
  std::atomic<std::uint32_t> agents_{};  // a bit each
  std::array<std::byte, uabi::kMaxMessageBytes> buffer_{};
};

/// Null when the program has no such port.
[[nodiscard]] std::shared_ptr<OpenPort> port_of(int number);

}  // namespace weft::compat
