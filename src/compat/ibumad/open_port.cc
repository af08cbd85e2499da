#include "compat/ibumad/open_port.h"

#include <endian.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "compat/ibumad/devices.h"
#include "compat/ibumad/requests.h"
#include "os/shared_memory.h"

namespace weft::compat {
namespace {

constexpr std::size_t kOneMad = 256;

std::mutex ports_lock;
auto& ports = *new std::map<int, std::shared_ptr<OpenPort>>;  // never destroyed: programs exit with
                                                              // open ports

[[nodiscard]] uabi::UmadHeader header_of(const ib_user_mad& envelope) {
  const ib_mad_addr_t& address = envelope.addr;
  std::array<std::byte, Gid::kSize> gid{};
  std::memcpy(gid.data(), address.gid, gid.size());
  return {.agent = envelope.agent_id,
          .status = 0,
          .timeout_ms = envelope.timeout_ms,
          .retries = envelope.retries,
          .qpn = Qpn{be32toh(address.qpn)},
          .lid = Lid{be16toh(address.lid)},
          .sl = ServiceLevel{address.sl},
          .path_bits = address.path_bits,
          .pkey_index = address.pkey_index,
          .has_grh = address.grh_present != 0,
          .hop_limit = address.hop_limit,
          .traffic_class = address.traffic_class,
          .flow_label = be32toh(address.flow_label),
          .gid = Gid{gid}};
}

void fill(ib_user_mad& envelope, const uabi::UmadHeader& header, std::size_t bytes) {
  envelope.agent_id = header.agent;
  envelope.status = header.status;
  envelope.timeout_ms = header.timeout_ms;
  envelope.retries = header.retries;
  envelope.length = static_cast<std::uint32_t>(sizeof envelope + bytes);
  ib_mad_addr_t& address = envelope.addr;
  address = {};
  address.qpn = htobe32(header.qpn.value());
  address.lid = htobe16(static_cast<std::uint16_t>(header.lid.value()));
  address.sl = header.sl.value();
  address.path_bits = header.path_bits;
  address.grh_present = header.has_grh ? 1 : 0;
  address.hop_limit = header.hop_limit;
  address.traffic_class = header.traffic_class;
  std::memcpy(address.gid, header.gid.octets().data(), Gid::kSize);
  address.flow_label = htobe32(header.flow_label);
  address.pkey_index = header.pkey_index;
}

[[nodiscard]] bool read_whole(int fd, std::byte* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, to + done, size - done, static_cast<off_t>(done));
    if (count <= 0) {
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

Result<std::uint32_t> OpenPort::answer_to(const uabi::Message& question) {
  const std::lock_guard guard{asking_};
  const auto answer = ask<uabi::UmadAnswer>(control_, question);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  if (answer->first.error != 0) {
    return fail(answer->first.error == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::InvalidArgument,
                "{}", answer->first.reason);
  }
  return answer->first.agent;
}

Result<std::uint32_t> OpenPort::register_agent(const uabi::RegisterUmadAgent& agent) {
  const auto number = answer_to(agent);
  if (number && *number < uabi::kMaxUmadAgents) {
    agents_ |= 1U << *number;
  }
  return number;
}

Result<void> OpenPort::unregister_agent(std::uint32_t agent) {
  if (!has_agent(agent)) {
    return fail(ErrorCode::InvalidArgument, "agent {} is not registered on this port", agent);
  }
  if (const auto done = answer_to(uabi::UnregisterUmadAgent{.agent = agent}); !done) {
    return std::unexpected(done.error());
  }
  agents_ &= ~(1U << agent);
  return {};
}

bool OpenPort::has_agent(std::uint32_t agent) const {
  return agent < uabi::kMaxUmadAgents && (agents_ >> agent & 1) != 0;
}

int OpenPort::send(const ib_user_mad& envelope, ByteSpan mad) {
  if (!has_agent(envelope.agent_id) || mad.size() > uabi::kMaxMadBytes) {
    return EINVAL;
  }
  uabi::Message message{
      uabi::LongUmadMad{.header = header_of(envelope),
                        .length = static_cast<std::uint32_t>(mad.size())}
  };
  os::UniqueFd file;
  std::optional<int> descriptor;
  if (mad.size() <= uabi::kMaxMadBytesInMessage) {
    message = uabi::UmadMad{
        .header = header_of(envelope), .mad = {mad.begin(), mad.end()}
    };
  } else {
    auto published = os::publish_memory("weft-mad", mad);
    if (!published) {
      return ENOMEM;
    }
    file = std::move(*published);
    descriptor = file.get();
  }
  while (true) {
    const auto sent = descriptor ? mads_.send(message, {&*descriptor, 1}) : mads_.send(message);
    if (sent) {
      return 0;
    }
    if (sent.error().code != ErrorCode::TryAgain) {
      return EIO;
    }
    pollfd wait{.fd = fd(), .events = POLLOUT, .revents = 0};
    poll(&wait, 1, -1);
  }
}

int OpenPort::take(ib_user_mad& envelope, const uabi::Message& message, int& size) {
  const auto* const whole = message.get_if<uabi::UmadMad>();
  const auto* const other_process = message.get_if<uabi::LongUmadMad>();
  if (whole == nullptr && other_process == nullptr) {
    return EIO;
  }
  const std::size_t bytes = whole != nullptr ? whole->mad.size() : other_process->length;
  const std::size_t room = size < 0 ? 0 : static_cast<std::size_t>(size);
  fill(envelope, whole != nullptr ? whole->header : other_process->header, bytes);
  size = static_cast<int>(bytes);
  std::byte* const data = std::as_writable_bytes(std::span{&envelope, 1}).data() + sizeof envelope;
  if (bytes > room) {
    return bytes > kOneMad && room >= kOneMad ? ENOSPC : EINVAL;
  }
  if (whole != nullptr) {
    std::memcpy(data, whole->mad.data(), bytes);
    recv(fd(), nullptr, 0, MSG_DONTWAIT);
    return 0;
  }
  const auto received = mads_.receive();
  return received && read_whole(received->descriptors.front().get(), data, bytes) ? 0 : EIO;
}

int OpenPort::receive(ib_user_mad& envelope, int& size) {
  const std::lock_guard guard{reading_};
  const ssize_t count = recv(fd(), buffer_.data(), buffer_.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR ? EAGAIN : EIO;
  }
  if (count == 0) {
    return EPIPE;
  }
  const auto message = uabi::decode(ByteSpan{buffer_}.first(static_cast<std::size_t>(count)));
  return message ? take(envelope, *message, size) : EIO;
}

std::shared_ptr<OpenPort> port_of(int number) {
  const std::lock_guard guard{ports_lock};
  const auto found = ports.find(number);
  return found == ports.end() ? nullptr : found->second;
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int umad_open_port(const char* name, int number) {
  const auto chosen = choose_port(name, number);
  if (!chosen) {
    explain(chosen.error().reason);
    return -ENODEV;
  }
  auto control = connect_to_daemon();
  if (!control) {
    complain(control.error().reason);
    return -EIO;
  }
  auto opened = ask<uabi::UmadOpened>(
      *control, uabi::OpenUmad{.version = uabi::kVersion,
                               .node = node_of_environment(),
                               .device = chosen->device,
                               .port = static_cast<std::uint8_t>(chosen->port)});
  if (!opened) {
    explain(opened.error().reason);
    errno = EINVAL;
    return -EINVAL;
  }
  auto port = std::make_shared<OpenPort>(std::move(*control),
                                         host::ControlSocket{std::move(opened->second.front())});
  const std::lock_guard guard{ports_lock};
  const int fd = port->fd();
  ports[fd] = std::move(port);
  return fd;
}

WEFT_EXPORT int umad_close_port(int number) {
  const std::lock_guard guard{ports_lock};
  ports.erase(number);
  return 0;
}

WEFT_EXPORT int umad_get_fd(int number) { return number; }

}  // extern "C"
