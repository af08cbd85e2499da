#pragma once

// What `weft iwpm` does on a host. Each returns an exit status, having said what is wrong.

#include <string>

namespace weft::programs::iwpm {

/// The port mapper, until a signal.
[[nodiscard]] int serve();
/// What it has mapped: a table, or JSON.
[[nodiscard]] int show_status(bool is_json);

struct MapOptions {
  std::string local;
  std::string remote;  ///< empty: of a listener
  bool keeps_port{};   ///< a record only (IWPM_FLAGS_NO_PORT_MAP)
  bool holds{};        ///< until its standard input ends
};
/// As a driver does: asks the host's kernel side for the mapped addresses.
[[nodiscard]] int map(const MapOptions& options);

/// A listener at an address, reached where the port mapper says: accepts one TCP connection there,
/// says who it is, and ends. Real sockets stand for a device's.
[[nodiscard]] int listen(const std::string& local);
/// Connects from one address to another by their mapped ones.
[[nodiscard]] int connect(const std::string& local, const std::string& remote);

}  // namespace weft::programs::iwpm
