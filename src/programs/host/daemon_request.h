#pragma once

// One question to the fabric's daemon on a control connection, and its answer. Any one thread.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/packet_socket.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::programs {

/// How long the daemon may take for an answer; policy.
inline constexpr int kAnswersWithinMs = 5'000;

/// The host that this process is on; "": none.
[[nodiscard]] std::string own_host();

/// Refused: there is no daemon.
[[nodiscard]] Result<os::PacketSocket> connect_to_daemon();

struct DaemonAnswer {
  uabi::Message message;
  std::vector<os::UniqueFd> descriptors;  // exactly those that belong to the message
};

/// Refused, with the daemon's reason; TimedOut: it does not answer within five seconds.
[[nodiscard]] Result<DaemonAnswer> ask_daemon(const os::PacketSocket& socket,
                                              const uabi::Message& request,
                                              std::span<const int> descriptors = {});
/// Another message that belongs to the answer; fails likewise.
[[nodiscard]] Result<DaemonAnswer> receive_answer(const os::PacketSocket& socket);

}  // namespace weft::programs
