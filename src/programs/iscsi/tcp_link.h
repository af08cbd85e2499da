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
#include "programs/iscsi/link.h"

namespace weft::programs::iscsi {

/// A connection, as Link has it, from its making to its end.
class TcpStream final : public std::enable_shared_from_this<TcpStream> {
 public:
  explicit TcpStream(asio::io_context& loop)
      : socket_(loop), resolver_(loop), input_(kInputBytes) {}

  /// HOST may be a name.
  void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
               Link::Connected connected, std::function<void()> settled);
  void abandon();
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
  Link::Connected connected_;
  std::function<void()> settled_;  ///< an event has been handled: timers may have changed
  std::vector<std::byte> input_;
  bool awaits_room_{};
};

}  // namespace weft::programs::iscsi
