#pragma once

// The local socket by which a service of a host is asked: one line in, an answer out, and lines
// that follow for those that watch. Its address is in the abstract namespace and names the host, so
// that nothing of it is left behind when the service is killed, and one service has it at a time.
// Only the service's own user, or root, is answered. Not thread-safe; nothing blocks but ask().

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/unique_fd.h"

namespace weft::programs {

class Control {
 public:
  /// Connections at a time; policy.
  static constexpr std::size_t kMost = 64;

  /// Exists: another service of that name runs on this host.
  [[nodiscard]] static Result<Control> listen(std::string_view service);

  /// Readable when handle() has something to do.
  [[nodiscard]] std::vector<int> descriptors() const;
  /// What `answer` says to a line goes back. "watch" keeps the connection for push().
  using Answer = std::function<std::string(std::string_view line)>;
  void handle(const Answer& answer);
  /// A line to all that watch. Who does not read loses its connection.
  void push(std::string_view line);
  [[nodiscard]] std::size_t watchers() const;

 private:
  struct Connection {
    os::UniqueFd fd;
    std::string heard;
    bool watches{};
  };
  explicit Control(os::UniqueFd listener) : listener_(std::move(listener)) {}
  void accept();
  [[nodiscard]] static bool take(Connection& connection, const Answer& answer);

  os::UniqueFd listener_;
  std::vector<Connection> connections_;
};

/// Asks the service of this host; what it says within the time, to its end or to the limit.
/// NotFound: there is none.
[[nodiscard]] Result<std::string> ask(std::string_view service, std::string_view line,
                                      Duration within);
/// The services of this host whose names begin so, sorted: of those of which there may be several,
/// each has a name of its own. Only those of this network namespace are seen.
[[nodiscard]] std::vector<std::string> services_named(std::string_view prefix);
/// The same of the host with that key, from the text of /proc/net/unix.
[[nodiscard]] std::vector<std::string> services_named(std::string_view prefix, std::string_view key,
                                                      std::string_view sockets);
/// A connection on which "watch" was said.
[[nodiscard]] Result<os::UniqueFd> watch(std::string_view service);

}  // namespace weft::programs
