#pragma once

// An event channel of this program: its requests by one connection, which any thread may use, and
// the socket that tells of events, whose descriptor is the program's to poll.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "compat/rdmacm/abi.h"
#include "compat/rdmacm/refusals.h"
#include "host/control_socket.h"

namespace weft::compat {

class Channel {
 public:
  Channel(host::ControlSocket control, os::UniqueFd events, std::uint32_t number);

  /// What the program holds.
  [[nodiscard]] rdma_event_channel* front() { return &front_; }
  /// As the daemon knows it.
  [[nodiscard]] std::uint32_t number() const { return number_; }

  /// The answer of that kind; nothing after refuse(), with the daemon's errno and words.
  template <class Answer>
  [[nodiscard]] std::optional<Answer> ask(const uabi::Message& question);

  /// The next event of the channel. Waits for it, unless the program made the descriptor
  /// non-blocking; nothing after refuse(), EAGAIN among the reasons. A place where threads are
  /// cancelled.
  [[nodiscard]] std::optional<uabi::RdmaCmEvent> next_event();

  /// The program wants it no more.
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
  bool is_broken_{};  // the daemon is gone, or said what it may not; under asking_
  bool has_ended_{};  // by the program; under asking_
};

/// Null after refuse().
[[nodiscard]] std::shared_ptr<Channel> open_channel();
/// The channel behind what the program holds; null after refuse() when there is none (any more).
[[nodiscard]] std::shared_ptr<Channel> channel_of(const rdma_event_channel* front);
void close_channel(const rdma_event_channel* front);

// --- how it is done

template <class Answer>
std::optional<Answer> Channel::ask(const uabi::Message& question) {
  auto answer = exchange(question);
  if (!answer) {
    return std::nullopt;
  }
  if (auto* const wanted = std::get_if<Answer>(&*answer)) {
    return std::move(*wanted);
  }
  if (const auto* const refusal = std::get_if<uabi::RdmaCmAnswer>(&*answer);
      refusal != nullptr && refusal->error != 0) {
    refuse(static_cast<int>(refusal->error), refusal->reason);
  } else {
    refuse(EIO, "the fabric daemon answered something else");
  }
  return std::nullopt;
}

}  // namespace weft::compat
