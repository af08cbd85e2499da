// A block of memory served by RDMA: an upper-layer protocol in a few hundred lines, written against
// src/core as a kernel's would be.
//
//   weft exec h1 -- blockd++ serve --bytes 16777216
//   weft exec h2 -- blockd++ check 127.77.0.1

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "client.h"
#include "server.h"
#include "verbs_driver/rdma_cm.h"
#include "verbs_driver/threaded_environment.h"
#include "verbs_driver/verbs_device.h"

namespace {

using weft::Duration;
using weft::Result;
namespace core = weft::core;
namespace driver = weft::verbs_driver;

struct Options {
  std::string device;
  std::string address;
  std::uint16_t port{7770};
  std::size_t bytes{16U << 20};
  unsigned rounds{2};
  std::uint32_t blocks{16};
  bool global_key{};
  bool no_paging{};
  bool beyond{};
  unsigned seconds{20};
};

/// What a program of the kernel's side begins with.
struct Host {
  driver::ThreadedEnvironment environment{[](core::LogLevel level, std::string_view text) {
    if (level != core::LogLevel::Debug) {
      fmt::print(stderr, "blockd++: {}\n", text);
    }
  }};
  core::Registry registry{environment};
  std::unique_ptr<driver::VerbsDevice> device;
  std::unique_ptr<driver::LiveRdmaCm> cm;

  Result<void> open(const Options& options) {
    auto opened = driver::VerbsDevice::open(
        registry, {.name = options.device, .on_demand_paging = !options.no_paging});
    if (!opened) {
      return std::unexpected(opened.error());
    }
    device = *std::move(opened);
    auto started = driver::LiveRdmaCm::start(environment, {device.get()});
    if (!started) {
      return std::unexpected(started.error());
    }
    cm = *std::move(started);
    return {};
  }
};

Result<void> serve(const Options& options) {
  sigset_t ends;  // blocked before there are threads, which inherit it
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  Host host;
  if (auto opened = host.open(options); !opened) {
    return opened;
  }
  weft::blockd::Server server{*host.cm, host.device->device(), options.bytes};
  const auto port = server.listen({.address = weft::IpAddress{}, .port = options.port});
  if (!port) {
    return std::unexpected(port.error());
  }
  fmt::print("serving {} bytes on {} port {}\n", options.bytes, host.device->device().name(),
             *port);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  fmt::print("served {} requests\n", server.requests());
  return {};
}

/// Byte `i` of a block as round `round` wrote it.
void fill(weft::MutableByteSpan block, std::uint64_t number, unsigned round) {
  weft::Random random{number << 8 | round};
  for (std::byte& byte : block) {
    byte = static_cast<std::byte>(random());
  }
}

/// All blocks by one operation, several at a time.
Result<void> move_all(weft::blockd::Client& client, weft::blockd::Operation operation,
                      std::uint32_t at_once) {
  const std::uint64_t blocks = client.offer().blocks;
  for (std::uint64_t block = 0; block < blocks; block += at_once) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(at_once, blocks - block));
    if (auto begun = client.start(operation, block, count, block * weft::blockd::kBlockBytes);
        !begun) {
      return begun;
    }
  }
  return client.finish();
}

/// Writes everything, forgets it, reads it back and compares, round after round.
Result<void> exercise(Host& host, weft::blockd::Client& client, weft::MutableByteSpan memory,
                      const Options& options) {
  using weft::blockd::kBlockBytes;
  const std::uint64_t blocks = client.offer().blocks;
  if (blocks * kBlockBytes != memory.size()) {
    return weft::fail(weft::ErrorCode::InvalidArgument, "the server has {} bytes; say --bytes {}",
                      blocks * kBlockBytes, blocks * kBlockBytes);
  }
  const weft::Instant begin = host.environment.now();
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::uint64_t block = 0; block < blocks; ++block) {
      fill(memory.subspan(block * kBlockBytes, kBlockBytes), block, round);
    }
    if (auto moved = move_all(client, weft::blockd::Operation::Write, options.blocks); !moved) {
      return moved;
    }
    std::ranges::fill(memory, std::byte{});
    if (auto moved = move_all(client, weft::blockd::Operation::Read, options.blocks); !moved) {
      return moved;
    }
    std::vector<std::byte> wanted(kBlockBytes);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      fill(wanted, block, round);
      if (!std::ranges::equal(wanted, memory.subspan(block * kBlockBytes, kBlockBytes))) {
        return weft::fail(weft::ErrorCode::Io, "block {} is not what round {} wrote", block, round);
      }
    }
  }
  if (options.beyond) {
    if (auto begun = client.start(weft::blockd::Operation::Read, blocks, 1, 0); !begun) {
      return begun;
    }
    return client.finish();
  }
  fmt::print("verified {} blocks in {} rounds, {} ms\n", blocks, options.rounds,
             (host.environment.now() - begin).milliseconds());
  return {};
}

Result<void> check(const Options& options) {
  const auto address = weft::parse_ip_address(options.address);
  if (!address) {
    return std::unexpected(address.error());
  }
  Host host;
  if (auto opened = host.open(options); !opened) {
    return opened;
  }
  // A key for all memory reaches the device's arena everywhere, other memory where it pages.
  std::vector<std::byte> own(options.global_key ? 0 : options.bytes);
  weft::MutableByteSpan memory{own};
  if (options.global_key) {
    const auto taken = host.device->allocate_memory(options.bytes);
    if (!taken) {
      return std::unexpected(taken.error());
    }
    memory = *taken;
  }
  weft::blockd::Client client{*host.cm, host.environment,
                              Duration::seconds(std::int64_t{options.seconds})};
  if (auto connected =
          client.connect({.address = *address, .port = options.port}, memory, options.global_key);
      !connected) {
    return connected;
  }
  return exercise(host, client, memory, options);
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"A block of memory by RDMA: an example of a protocol over Weft's kernel side."};
  app.name("blockd++");
  app.require_subcommand(1);
  Options options;
  app.add_option("--device", options.device, "RDMA device; default: the first");
  app.add_flag("--no-paging", options.no_paging,
               "Register memory instead of paging on demand, as devices without that do");
  app.add_option("--port", options.port, "RDMA-CM port");
  app.add_option("--bytes", options.bytes, "Size of the block");
  app.fallthrough();
  CLI::App& server = *app.add_subcommand("serve", "Serves until it is told to end (SIGTERM)");
  CLI::App& client = *app.add_subcommand("check", "Writes everything, reads it and compares");
  client.add_option("address", options.address, "The server's")->required();
  client.add_option("--rounds", options.rounds, "How often");
  client.add_option("--blocks", options.blocks, "Of a request")->check(CLI::Range(1, 256));
  client.add_flag("--global-key", options.global_key, "Tell the server a key for all memory");
  client.add_flag("--beyond", options.beyond, "Ask for a block behind the last, at the end");
  client.add_option("--seconds", options.seconds, "How long the server may take");
  CLI11_PARSE(app, count, arguments);
  const auto done = server.parsed() ? serve(options) : check(options);
  if (!done) {
    fmt::print(stderr, "blockd++: {}\n", done.error().reason);
    return 1;
  }
  return 0;
}
