// A connection of the iWARP test driver (tcp_driver.h), by who uses RDMA devices: a client of the
// core, which finds the driver's device when it is registered.
//
//   weft_iwarp_connection listen LOCAL
//   weft_iwarp_connection connect LOCAL REMOTE
//
// On a host (weft exec --ns). The one that connects sends a message, which comes back, and both
// print the addresses and, of the connection, how long it took.

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/testing/manual_environment.h"
#include "os/clock.h"
#include "programs/iwpm/sockets.h"
#include "tcp_driver.h"

namespace {

namespace iwpm = weft::programs::iwpm;
using weft::testing::TcpDriver;
using weft::testing::TcpEnd;
using weft::wire::iwpm::SocketAddress;
using weft::wire::iwpm::to_string;

constexpr std::string_view kMessage = "across the mapped ports";

[[noreturn]] void give_up(std::string_view reason) {
  fmt::print(stderr, "weft_iwarp_connection: {}\n", reason);
  std::exit(1);
}

template <class T>
T need(weft::Result<T> result) {
  if (!result) {
    give_up(result.error().reason);
  }
  return *std::move(result);
}

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// The upper layer: it learns of devices from the core.
class Ulp final : public weft::core::Client {
 public:
  Ulp() : Client("iwarp_connection", false) {}
  weft::Result<void> add(weft::core::Device& device) override {
    driver = TcpDriver::of(device);
    return {};
  }
  void remove(weft::core::Device& /*device*/, void* /*data*/) override { driver = nullptr; }
  TcpDriver* driver{};
};

/// All of the message; whatever the sockets' mode.
void transfer(const TcpEnd& end, bool sends) {
  std::array<char, kMessage.size()> octets{};
  std::memcpy(octets.data(), kMessage.data(), octets.size());
  std::size_t done = 0;
  while (done < octets.size()) {
    const ssize_t now = sends ? ::write(end.socket.get(), &octets.at(done), octets.size() - done)
                              : ::read(end.socket.get(), &octets.at(done), octets.size() - done);
    if (now > 0) {
      done += static_cast<std::size_t>(now);
    } else if (now == 0 || errno != EAGAIN) {
      give_up("the connection ends early");
    }
  }
  if (std::string_view{octets.data(), octets.size()} != kMessage) {
    give_up("the message is another one");
  }
}

void listen(TcpDriver& driver, const SocketAddress& local) {
  const TcpEnd listener = need(driver.listen(local));
  print_line(
      fmt::format("{} mapped to {}", to_string(local), to_string(listener.info.mapped_local)));
  const TcpEnd connection = need(driver.accept(listener));
  transfer(connection, false);
  transfer(connection, true);
  print_line(connection.info.error == 0
                 ? fmt::format("a connection of {} from {}", to_string(connection.info.remote),
                               to_string(connection.info.mapped_remote))
                 : fmt::format("a connection from {}", to_string(connection.info.mapped_remote)));
  need(driver.unmap(local));
}

void connect(TcpDriver& driver, const SocketAddress& local, const SocketAddress& remote) {
  const weft::Instant start = weft::os::now();
  const TcpEnd connection = need(driver.connect(local, remote));
  const std::int64_t took_ms = (weft::os::now() - start).nanoseconds() / 1'000'000;
  transfer(connection, true);
  transfer(connection, false);
  print_line(fmt::format("{} mapped to {}, {} to {}", to_string(local),
                         to_string(connection.info.mapped_local), to_string(remote),
                         to_string(connection.info.mapped_remote)));
  print_line(fmt::format("connected in {} ms", took_ms));
  need(driver.unmap(local));
}

}  // namespace

int main(int count, char** words) {
  weft::core::testing::ManualEnvironment environment;
  weft::core::Registry registry{environment};
  Ulp ulp;
  need(registry.register_client(ulp));
  const auto driver = need(TcpDriver::open(registry));
  if (ulp.driver != driver.get()) {
    give_up("the core does not tell of the device");
  }
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "listen" && count == 3) {
    listen(*ulp.driver, need(iwpm::parse_address(words[2])));
  } else if (what == "connect" && count == 4) {
    connect(*ulp.driver, need(iwpm::parse_address(words[2])), need(iwpm::parse_address(words[3])));
  } else {
    give_up("listen LOCAL or connect LOCAL REMOTE");
  }
  registry.unregister_client(ulp);
  return 0;
}
