#pragma once

// Requests of this library to the daemon of the fabric that the environment names, and error
// reporting. Any thread.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "host/control_socket.h"
#include "uabi/messages.h"

namespace weft::compat {

/// The node on which this program runs: a host or a switch.
[[nodiscard]] std::string node_of_environment();

/// Connects to the daemon of the environment's fabric.
[[nodiscard]] Result<host::ControlSocket> connect_to_daemon();

/// Sends a request and returns the response, which must be an `Answer`, or the daemon's refusal as
/// an error.
template <class Answer>
[[nodiscard]] Result<std::pair<Answer, std::vector<os::UniqueFd>>> ask(
    const host::ControlSocket& daemon, const uabi::Message& question);

/// The same over a new connection.
template <class Answer>
[[nodiscard]] Result<Answer> ask(const uabi::Message& question);

/// Prints a reason on standard error if WEFT_EXPLAIN=1.
void explain(std::string_view reason);

/// Reports a failure to the user on standard error.
void complain(std::string_view reason);

// --- implementation

[[nodiscard]] Result<host::Received> exchange(const host::ControlSocket& daemon,
                                              const uabi::Message& question);

template <class Answer>
Result<std::pair<Answer, std::vector<os::UniqueFd>>> ask(const host::ControlSocket& daemon,
                                                         const uabi::Message& question) {
  auto received = exchange(daemon, question);
  if (!received) {
    return std::unexpected(received.error());
  }
  auto* const answer = received->message.get_if<Answer>();
  if (answer == nullptr) {
    return fail(ErrorCode::Io, "the fabric daemon answered something else");
  }
  return std::pair{std::move(*answer), std::move(received->descriptors)};
}

template <class Answer>
Result<Answer> ask(const uabi::Message& question) {
  auto daemon = connect_to_daemon();
  if (!daemon) {
    return std::unexpected(daemon.error());
  }
  auto answer = ask<Answer>(*daemon, question);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return std::move(answer->first);
}

}  // namespace weft::compat
