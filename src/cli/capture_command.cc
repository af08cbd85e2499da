// weft capture: all packets that cross a port, as on the wire, in ERF records (link type 197),
// which tshark dissects, but those of Omni-Path.

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/erf_types.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"
#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "hca/train.h"
#include "host/tap_reader.h"
#include "host/tap_record.h"
#include "host/tap_set.h"
#include "os/clock.h"
#include "os/run_directory.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::cli {
namespace {

constexpr int kLinkTypeErf = 197;
constexpr int kSnapBytes = 65'535;
constexpr std::uint8_t kErfVaryingLength = 4;
constexpr std::size_t kErfHeaderBytes = 16;
constexpr std::uint32_t kErfMostLost = 0xFFFF;

volatile std::sig_atomic_t interrupted = 0;

struct CapturedPacket {
  std::int64_t time_ns{};
  std::size_t order{};            // position among the packets read at once
  std::vector<std::byte> record;  // ERF
};

/// Builds an ERF record: time in 32.32 fixed point, little-endian; the rest big-endian. `lost` is
/// its loss counter: packets that were not captured since the one before.
[[nodiscard]] std::vector<std::byte> erf_record(std::uint8_t type, const host::TapRecord& tap,
                                                std::uint16_t lost,
                                                std::span<const std::byte> packet) {
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  const auto seconds = static_cast<std::uint64_t>(tap.time_of_day_ns / kNanosecondsPerSecond);
  const auto rest = static_cast<std::uint64_t>(tap.time_of_day_ns % kNanosecondsPerSecond);
  const bool is_in = tap.direction == host::TapDirection::In;
  const std::uint64_t stamp = seconds << 32 | (rest << 32) / kNanosecondsPerSecond;
  std::vector<std::byte> record(kErfHeaderBytes);
  for (std::size_t i = 0; i < 8; ++i) {
    record[i] = static_cast<std::byte>(stamp >> (8 * i));
  }
  const std::size_t length = kErfHeaderBytes + packet.size();
  record[8] = std::byte{type};
  record[9] = static_cast<std::byte>(kErfVaryingLength | (is_in ? 1 : 0));  // capture interface
  record[10] = static_cast<std::byte>(length >> 8);
  record[11] = static_cast<std::byte>(length);
  record[12] = static_cast<std::byte>(lost >> 8);
  record[13] = static_cast<std::byte>(lost);
  record[14] = static_cast<std::byte>(packet.size() >> 8);
  record[15] = static_cast<std::byte>(packet.size());
  record.insert(record.end(), packet.begin(), packet.end());
  return record;
}

/// The packets of what a program wrote behind `tap`; trains are split.
void take_record(const host::TapRecord& tap, std::span<const std::byte> body,
                 std::vector<CapturedPacket>& into) {
  auto lost = static_cast<std::uint16_t>(std::min<std::uint32_t>(tap.missed, kErfMostLost));
  const auto take = [&](std::uint8_t type, std::span<const std::byte> packet) {
    into.push_back({.time_ns = tap.time_of_day_ns,
                    .order = into.size(),
                    .record = erf_record(type, tap, std::exchange(lost, 0), packet)});
  };
  if (tap.format == host::TapFormat::OmniPath16b) {
    return take(kErfOmniPath16b, body);
  }
  std::vector<std::byte> bytes;
  if (const auto train = hca::decode_record(body)) {
    for (std::uint32_t i = 0; i < train->header.packet_count; ++i) {
      bytes.clear();
      hca::to_wire(hca::single_of_train(*train, i), bytes);
      take(kErfInfiniBand, bytes);
    }
  }
}

class CaptureFile {
 public:
  explicit CaptureFile(const std::string& path)
      : pcap_(pcap_open_dead_with_tstamp_precision(kLinkTypeErf, kSnapBytes,
                                                   PCAP_TSTAMP_PRECISION_NANO)),
        file_(pcap_dump_open(pcap_, path.c_str())) {}
  ~CaptureFile() {
    if (file_ != nullptr) {
      pcap_dump_close(file_);
    }
    pcap_close(pcap_);
  }
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  [[nodiscard]] std::string error() const { return pcap_geterr(pcap_); }
  /// All that was written is in the file.
  [[nodiscard]] Result<void> flush() {
    return pcap_dump_flush(file_) == 0 ? check() : fail(ErrorCode::Io, "{}", std::strerror(errno));
  }
  [[nodiscard]] Result<void> write(const CapturedPacket& packet) {
    constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
    pcap_pkthdr header{};
    header.ts.tv_sec = packet.time_ns / kNanosecondsPerSecond;
    // nanoseconds, as selected when opening the file
    header.ts.tv_usec = packet.time_ns % kNanosecondsPerSecond;
    header.caplen = header.len = static_cast<bpf_u_int32>(packet.record.size());
    auto* const out = static_cast<unsigned char*>(static_cast<void*>(file_));
    const void* const bytes = packet.record.data();
    pcap_dump(out, &header, static_cast<const unsigned char*>(bytes));
    return check();
  }

 private:
  /// pcap_dump() says nothing of a full disk.
  [[nodiscard]] Result<void> check() const {
    return std::ferror(pcap_dump_file(file_)) == 0
               ? Result<void>{}
               : fail(ErrorCode::Io, "{}", std::strerror(errno));
  }

  pcap_t* pcap_;
  pcap_dumper_t* file_;
};

struct CaptureOptions {
  std::shared_ptr<std::string> fabric;
  std::string port;
  std::string path;
  std::uint64_t count{};  // stop after so many packets; 0: unlimited
  bool tunnels{};
};

class CaptureSession {
 public:
  CaptureSession(host::ControlSocket socket, CaptureOptions options)
      : socket_(std::move(socket)), options_(std::move(options)) {}

  Result<void> run();

 private:
  Result<void> handle_messages();
  [[nodiscard]] Result<void> take_packets();
  [[nodiscard]] Result<void> in_file(Result<void> done) const;
  void print_gaps() const;

  host::ControlSocket socket_;
  CaptureOptions options_;
  std::vector<host::TapReader> sources_;  // of each program, and of the daemon
  std::unique_ptr<CaptureFile> file_;
  std::vector<CapturedPacket> packets_;
  std::uint64_t written_{};
  std::uint64_t missed_{};    // of those behind which others came
  Duration longest_pause_{};  // between two looks at the rings
  bool ended_{};
  std::size_t taken_{};
};

Result<void> CaptureSession::handle_messages() {
  while (true) {
    auto received = socket_.receive();
    if (!received) {
      ended_ = received.error().code == ErrorCode::Refused;
      return {};
    }
    if (const auto* refused = received->message.get_if<uabi::Refused>()) {
      return fail(ErrorCode::Refused, "{}", refused->reason);
    }
    if (received->message.holds<uabi::CaptureSource>()) {
      constexpr std::size_t kBytes = ring::ring_bytes(host::kTapRingCapacity);
      auto memory =
          os::map_shared(received->descriptors[0], os::Protection::ReadWrite, kBytes, kBytes);
      if (memory) {
        sources_.emplace_back(std::move(*memory));
      }
    }
    if (received->message.holds<uabi::CaptureLive>()) {
      file_ = std::make_unique<CaptureFile>(options_.path);
      if (!file_->is_open()) {
        return fail(ErrorCode::Io, "{}: {}", options_.path, file_->error());
      }
      // Readers of the file can see that the capture has started.
      if (auto flushed = in_file(file_->flush()); !flushed) {
        return flushed;
      }
      fmt::print(stderr, "capturing {} into {}; interrupt to end\n", options_.port, options_.path);
    }
  }
}

/// Merges the packets currently in the rings by time.
Result<void> CaptureSession::take_packets() {
  packets_.clear();
  taken_ = 0;
  for (host::TapReader& source : sources_) {
    taken_ += source.read([&](const host::TapRecord& tap, ByteSpan body) {
      missed_ += tap.missed;
      take_record(tap, body, packets_);
    });
  }
  std::ranges::sort(packets_, {}, [](const CapturedPacket& packet) {
    return std::pair{packet.time_ns, packet.order};  // keeps packets of a train in order
  });
  for (const CapturedPacket& packet : packets_) {
    if (options_.count != 0 && written_ >= options_.count) {
      break;
    }
    if (auto done = file_->write(packet); !done) {
      return done;
    }
    ++written_;
  }
  return taken_ == 0 ? file_->flush() : Result<void>{};
}

/// A file that lacks what could not be written does not pass for a capture that ended in order.
Result<void> CaptureSession::in_file(Result<void> done) const {
  if (done) {
    return done;
  }
  return fail(ErrorCode::Io, "{}: {}; about {} packets are in it, the last of which may be cut off",
              options_.path, done.error().reason, written_);
}

/// Senders go on without a reader that has stopped. What they sent last tells nobody that it is
/// missing; that nobody looked does.
void CaptureSession::print_gaps() const {
  if (missed_ != 0 || longest_pause_ >= host::TapSet::kPatience) {
    const std::string which =
        missed_ != 0 ? fmt::format("{} packets or more are", missed_) : "packets may be";
    fmt::print(stderr,
               "{} missing: this command was stopped, or its disk slow, for {} ms, and senders "
               "wait for {} ms\n",
               which, longest_pause_.nanoseconds() / 1'000'000,
               host::TapSet::kPatience.nanoseconds() / 1'000'000);
  }
}

Result<void> CaptureSession::run() {
  if (auto sent =
          socket_.send(uabi::StartCapture{.port = options_.port, .tunnels = options_.tunnels});
      !sent) {
    return sent;
  }
  Instant looked_at = os::now();
  while (true) {
    const bool was_live = file_ != nullptr;
    if (auto handled = handle_messages(); !handled) {
      return handled;
    }
    const Duration pause = os::now() - std::exchange(looked_at, os::now());
    longest_pause_ = was_live ? std::max(longest_pause_, pause) : Duration{};
    // What came until then is kept, and no more is waited for: a busy link always has more.
    const bool must_end = interrupted != 0 || ended_;
    if (file_ != nullptr) {
      if (auto taken = in_file(take_packets()); !taken) {
        return taken;
      }
    }
    const bool is_full = options_.count != 0 && written_ >= options_.count;
    if (must_end || is_full) {
      break;
    }
    if (taken_ == 0) {
      constexpr int kIdleMilliseconds = 1;  // policy: rings hold much more than arrives meanwhile
      pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
      poll(&wait, 1, file_ == nullptr ? 100 : kIdleMilliseconds);
    }
  }
  if (file_ == nullptr) {
    return fail(ErrorCode::Refused, "the capture ended before it began");
  }
  if (auto flushed = in_file(file_->flush()); !flushed) {
    return flushed;
  }
  fmt::print(stderr, "{} packets\n", written_);
  print_gaps();
  return {};
}

int capture(const CaptureOptions& options) {
  auto socket = connect_to(*options.fabric);
  if (!socket) {
    return print_error(socket.error());
  }
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  CaptureSession session{std::move(*socket), options};
  const auto done = session.run();
  return done ? 0 : print_error(done.error());
}

}  // namespace

void add_capture(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand(
      "capture", "Write every packet that crosses a port to a file for tshark, until interrupted");
  auto options = std::make_shared<CaptureOptions>();
  command->add_option("port", options->port, "h1, h1:1, s1:3; a node alone means all its ports")
      ->required();
  command->add_option("-o,--output", options->path, "The file")->required();
  command->add_option("-c,--count", options->count, "End after so many packets");
  command->add_flag("--tunnels", options->tunnels,
                    "Also what passes between virtual functions of the port and its QP1: MADs with "
                    "mlx4's headers, as datagrams between a proxy QP and a tunnel QP");
  options->fabric = add_fabric_name(*command);
  command->callback([=, &outcome] { outcome.status = capture(*options); });
}

}  // namespace weft::cli
