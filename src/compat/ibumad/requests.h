#pragma once

// What this library asks the daemon of the fabric that the environment names, and how it says no.

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"
#include "host/control_socket.h"
#include "uabi/messages.h"

namespace weft::compat {

/// The node that this program runs on: a host or a switch.
[[nodiscard]] std::string node_of_environment();

[[nodiscard]] Result<host::ControlSocket> connect_to_daemon();

/// The answer, which must be of the one kind; the daemon's refusal as an error.
template <class Answer>
[[nodiscard]] Result<std::pair<Answer, std::vector<os::UniqueFd>>> ask(
    const host::ControlSocket& daemon, const uabi::Message& question);

/// The same on a connection of its own.
template <class Answer>
[[nodiscard]] Result<Answer> ask(const uabi::Message& question);

/// With WEFT_EXPLAIN=1 on standard error.
void explain(std::string_view reason);

/// A failure that whoever runs the program must learn.
void complain(std::string_view reason);

// --- how it is done

[[nodiscard]] Result<host::Received> exchange(const host::ControlSocket& daemon,
                                              const uabi::Message& question);

template <class Answer>
Result<std::pair<Answer, std::vector<os::UniqueFd>>> ask(const host::ControlSocket& daemon,
                                                         const uabi::Message& question) {
  auto received = exchange(daemon, question);
  if (!received) {
    return std::unexpected(received.error());
  }
  auto* const answer = std::get_if<Answer>(&received->message);
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
