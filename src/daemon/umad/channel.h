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

/// Converts a program's header; numbers are truncated to the width they have in packets.
[[nodiscard]] node::UmadEnvelope envelope_of(const uabi::UmadHeader& header);

/// An open umad port of a program: its UmadFile, and the socket that carries its MADs. It never
/// blocks the daemon: MADs stay in the file, up to its limit. Used on the daemon's thread only.
class UmadChannel : public std::enable_shared_from_this<UmadChannel> {
 public:
  static constexpr int kBatch = 64;  // MADs read before other clients are served; policy

  /// `on_sent`: the program sent MADs, so the management interfaces must run. `on_offence` receives
  /// a description of the program's violation, worded to follow a count.
  struct Handlers {
    std::function<void()> on_sent;
    std::function<void(std::string_view)> on_offence;
  };

  UmadChannel(asio::io_context& loop, os::UniqueFd socket, const node::UmadPortAccess& access);
  UmadChannel(const UmadChannel&) = delete;
  UmadChannel& operator=(const UmadChannel&) = delete;

  void start(Handlers handlers);
  [[nodiscard]] node::UmadFile& file() { return *file_; }

  /// Sends queued MADs to the program, as far as its socket accepts them.
  void flush();
  /// Closes the file with its agents.
  void end();

 private:
  void close();
  void wait_for_mads();
  void wait_for_room();
  [[nodiscard]] bool receive_one();
  [[nodiscard]] bool take(const host::Received& received);
  [[nodiscard]] Result<void> deliver(const node::UmadReceived& received);

  asio::posix::stream_descriptor readiness_;
  host::ControlSocket socket_;
  std::optional<node::UmadFile> file_;  // empty after the end
  Handlers handlers_;
  bool waits_for_room_{};
};

}  // namespace weft::daemon
