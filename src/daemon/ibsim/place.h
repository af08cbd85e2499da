#pragma once

// Where programs with libumad2sim find their server: at sockets with abstract names, as ibsim binds
// them, or at UDP ports of this machine, as `ibsim -r` does. A value.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/ibsim/socket.h"
#include "os/unique_fd.h"

namespace weft::daemon {

class IbsimPlace {
 public:
  /// The name of sockets, as `sim`; or `127.0.0.1:7070`, the port for questions, behind which
  /// those of clients follow. No other address, for datagrams of others prove nothing.
  [[nodiscard]] static Result<IbsimPlace> read(std::string_view text);

  /// For questions; Exists while another has it.
  [[nodiscard]] Result<os::UniqueFd> bind_control() const;
  /// For the MADs of client `number`, which says that it is `id` (its process, or its UDP port).
  [[nodiscard]] Result<os::UniqueFd> open_client(std::uint32_t number, std::uint32_t id) const;

  /// Whose datagram it is, as the kernel knows: only for programs of this user that live.
  [[nodiscard]] std::optional<pid_t> sender_of(const IbsimDatagram& datagram) const;
  /// The socket that a program names is its own.
  [[nodiscard]] bool is_of(pid_t program, std::uint32_t id) const;

 private:
  std::string name_;
  std::uint16_t port_{};  // 0: names
};

}  // namespace weft::daemon
