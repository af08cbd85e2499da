#include "programs/module/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "os/run_directory.h"

namespace weft::programs::modules {
namespace {

constexpr std::string_view kPrefix = "weft-module/";

[[nodiscard]] std::string prefix() {
  constexpr std::uint64_t kBasis = 0xCBF29CE484222325;  // FNV-1a
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = kBasis;
  for (const char letter : os::run_directory_path()) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  return fmt::format("{}{:016x}/", kPrefix, hash);
}

[[nodiscard]] Error system_error(const char* call) {
  return {ErrorCode::Io, fmt::format("{}: {}", call, std::strerror(errno))};
}

/// Empty: too long.
struct Address {
  sockaddr_un where{};
  socklen_t size{};
};
[[nodiscard]] Result<Address> address_of(const Place& place) {
  const std::string name = socket_name(place);
  Address address;
  address.where.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.where.sun_path) {
    return fail(ErrorCode::InvalidArgument,
                "the names of fabric, host and module are too long together: {} characters, of at "
                "most {}",
                name.size(), sizeof address.where.sun_path - 1);
  }
  std::memcpy(&address.where.sun_path[1], name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

[[nodiscard]] sockaddr* generic(Address& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address.where));
}

[[nodiscard]] Result<os::UniqueFd> make_socket() {
  os::UniqueFd made{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!made) {
    return std::unexpected(system_error("socket"));
  }
  return made;
}

[[nodiscard]] ucred credentials(int socket) {
  ucred who{.pid = 0, .uid = ~uid_t{0}, .gid = ~gid_t{0}};
  socklen_t size = sizeof who;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size);
  return who;
}

}  // namespace

std::string encode(const Request& request) {
  std::string bytes{static_cast<char>(request.operation)};
  bytes += request.entry;
  bytes += '\0';
  return bytes + request.text;
}

Result<Request> decode_request(std::string_view bytes) {
  if (bytes.empty() || std::string_view{"drwx"}.find(bytes.front()) == std::string_view::npos) {
    return fail(ErrorCode::InvalidArgument, "no request of this version");
  }
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos) {
    return fail(ErrorCode::InvalidArgument, "a request without an end of its entry's name");
  }
  return Request{.operation = static_cast<Operation>(bytes.front()),
                 .entry = std::string{bytes.substr(1, end - 1)},
                 .text = std::string{bytes.substr(end + 1)}};
}

std::string encode(const Answer& answer) { return (answer.is_done ? "+" : "-") + answer.text; }

Result<Answer> decode_answer(std::string_view bytes) {
  if (!bytes.starts_with('+') && !bytes.starts_with('-')) {
    return fail(ErrorCode::Io, "no answer of this version");
  }
  return Answer{.is_done = bytes.front() == '+', .text = std::string{bytes.substr(1)}};
}

std::string socket_name(const Place& place) {
  return fmt::format("{}{}/{}/{}", prefix(), place.fabric, place.host, place.name);
}

Result<Place> place_of(std::string_view socket_name) {
  const std::string own = prefix();
  if (!socket_name.starts_with(own)) {
    return fail(ErrorCode::NotFound, "{} is none of this run directory's", socket_name);
  }
  const std::string_view rest = socket_name.substr(own.size());
  const std::size_t host = rest.find('/');
  const std::size_t name = host == std::string_view::npos ? host : rest.find('/', host + 1);
  if (name == std::string_view::npos) {
    return fail(ErrorCode::NotFound, "{} names no place", socket_name);
  }
  return Place{.fabric = std::string{rest.substr(0, host)},
               .host = std::string{rest.substr(host + 1, name - host - 1)},
               .name = std::string{rest.substr(name + 1)}};
}

Result<os::UniqueFd> listen_at(const Place& place) {
  auto address = address_of(place);
  if (!address) {
    return std::unexpected(address.error());
  }
  auto made = make_socket();
  if (!made) {
    return made;
  }
  constexpr int kBacklog = 16;  // policy
  if (bind(made->get(), generic(*address), address->size) != 0) {
    if (errno == EADDRINUSE) {
      return fail(ErrorCode::NameTaken,
                  "{} is loaded on {} already; `weft module remove {}` takes it away", place.name,
                  place.host, place.name);
    }
    return std::unexpected(system_error("bind"));
  }
  if (listen(made->get(), kBacklog) != 0) {
    return std::unexpected(system_error("listen"));
  }
  return made;
}

std::vector<Place> find_places(const std::string& fabric, std::string_view sockets) {
  std::vector<Place> places;
  std::istringstream lines{std::string{sockets}};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.rfind(" @");
    const auto place = at == std::string::npos ? place_of("") : place_of(line.substr(at + 2));
    // Connections have the name of the socket that took them: each place once.
    if (place && place->fabric == fabric && std::ranges::find(places, *place) == places.end()) {
      places.push_back(*place);
    }
  }
  return places;
}

std::vector<Place> find_places(const std::string& fabric) {
  std::ifstream file{"/proc/net/unix"};
  std::ostringstream text;
  text << file.rdbuf();
  return find_places(fabric, text.view());
}

Result<os::UniqueFd> connect_to(const Place& place) {
  auto address = address_of(place);
  if (!address) {
    return std::unexpected(address.error());
  }
  auto made = make_socket();
  if (!made) {
    return made;
  }
  if (connect(made->get(), generic(*address), address->size) != 0) {
    return fail(ErrorCode::NotFound, "{} is not loaded on {}", place.name, place.host);
  }
  if (!is_own_user(made->get())) {
    return fail(ErrorCode::PermissionDenied, "{} on {} is another user's", place.name, place.host);
  }
  return made;
}

bool is_own_user(int socket) { return credentials(socket).uid == geteuid(); }

pid_t peer_of(int socket) { return credentials(socket).pid; }

Result<void> send_message(int socket, std::string_view bytes) {
  if (bytes.size() > kMostBytes) {
    return fail(ErrorCode::InvalidArgument, "{} bytes; a message has {} at most", bytes.size(),
                kMostBytes);
  }
  if (send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    return std::unexpected(system_error("send"));
  }
  return {};
}

Result<std::string> receive_message(int socket) {
  std::string bytes(kMostBytes, '\0');
  ssize_t count = 0;
  do {
    count = recv(socket, bytes.data(), bytes.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    return fail(ErrorCode::Io, "the other end is gone");
  }
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

}  // namespace weft::programs::modules
