#include "daemon/ibsim/location.h"

#include <netinet/in.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <limits>
#include <system_error>

#include "daemon/ibsim/messages.h"
#include "daemon/ibsim/udp_owner.h"

namespace weft::daemon {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1:";

}  // namespace

Result<IbsimLocation> IbsimLocation::read(std::string_view text) {
  IbsimLocation place;
  if (!text.starts_with(kLoopback)) {
    place.name_ = text;
    return place;
  }
  const std::string_view digits = text.substr(kLoopback.size());
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), place.port_);
  if (error != std::errc{} || end != digits.data() + digits.size() || place.port_ == 0) {
    return fail(ErrorCode::InvalidArgument, "{} is not a UDP port, such as {}7070", text,
                kLoopback);
  }
  return place;
}

Result<os::UniqueFd> IbsimLocation::bind_control() const {
  return port_ == 0 ? bind_ibsim(ibsim_name(name_, "ctl")) : bind_ibsim_port(port_);
}

Result<os::UniqueFd> IbsimLocation::open_client(std::uint32_t number, std::uint32_t id) const {
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint16_t>::max();
  if (port_ != 0 && (port_ + number + 1 > kLast || id == 0 || id > kLast)) {
    return fail(ErrorCode::InvalidArgument, "UDP ports {} and {} do not exist", port_ + number + 1,
                id);
  }
  auto socket = port_ == 0 ? bind_ibsim(ibsim_name(name_, "out", number))
                           : bind_ibsim_port(static_cast<std::uint16_t>(port_ + number + 1));
  if (!socket) {
    return socket;
  }
  const auto joined = port_ == 0 ? connect_ibsim(*socket, ibsim_name(name_, "in", id))
                                 : connect_ibsim_port(*socket, static_cast<std::uint16_t>(id));
  return joined ? std::move(socket) : std::unexpected(joined.error());
}

std::optional<pid_t> IbsimLocation::sender_of(const IbsimDatagram& datagram) const {
  if (port_ != 0) {
    const auto port = datagram.udp_port();
    return port ? find_udp_owner(*port) : std::nullopt;
  }
  return datagram.sender.uid == getuid() ? std::optional{datagram.sender.pid} : std::nullopt;
}

bool IbsimLocation::is_of(pid_t program, std::uint32_t id) const {
  return port_ == 0 || (id <= std::numeric_limits<std::uint16_t>::max() &&
                        find_udp_owner(static_cast<std::uint16_t>(id)) == program);
}

}  // namespace weft::daemon
