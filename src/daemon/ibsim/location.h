#pragma once

// The location of the ibsim server: abstract socket names, as ibsim binds them, or UDP ports of
// this machine, as with `ibsim -r`. Value type.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/ibsim/socket.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// A location, and the sockets to serve it.
class IbsimLocation {
 public:
  /// Parses a socket name prefix such as `sim`, or `127.0.0.1:7070`, the control port, which is
  /// followed by the client ports. Other addresses are refused, because the sender of a remote
  /// datagram cannot be authenticated.
  [[nodiscard]] static Result<IbsimLocation> read(std::string_view text);

  /// For questions; Exists while another has it.
  [[nodiscard]] Result<os::UniqueFd> bind_control() const;
  /// For the MADs of client `number`, which says that it is `id` (its process, or its UDP port).
  [[nodiscard]] Result<os::UniqueFd> open_client(std::uint32_t number, std::uint32_t id) const;

  /// The process that sent the datagram, according to the kernel; none unless it is a live process
  /// of this user.
  [[nodiscard]] std::optional<pid_t> sender_of(const IbsimDatagram& datagram) const;
  /// True if the named socket belongs to the program.
  [[nodiscard]] bool is_of(pid_t program, std::uint32_t id) const;

 private:
  std::string name_;      // 0: abstract names are used
  std::uint16_t port_{};  // 0: names
};

}  // namespace weft::daemon
