#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "host/control_socket.h"
#include "node/umad_file.h"

namespace weft::daemon {

/// A program's envelope, cut to the bits that a packet has for each number.
[[nodiscard]] node::UmadEnvelope envelope_of(const uabi::UmadHeader& header);

/// An open port of a program: the file behind it, and the socket that carries its MADs. It never
/// makes the daemon wait: what does not go out stays in the file, up to the file's limit.
class UmadChannel : public std::enable_shared_from_this<UmadChannel> {
 public:
  static constexpr int kTurn = 64;  // MADs before others are read; policy

  /// `on_sent`: the program sent something, so that the interfaces have something to do.
  /// `on_offence` hears what the program did wrong, as behind a count.
  struct Handlers {
    std::function<void()> on_sent;
    std::function<void(std::string_view)> on_offence;
  };

  UmadChannel(asio::io_context& loop, os::UniqueFd socket, const node::UmadPortAccess& access);
  UmadChannel(const UmadChannel&) = delete;
  UmadChannel& operator=(const UmadChannel&) = delete;

  void start(Handlers handlers);
  [[nodiscard]] node::UmadFile& file() { return *file_; }

  /// Hands over what came for the program, as much as it has room for.
  void flush();
  /// The file and its agents go, too.
  void end();

 private:
  void close();
  void wait_for_mads();
  void wait_for_room();
  [[nodiscard]] bool receive_one();
  [[nodiscard]] bool take(const host::Received& received);
  [[nodiscard]] Result<void> hand_over(const node::UmadReceived& received);

  asio::posix::stream_descriptor readiness_;
  host::ControlSocket socket_;
  std::optional<node::UmadFile> file_;  // until the end
  Handlers handlers_;
  bool waits_for_room_{};
};

}  // namespace weft::daemon
