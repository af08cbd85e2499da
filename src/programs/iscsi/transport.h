#pragma once

// Portals of a target server by another transport than TCP.

#include <asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "iscsi/target_server.h"

namespace weft::programs::iscsi {

/// The loop's thread. Its destruction ends what connections are left.
class Transport {
 public:
  virtual ~Transport() = default;
  /// What a portal of it begins with in a configuration, as "iser:" of "iser:127.77.0.1:3260".
  [[nodiscard]] virtual std::string_view prefix() const = 0;
  /// `address` is what follows the prefix: HOST:PORT, port 0 for any that is free. Returns it with
  /// the port that it has.
  virtual Result<std::string> listen(const std::string& address) = 0;
  /// No connections come any more.
  virtual void close() = 0;
  [[nodiscard]] virtual std::size_t connections() const = 0;
};

/// For this loop and server, both of which outlive it.
using MakeTransport = std::function<std::unique_ptr<Transport>(asio::io_context& loop,
                                                               weft::iscsi::TargetServer& server)>;

/// A portal's address and port, as of a configuration.
struct HostAndPort {
  std::string host{};  ///< without the brackets of IPv6
  std::uint16_t port{};
};
[[nodiscard]] Result<HostAndPort> parse_host_and_port(const std::string& text);

}  // namespace weft::programs::iscsi
