#pragma once

// What carries an initiator's session in a program: TCP, or another transport.

#include <asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "iscsi/datamover.h"
#include "iscsi/pdu.h"

namespace weft::programs::iscsi {

/// One connection after the other. The loop's thread; handlers are never called from inside a call.
class Link {
 public:
  /// With the datamover, or with why there is none.
  using Connected = std::function<void(weft::iscsi::Datamover*, const std::string& reason)>;

  virtual ~Link() = default;
  /// `address` is HOST:PORT. The client hears everything of the connection, handle_lost() as the
  /// last; `settled` comes after each event: timers may have changed.
  virtual void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
                       Connected connected, std::function<void()> settled) = 0;
  /// The connection under way is not wanted any more: without a word to anybody.
  virtual void abandon() = 0;
  /// Sends what waits; after everything that may have given the datamover something to say.
  virtual void flush() = 0;
};

/// A transport for sessions.
struct LinkKind {
  /// In the loop's thread, where the link is destroyed as well.
  std::function<std::unique_ptr<Link>(asio::io_context& loop)> make{};
  /// Memory for a command's data, as the transport moves it best. Any thread; it may outlive the
  /// links.
  std::function<weft::iscsi::SharedBuffer(std::size_t bytes)> allocate{
      [](std::size_t bytes) { return weft::iscsi::SharedBuffer{bytes}; }};
};

[[nodiscard]] LinkKind tcp_links();

}  // namespace weft::programs::iscsi
