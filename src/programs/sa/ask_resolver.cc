#include "programs/sa/ask_resolver.h"

#include <poll.h>

#include <charconv>
#include <utility>
#include <variant>
#include <vector>

#include "base/ip_address.h"
#include "os/clock.h"
#include "programs/control/control.h"
#include "wire/local_service/path_data.h"

namespace weft::programs::sa_tool {

namespace local = wire::local_service;

namespace {

// Policy: the resolver itself waits for SA for up to 4 s.
constexpr Duration kPatience = Duration::seconds(6);
constexpr Duration kPortWithin = Duration::seconds(2);

}  // namespace

Result<AskResolver> AskResolver::open() {
  const auto said = ask("resolver", "port", kPortWithin);
  if (!said) {
    return std::unexpected(said.error());
  }
  std::uint32_t port = 0;
  if (std::from_chars(said->data(), said->data() + said->size(), port).ec != std::errc{}) {
    return fail(ErrorCode::NotFound, "what runs as this host's resolver is none");
  }
  auto socket = os::NetlinkSocket::open(os::NetlinkSocket::kRdma, {});
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return AskResolver{*std::move(socket), port};
}

Result<local::DataMessage> AskResolver::exchange(const local::DataMessage& said) {
  std::vector<std::byte> datagram;
  const std::uint32_t sequence = ++last_sequence_;
  local::append(
      datagram,
      {.sequence = sequence, .port = socket_.port(), .flags = wire::netlink::kFlagRequest}, said);
  if (const auto sent = socket_.send(resolver_, 0, datagram); !sent) {
    return std::unexpected(sent.error());
  }
  const Instant until = os::now() + kPatience;
  while (true) {
    const std::int64_t left_ms = (until - os::now()).nanoseconds() / 1'000'000;
    pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    if (left_ms <= 0 || poll(&wait, 1, static_cast<int>(left_ms)) != 1) {
      return fail(ErrorCode::TimedOut, "the resolver does not answer");
    }
    const auto received = socket_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received || (*received)->is_overrun || (*received)->port != resolver_) {
      continue;
    }
    ByteSpan rest = (*received)->bytes;
    while (const auto message = wire::netlink::take_message(rest)) {
      if (message->header.sequence == sequence && message->header.type == local::kDataMessageType) {
        return local::parse_data_message(message->payload);
      }
    }
  }
}

Result<std::optional<Gid>> AskResolver::gid_of(const std::string& name_or_address) {
  local::DataMessage said{.opcode = local::DataOpcode::Resolve};
  if (const auto address = parse_ip_address(name_or_address)) {
    said.data = *address;
  } else {
    said.data = local::NameData{name_or_address};
  }
  // The answer is a path to it, which the resolver may have to ask SA for.
  const auto answer = exchange(said);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const auto* const path = std::get_if<wire::PathRecord>(&answer->data);
  return path == nullptr ? std::nullopt : std::optional{path->dgid};
}

Result<std::optional<AskResolver::Path>> AskResolver::path(const sa::PathQuery& wanted) {
  wire::PathRecord record;
  record.sgid = wanted.sgid;
  record.dgid = wanted.dgid;
  record.pkey = wanted.pkey;
  record.set_service_id(wanted.service_id);
  record.tclass = wanted.tclass;
  record.qos_class = wanted.qos_class;
  record.reversible = wanted.is_reversible;
  for (const bool is_known : {true, false}) {
    local::DataMessage said{.opcode = local::DataOpcode::QueryPath,
                            .flags = is_known ? local::kNoDelay : 0};
    said.data = record;
    const auto answer = exchange(said);
    if (!answer) {
      return std::unexpected(answer.error());
    }
    if (const auto* const path = std::get_if<wire::PathRecord>(&answer->data)) {
      return Path{.record = *path, .was_known = is_known};
    }
  }
  return std::nullopt;
}

}  // namespace weft::programs::sa_tool
