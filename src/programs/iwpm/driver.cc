#include "programs/iwpm/driver.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "os/clock.h"

namespace weft::programs::iwpm {

using wire::iwpm::ConnectionInfo;
using wire::iwpm::DaemonError;
using wire::iwpm::DriverOperation;
using wire::iwpm::SocketAddress;

namespace {

/// Longer than the kernel side waits for a registration and a mapping.
constexpr Duration kPatience = Duration::seconds(25);
constexpr Duration kToldWithin = Duration::seconds(1);  // policy
constexpr std::chrono::milliseconds kPause{10};         // policy

}  // namespace

Result<Driver> Driver::open() {
  auto socket = os::NetlinkSocket::open(os::NetlinkSocket::kRdma, {});
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return Driver{*std::move(socket)};
}

template <class Message>
Result<std::uint32_t> Driver::send(const Message& message, DriverOperation operation) {
  std::vector<std::byte> datagram;
  const std::uint32_t sequence = ++last_sequence_;
  if (!wire::iwpm::append(datagram, wire::iwpm::kMessageRoom,
                          {.sequence = sequence, .port = socket_.port()}, message, wire::iwpm::kAbi,
                          wire::iwpm::as_operation(operation))) {
    return fail(ErrorCode::OutOfMemory, "there is no room for a message");
  }
  if (const auto sent = socket_.send(0, 0, datagram); !sent) {
    return std::unexpected(sent.error());
  }
  return sequence;
}

Result<ConnectionInfo> Driver::answer_to(Result<std::uint32_t> sequence) {
  if (!sequence) {
    return std::unexpected(sequence.error());
  }
  const Instant until = os::now() + kPatience;
  while (true) {
    const std::int64_t left_ms = (until - os::now()).nanoseconds() / 1'000'000;
    pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) != 1) {
      return fail(ErrorCode::TimedOut, "the host's kernel side does not answer");
    }
    const auto received = socket_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received || (*received)->is_overrun || (*received)->port != 0) {
      continue;
    }
    ByteSpan rest = (*received)->bytes;
    while (const auto message = wire::netlink::take_message(rest)) {
      if (message->header.sequence != *sequence) {
        continue;
      }
      if (message->header.type == wire::netlink::kTypeError) {
        return fail(ErrorCode::InvalidArgument, "the host's kernel side refuses the request");
      }
      return wire::iwpm::parse<ConnectionInfo>(message->payload);
    }
  }
}

Result<ConnectionInfo> Driver::map(const SocketAddress& local, std::uint32_t flags) {
  return answer_to(
      send(wire::iwpm::AddMapping{.local = local, .flags = flags}, DriverOperation::Map));
}

Result<ConnectionInfo> Driver::connect(const SocketAddress& local, const SocketAddress& remote,
                                       std::uint32_t flags) {
  return answer_to(send(wire::iwpm::QueryMapping{.local = local, .remote = remote, .flags = flags},
                        DriverOperation::Connect));
}

Result<ConnectionInfo> Driver::find_remote(const SocketAddress& mapped_local,
                                           const SocketAddress& mapped_remote) {
  const Instant end = os::now() + kToldWithin;
  auto found = ask_remote(mapped_local, mapped_remote);
  while (found && found->error == wire::iwpm::kDriverUnknown && os::now() < end) {
    std::this_thread::sleep_for(kPause);
    found = ask_remote(mapped_local, mapped_remote);
  }
  return found;
}

Result<ConnectionInfo> Driver::ask_remote(const SocketAddress& mapped_local,
                                          const SocketAddress& mapped_remote) {
  return answer_to(send(wire::iwpm::QueryMapping{.local = mapped_local, .remote = mapped_remote},
                        DriverOperation::FindRemote));
}

Result<void> Driver::unmap(const SocketAddress& local) {
  const auto sent = send(wire::iwpm::RemoveMapping{.local = local}, DriverOperation::Unmap);
  return sent ? Result<void>{} : std::unexpected(sent.error());
}

std::string_view error_text(std::uint16_t error) {
  switch (error) {
    case 0:
      return "";
    case wire::iwpm::kDriverTimedOut:
      return "the port mapper on this host does not answer";
    case wire::iwpm::kDriverNoBuffers:
      return "too many mappings are open";
    case wire::iwpm::kDriverUnknown:
      return "nobody is known to connect from there";
    case static_cast<std::uint16_t>(DaemonError::InvalidMessage):
      return "the port mapper does not understand the message";
    case static_cast<std::uint16_t>(DaemonError::CreateMapping):
      return "the port mapper cannot map it: is the address one of this host?";
    case static_cast<std::uint16_t>(DaemonError::DuplicateMapping):
      return "the address is mapped already";
    case static_cast<std::uint16_t>(DaemonError::RemoteQueryReject):
      return "the peer's port mapper does not answer or has no such mapping; its own address is "
             "used";
    default:
      return "the port mapper refuses";
  }
}

}  // namespace weft::programs::iwpm
