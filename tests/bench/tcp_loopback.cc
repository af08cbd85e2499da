// What TCP over loopback does with the same messages: blocking sockets, TCP_NODELAY, two
// processes.
//
//   weft_tcp_loopback SIZE...
//
// Ping-pong: half of the median round trip. Stream: one send() for each message; the receiver takes
// what is there, counts it and answers when it has all. Prints one JSON array.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ratio>
#include <vector>

#include "bench_socket.h"

namespace {

using weft::bench::Socket;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDuration{150};  // policy: of one measurement
constexpr std::uint64_t kRoundsMin = 20;             // policy: however slow the machine is
constexpr std::size_t kReceiveOctets = 256 << 10;    // policy
constexpr unsigned kSecondsMax = 120;                // policy: of the whole program

struct Work {
  std::uint64_t size;
  std::uint64_t rounds;  // of the ping-pong; 0: a stream until the end of the connection
};

/// Serves `connections`, one after the other.
void serve(int listener, int connections) {
  std::vector<std::byte> buffer;
  for (; connections > 0; --connections) {
    const Socket socket(accept(listener, nullptr, nullptr));
    const Work work = socket.receive_value<Work>();
    buffer.resize(std::max<std::size_t>(work.size, kReceiveOctets));
    for (std::uint64_t round = 0; round < work.rounds; ++round) {
      socket.receive({buffer.data(), work.size});
      socket.send({buffer.data(), work.size});
    }
    if (work.rounds == 0) {
      std::uint64_t total = 0;
      while (const std::size_t octets = socket.receive_some(buffer)) {
        total += octets;
      }
      socket.send_value(total);
    }
  }
}

double one_way_us(std::uint16_t port, std::vector<std::byte>& message, std::uint64_t rounds) {
  const Socket socket(weft::bench::connect_to("127.0.0.1", port));
  socket.send_value(Work{.size = message.size(), .rounds = rounds});
  std::vector<double> trips;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    socket.send(message);
    socket.receive(message);
    trips.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::ranges::nth_element(trips, trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2));
  return trips[trips.size() / 2] / 2;
}

double messages_per_s(std::uint16_t port, const std::vector<std::byte>& message) {
  const Socket socket(weft::bench::connect_to("127.0.0.1", port));
  socket.send_value(Work{.size = message.size(), .rounds = 0});
  const auto start = Clock::now();
  std::uint64_t sent = 0;
  while (sent < kRoundsMin || Clock::now() - start < kDuration) {
    for (std::uint64_t round = 0; round < kRoundsMin; ++round, ++sent) {
      socket.send(message);
    }
  }
  weft::bench::require(shutdown(socket.descriptor(), SHUT_WR) == 0, "shutdown");
  if (socket.receive_value<std::uint64_t>() != sent * message.size()) {
    weft::bench::fail("the receiver's count of octets", 0);
  }
  return static_cast<double>(sent) / std::chrono::duration<double>(Clock::now() - start).count();
}

void measure(std::uint16_t port, const std::vector<std::size_t>& sizes) {
  for (const std::size_t size : sizes) {
    std::vector<std::byte> message(size, std::byte{'w'});
    const double trial_us = one_way_us(port, message, kRoundsMin);
    const double rounds = std::chrono::duration<double, std::micro>(kDuration).count() / trial_us;
    const double latency =
        one_way_us(port, message, std::max(kRoundsMin, static_cast<std::uint64_t>(rounds) / 2));
    const double rate = messages_per_s(port, message);
    std::printf(
        "%s{\"size\": %zu, \"one_way_us\": %.3f, \"gigabytes_per_s\": %.4f, "
        "\"million_messages_per_s\": %.4f}",
        size == sizes.front() ? "[" : ", ", size, latency, rate * static_cast<double>(size) / 1e9,
        rate / 1e6);
  }
  std::puts("]");
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::size_t> sizes;
  for (int word = 1; word < count; ++word) {
    sizes.push_back(std::strtoul(words[word], nullptr, 10));
  }
  if (sizes.empty() || std::ranges::count(sizes, 0U) > 0) {
    std::fputs("weft_tcp_loopback SIZE...\n", stderr);
    return 2;
  }
  const int listener = weft::bench::listen_on_loopback(0);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  weft::bench::require(getsockname(listener, std::bit_cast<sockaddr*>(&address), &length) == 0,
                       "getsockname");
  const pid_t server = fork();
  weft::bench::require(server >= 0, "fork");
  alarm(kSecondsMax);
  if (server == 0) {
    serve(listener, 3 * static_cast<int>(sizes.size()));
    return 0;
  }
  measure(ntohs(address.sin_port), sizes);
  int status = 0;
  weft::bench::require(waitpid(server, &status, 0) == server, "waitpid");
  if (status != 0) {
    weft::bench::fail("the serving process", 0);
  }
  return 0;
}
