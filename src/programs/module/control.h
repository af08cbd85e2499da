#pragma once

// How `weft module` finds loaded modules and speaks to them: each process has a socket in the
// abstract namespace, which ends with it however it ends. Only processes of the same user are
// answered, and asked.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs::modules {

/// Where a module is loaded.
struct Place {
  std::string fabric;
  std::string host;
  std::string name;
  bool operator==(const Place&) const = default;
};

enum class Operation : std::uint8_t { Describe = 'd', Read = 'r', Write = 'w', Remove = 'x' };

struct Request {
  Operation operation{};
  std::string entry;
  std::string text;
};

/// What was done, or why it was not.
struct Answer {
  bool is_done{};
  std::string text;
};

inline constexpr std::size_t kMostBytes = 128U << 10;  ///< policy: of a message

[[nodiscard]] std::string encode(const Request& request);
/// Foreign bytes. InvalidArgument: no request.
[[nodiscard]] Result<Request> decode_request(std::string_view bytes);
[[nodiscard]] std::string encode(const Answer& answer);
[[nodiscard]] Result<Answer> decode_answer(std::string_view bytes);

/// The name of a place's socket, without the zero that begins it; and back. The run directory's
/// path is in it as a number, so that fabrics of others do not meet.
[[nodiscard]] std::string socket_name(const Place& place);
/// NotFound: the name is none of this run directory's.
[[nodiscard]] Result<Place> place_of(std::string_view socket_name);

/// NameTaken: the module is loaded there. InvalidArgument: the names are too long.
[[nodiscard]] Result<os::UniqueFd> listen_at(const Place& place);
/// What is loaded on hosts of a fabric, from the text of /proc/net/unix.
[[nodiscard]] std::vector<Place> find_places(const std::string& fabric, std::string_view sockets);
[[nodiscard]] std::vector<Place> find_places(const std::string& fabric);

/// A connection whose other end is the same user's.
[[nodiscard]] Result<os::UniqueFd> connect_to(const Place& place);
[[nodiscard]] bool is_own_user(int socket);
/// Of the other end; 0: not known.
[[nodiscard]] pid_t peer_of(int socket);
[[nodiscard]] Result<void> send_message(int socket, std::string_view bytes);
/// Io: the other end is gone.
[[nodiscard]] Result<std::string> receive_message(int socket);

}  // namespace weft::programs::modules
