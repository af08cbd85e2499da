#include "programs/iwpm/reserved_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "programs/iwpm/sockets.h"

namespace weft::programs::iwpm {

using wire::iwpm::SocketAddress;

namespace {

namespace fs = std::filesystem;

[[nodiscard]] std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{number}
                                                                  : std::nullopt;
}

[[nodiscard]] bool is_iwpmd_here(const fs::path& process) {
  std::ifstream file{process / "comm"};
  std::string name;
  std::getline(file, name);
  std::error_code error;
  return name == "iwpmd" && fs::read_symlink(process / "ns" / "net", error) ==
                                fs::read_symlink("/proc/self/ns/net", error);
}

/// Whether it is a TCP socket with that port.
[[nodiscard]] bool keeps(const os::UniqueFd& socket, const SocketAddress& address) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         port_of(socket) == address.port;
}

[[nodiscard]] os::UniqueFd socket_in(const fs::path& process, const SocketAddress& address) {
  const auto pid = number_of(process.filename().native());
  // The system calls by number: the C library of Debian 12 has them, older headers do not.
  const os::UniqueFd held{static_cast<int>(syscall(SYS_pidfd_open, pid.value_or(0), 0))};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{process / "fd", error}) {
    const auto number = number_of(entry.path().filename().native());
    if (!held || !number || !fs::read_symlink(entry, error).native().starts_with("socket:")) {
      continue;
    }
    os::UniqueFd copy{static_cast<int>(syscall(SYS_pidfd_getfd, held.get(), *number, 0))};
    if (copy && keeps(copy, address)) {
      fcntl(copy.get(), F_SETFL, fcntl(copy.get(), F_GETFL) | O_NONBLOCK);
      return copy;
    }
  }
  return {};
}

}  // namespace

Result<os::UniqueFd> reserved_socket(const SocketAddress& address) {
  std::error_code error;
  for (const auto& process : fs::directory_iterator{"/proc", error}) {
    if (!number_of(process.path().filename().native()) || !is_iwpmd_here(process.path())) {
      continue;
    }
    if (os::UniqueFd found = socket_in(process.path(), address)) {
      return found;
    }
  }
  return fail(ErrorCode::NotFound, "no iwpmd of this host keeps {}",
              wire::iwpm::to_string(address));
}

Result<os::UniqueFd> mapped_socket(const SocketAddress& address) {
  auto own = bound_socket(SOCK_STREAM, address);
  if (own || own.error().code != ErrorCode::AddressInUse) {
    return own;
  }
  auto reserved = reserved_socket(address);
  return reserved ? std::move(reserved) : std::move(own);
}

}  // namespace weft::programs::iwpm
