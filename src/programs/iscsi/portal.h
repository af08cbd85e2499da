#pragma once

// TCP for an iSCSI target: a portal that listens, and its connections, on one Asio loop.

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "iscsi/stream_datamover.h"
#include "iscsi/target_server.h"

namespace weft::programs::iscsi {

class TcpConnection;

/// What all portals of a server have in common: their connections, and which of them have something
/// to send. The loop's thread.
class Connections {
 public:
  explicit Connections(weft::iscsi::TargetServer& server) : server_(server) {}

  /// Takes a connection from a portal.
  void add(asio::ip::tcp::socket socket);
  /// Sends what waits. After every event that may have given a connection something to say.
  void flush();
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  friend class TcpConnection;
  weft::iscsi::TargetServer& server_;
  std::set<std::shared_ptr<TcpConnection>> all_;
  std::vector<std::shared_ptr<TcpConnection>> ready_;
};

/// One TCP connection. The loop's thread.
class TcpConnection final : public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(Connections& connections, asio::ip::tcp::socket socket);
  void start();
  void flush();

 private:
  static constexpr std::size_t kInputBytes = 256 * 1024;           // policy
  static constexpr std::size_t kMaxOutputBytes = 8 * 1024 * 1024;  // policy: then nothing is read

  void read();
  void await_room();
  void lose(const std::string& reason);

  Connections& connections_;
  asio::ip::tcp::socket socket_;
  weft::iscsi::StreamDatamover datamover_;
  weft::iscsi::DatamoverClient* client_{};
  std::vector<std::byte> input_;
  bool reads_{};
  bool awaits_room_{};
  bool is_ready_{};
};

/// A listening socket.
class Portal {
 public:
  /// `address` is HOST:PORT, port 0 for any that is free; AddressInUse or InvalidArgument with the
  /// reason.
  [[nodiscard]] static Result<std::unique_ptr<Portal>> listen(asio::io_context& loop,
                                                              const std::string& address,
                                                              Connections& connections);
  /// HOST:PORT, with the port that it has.
  [[nodiscard]] const std::string& address() const { return address_; }
  void close();

 private:
  Portal(asio::ip::tcp::acceptor acceptor, std::string address, Connections& connections)
      : acceptor_(std::move(acceptor)), address_(std::move(address)), connections_(connections) {}
  void accept();

  asio::ip::tcp::acceptor acceptor_;
  std::string address_;
  Connections& connections_;
};

}  // namespace weft::programs::iscsi
