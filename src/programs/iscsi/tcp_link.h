#pragma once

// The TCP connection of an iSCSI initiator.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "iscsi/stream_datamover.h"

namespace weft::programs::iscsi {

/// The loop's thread. Handlers are never called from inside a call of the link.
class TcpLink final : public std::enable_shared_from_this<TcpLink> {
 public:
  /// With its client's set_client() still to come: with the datamover, or with why there is none.
  using Connected = std::function<void(weft::iscsi::Datamover*, const std::string& reason)>;

  explicit TcpLink(asio::io_context& loop) : socket_(loop), resolver_(loop), input_(kInputBytes) {}

  /// `address` is HOST:PORT, also a name. The client hears everything, handle_lost() as the last.
  void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
               Connected connected, std::function<void()> settled);
  /// Without a word to anybody.
  void abandon();
  /// Sends what waits; after everything that may have given the datamover something to say.
  void flush();

 private:
  static constexpr std::size_t kInputBytes = 256 * 1024;  // policy

  void try_next(asio::ip::tcp::resolver::results_type::iterator next,
                asio::ip::tcp::resolver::results_type::iterator end, const std::string& reason);
  void begin();
  void read();
  void lose(const std::string& reason);
  void tell(weft::iscsi::Datamover* datamover, const std::string& reason);

  asio::ip::tcp::socket socket_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::resolver::results_type found_;
  weft::iscsi::StreamDatamover datamover_;
  weft::iscsi::DatamoverClient* client_{};
  Connected connected_;
  std::function<void()> settled_;  ///< an event has been handled: timers may have changed
  std::vector<std::byte> input_;
  bool awaits_room_{};
};

}  // namespace weft::programs::iscsi
