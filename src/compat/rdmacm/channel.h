#pragma once

// An event channel of this program: one connection for requests, which any thread may use, and a
// socket on which the daemon announces events and whose descriptor the program polls.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "compat/rdmacm/abi.h"
#include "compat/rdmacm/refusals.h"
#include "host/control_socket.h"

namespace weft::compat {

/// An event channel and its connection to the daemon.
class Channel {
 public:
  Channel(host::ControlSocket control, os::UniqueFd events, std::uint32_t number);

  /// The object that the program holds.
  [[nodiscard]] rdma_event_channel* front() { return &front_; }
  /// The channel's number at the daemon.
  [[nodiscard]] std::uint32_t number() const { return number_; }

  /// Sends a request and returns the response of type `Answer`; nullopt after refuse() with the
  /// daemon's errno and reason.
  template <class Answer>
  [[nodiscard]] std::optional<Answer> ask(const uabi::Message& question);

  /// The next event. Waits for it unless the program made the descriptor non-blocking; nullopt
  /// after refuse(), with EAGAIN among others. A cancellation point.
  [[nodiscard]] std::optional<uabi::RdmaCmEvent> next_event();

  /// The program destroys the channel.
  void end();

 private:
  [[nodiscard]] std::optional<uabi::Message> exchange(const uabi::Message& question);
  [[nodiscard]] bool wait_for_event();
  [[nodiscard]] bool has_ended();

  rdma_event_channel front_{};
  host::ControlSocket control_;
  os::UniqueFd events_;
  const std::uint32_t number_;
  std::mutex asking_;
  bool is_broken_{};  // the daemon is gone or violated the protocol; guarded by asking_
  bool has_ended_{};  // destroyed by the program; guarded by asking_
};

/// Null after refuse().
[[nodiscard]] std::shared_ptr<Channel> open_channel();
/// The channel of a program's object; null after refuse() if there is none (any more).
[[nodiscard]] std::shared_ptr<Channel> channel_of(const rdma_event_channel* front);
/// Ends the channel of a program's object (rdma_destroy_event_channel(3)).
void close_channel(const rdma_event_channel* front);

// --- implementation

template <class Answer>
std::optional<Answer> Channel::ask(const uabi::Message& question) {
  auto answer = exchange(question);
  if (!answer) {
    return std::nullopt;
  }
  if (auto* const wanted = answer->get_if<Answer>()) {
    return std::move(*wanted);
  }
  if (const auto* const refusal = answer->get_if<uabi::RdmaCmAnswer>();
      refusal != nullptr && refusal->error != 0) {
    refuse(static_cast<int>(refusal->error), refusal->reason);
  } else {
    refuse(EIO, "the fabric daemon answered something else");
  }
  return std::nullopt;
}

}  // namespace weft::compat
