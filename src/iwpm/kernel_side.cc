#include "iwpm/kernel_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace weft::iwpm {

using wire::iwpm::DaemonError;
using wire::iwpm::Operation;

namespace {

[[nodiscard]] std::unexpected<Error> no_client(std::uint8_t client) {
  return fail(ErrorCode::InvalidArgument, "client {} has not begun", client);
}

[[nodiscard]] Result<void> check_names(const DeviceInfo& device) {
  const auto fits = [](std::string_view name, std::size_t room) {
    return !name.empty() && name.size() < room && !name.contains('\0');
  };
  if (!fits(device.device_name, wire::iwpm::kDeviceNameBytes)) {
    return fail(ErrorCode::InvalidArgument, "a device's name has 1 to 31 characters");
  }
  if (!fits(device.interface_name, wire::iwpm::kInterfaceNameBytes)) {
    return fail(ErrorCode::InvalidArgument, "an interface's name has 1 to 15 characters");
  }
  return {};
}

}  // namespace

std::string_view client_name(std::uint8_t client) {
  switch (client) {
    case wire::iwpm::kClientIwcm:
      return "IWCM";
    case wire::iwpm::kClientC4iw:
      return "C4IW";
    default:
      return "?";
  }
}

KernelSide::KernelSide(KernelServices& services, const KernelOptions& options)
    : services_(services),
      options_(options),
      records_(options.most_remote_infos),
      requests_(options.most_requests) {}

Result<void> KernelSide::init(std::uint8_t client) {
  if (client >= client_.size()) {
    return fail(ErrorCode::InvalidArgument, "there is no client {}", client);
  }
  if (valid_client(client)) {
    return fail(ErrorCode::InvalidArgument, "client {} has begun already", client);
  }
  if (clients_ == 0 && daemon_ == kNoListener) {
    daemon_ = kNoDaemonYet;  // one may have come while nobody could hear its hello
  }
  ++clients_;
  set_valid(client, true);
  set_registration(client, kRegistrationUndefined);
  return {};
}

Result<void> KernelSide::exit(std::uint8_t client) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  for (NlmsgRequest* request : waiting_) {
    if (request->client() == client) {
      requests_.complete(*request, -EINVAL);
    }
  }
  collect(Instant{});
  if (--clients_ == 0) {
    records_.clear();
  }
  set_valid(client, false);
  set_registration(client, kRegistrationUndefined);
  return {};
}

bool KernelSide::valid_client(std::uint8_t client) const {
  return client < client_.size() && client_[client].is_valid;
}

void KernelSide::set_valid(std::uint8_t client, bool is_valid) {
  if (client < client_.size()) {
    client_[client].is_valid = is_valid;
  }
}

bool KernelSide::check_registration(std::uint8_t client, std::uint32_t bits) const {
  return (get_registration(client) & bits) != 0;
}

void KernelSide::set_registration(std::uint8_t client, std::uint32_t bits) {
  if (client < client_.size()) {
    client_[client].registration = bits;
  }
}

std::uint32_t KernelSide::get_registration(std::uint8_t client) const {
  return client < client_.size() ? client_[client].registration : kRegistrationUndefined;
}

std::optional<std::uint32_t> KernelSide::daemon() const {
  if (!valid_pid()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(daemon_);
}

template <class Message>
Result<std::vector<std::byte>> KernelSide::form(const Message& message, std::uint8_t client,
                                                std::uint32_t sequence) const {
  std::vector<std::byte> datagram;
  if (!wire::iwpm::append(datagram, options_.message_room,
                          {.client = client, .sequence = sequence, .port = 0}, message, abi_)) {
    return fail(ErrorCode::OutOfMemory, "there is no room for a message");
  }
  return datagram;
}

Result<void> KernelSide::send_to_daemon(std::vector<std::byte> datagram) {
  auto sent = services_.unicast(static_cast<std::uint32_t>(daemon_), std::move(datagram));
  if (!sent && sent.error().code == ErrorCode::Refused) {
    daemon_ = kNoDaemonYet;  // until it, or another one, says hello
  }
  return sent;
}

Result<Started> KernelSide::register_pid(const DeviceInfo& device, std::uint8_t client,
                                         Instant now) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  if (check_registration(client, kRegistrationValid) || daemon_ == kNoListener) {
    return Started{};
  }
  if (const auto good = check_names(device); !good) {
    return std::unexpected(good.error());
  }
  const std::uint32_t sequence = get_nlmsg_seq();
  auto datagram =
      form(wire::iwpm::RegisterPid{.sequence = echo_sequence_,
                                   .interface_name = device.interface_name,
                                   .device_name = device.device_name,
                                   .library_name = std::string{wire::iwpm::kLibraryName}},
           client, sequence);
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  NlmsgRequest* request = requests_.get_nlmsg_request(sequence, client, now + options_.timeout);
  if (request == nullptr) {
    return fail(ErrorCode::OutOfMemory, "{} requests wait for the daemon", requests_.size());
  }
  request->operation = Operation::RegisterPid;
  request->device = device;
  waiting_.push_back(request);  // before it is sent: the answer may come from inside of the call
  if (const auto sent = services_.multicast(wire::iwpm::kGroup, std::move(*datagram)); !sent) {
    daemon_ = kNoListener;
    // Nobody will answer and nobody waits.
    std::erase(waiting_, request);
    requests_.complete(*request, -EINVAL);
    requests_.put(*request);
    services_.log(fmt::format("iwpm: client {}: no port mapper listens; connections go unmapped",
                              client_name(client)));
    return std::unexpected(sent.error());
  }
  collect(now);
  return Started{.sequence = sequence, .completion_follows = true};
}

Result<bool> KernelSide::may_map(std::uint8_t client, std::uint32_t flags) const {
  if (!valid_client(client)) {
    return no_client(client);
  }
  if (!valid_pid()) {
    return false;
  }
  if (!check_registration(client, kRegistrationValid)) {
    return fail(ErrorCode::InvalidArgument, "client {} has not registered with the port mapper",
                client_name(client));
  }
  if (flags != 0 && abi_ < 4) {
    return fail(ErrorCode::InvalidArgument, "a port mapper of version {} knows no flags", abi_);
  }
  return true;
}

template <class Message>
Result<Started> KernelSide::ask(const Message& message, std::uint8_t client,
                                const ConnectionAddresses& addresses, Instant now) {
  const std::uint32_t sequence = get_nlmsg_seq();
  auto datagram = form(message, client, sequence);
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  NlmsgRequest* request = requests_.get_nlmsg_request(sequence, client, now + options_.timeout);
  if (request == nullptr) {
    return fail(ErrorCode::OutOfMemory, "{} requests wait for the daemon", requests_.size());
  }
  request->operation = Message::kOperation;
  request->addresses = addresses;
  request->daemon = static_cast<std::uint32_t>(daemon_);
  waiting_.push_back(request);
  if (const auto sent = send_to_daemon(std::move(*datagram)); !sent) {
    std::erase(waiting_, request);
    requests_.complete(*request, -EINVAL);
    requests_.put(*request);
    return std::unexpected(sent.error());
  }
  collect(now);
  return Started{.sequence = sequence, .completion_follows = true};
}

Result<Started> KernelSide::add_mapping(const ConnectionAddresses& addresses, std::uint8_t client,
                                        Instant now) {
  const auto may = may_map(client, addresses.flags);
  if (!may) {
    return std::unexpected(may.error());
  }
  if (!*may) {
    return Started{};
  }
  return ask(
      wire::iwpm::AddMapping{
          .sequence = echo_sequence_, .local = addresses.local, .flags = addresses.flags},
      client, addresses, now);
}

Result<Started> KernelSide::add_and_query_mapping(const ConnectionAddresses& addresses,
                                                  std::uint8_t client, Instant now) {
  const auto may = may_map(client, addresses.flags);
  if (!may) {
    return std::unexpected(may.error());
  }
  if (!*may) {
    return Started{};
  }
  return ask(wire::iwpm::QueryMapping{.sequence = echo_sequence_,
                                      .local = addresses.local,
                                      .remote = addresses.remote,
                                      .flags = addresses.flags},
             client, addresses, now);
}

Result<void> KernelSide::remove_mapping(const SocketAddress& local, std::uint8_t client) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  if (!valid_pid()) {
    return {};
  }
  if (check_registration(client, kRegistrationUndefined)) {
    return fail(ErrorCode::InvalidArgument, "client {} has not registered with the port mapper",
                client_name(client));
  }
  auto datagram = form(wire::iwpm::RemoveMapping{.sequence = echo_sequence_, .local = local},
                       client, get_nlmsg_seq());
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  return send_to_daemon(std::move(*datagram));
}

Result<void> KernelSide::create_mapinfo(const SocketAddress& local, const SocketAddress& mapped,
                                        std::uint8_t client, std::uint32_t flags) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  return records_.create_mapinfo(client, local, mapped, flags);
}

Result<std::size_t> KernelSide::send_mapinfo(std::uint8_t client, std::uint32_t daemon) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  constexpr std::uint16_t kMulti = wire::netlink::kFlagMulti;
  std::vector<std::byte> datagram;
  const auto send = [&]() -> Result<void> {
    // The mark of the end is a header alone, which always has room: records leave it.
    wire::netlink::MessageWriter writer{datagram};
    writer.begin({.length = 0, .type = wire::netlink::kTypeDone, .flags = kMulti});
    writer.end();
    return services_.unicast(daemon, std::exchange(datagram, {}));
  };
  const std::size_t room = options_.message_room < wire::netlink::kHeaderBytes
                               ? 0
                               : options_.message_room - wire::netlink::kHeaderBytes;
  const auto records = records_.mapinfo_of(client);
  const wire::iwpm::Envelope envelope{.client = client, .sequence = 0, .port = 0, .flags = kMulti};
  for (const wire::iwpm::Mapinfo& record : records) {
    if (wire::iwpm::append(datagram, room, envelope, record, abi_)) {
      continue;
    }
    if (datagram.empty()) {
      return fail(ErrorCode::OutOfMemory, "there is no room for a record");
    }
    if (const auto sent = send(); !sent) {
      return std::unexpected(sent.error());
    }
    if (!wire::iwpm::append(datagram, room, envelope, record, abi_)) {
      return fail(ErrorCode::OutOfMemory, "there is no room for a record");
    }
  }
  if (!datagram.empty()) {
    if (const auto sent = send(); !sent) {
      return std::unexpected(sent.error());
    }
  }
  auto count = form(
      wire::iwpm::MapinfoCount{.sequence = 0, .sent = static_cast<std::uint32_t>(records.size())},
      client, get_nlmsg_seq());
  if (!count) {
    return std::unexpected(count.error());
  }
  if (const auto sent = services_.unicast(daemon, std::move(*count)); !sent) {
    return std::unexpected(sent.error());
  }
  return records.size();
}

void KernelSide::add_remote_info(const RemoteInfo& info) {
  if (!records_.add_remote_info(info)) {
    services_.log(print_sockaddr(info.remote, "iwpm: too many peers, this one is not kept:"));
  }
}

Result<SocketAddress> KernelSide::get_remote_info(const SocketAddress& mapped_local,
                                                  const SocketAddress& mapped_remote,
                                                  std::uint8_t client) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  return records_.get_remote_info(mapped_local, mapped_remote);
}

Result<void> KernelSide::send_hello(std::uint8_t client, std::uint32_t daemon, std::uint16_t abi) {
  if (!valid_client(client)) {
    return no_client(client);
  }
  auto datagram = form(wire::iwpm::Hello{.abi = abi}, client, get_nlmsg_seq());
  if (!datagram) {
    return std::unexpected(datagram.error());
  }
  return services_.unicast(daemon, std::move(*datagram));
}

void KernelSide::handle_timeout(Instant now) { collect(now); }

std::optional<Completion> KernelSide::poll_completion() {
  if (completions_.empty()) {
    return std::nullopt;
  }
  Completion completion = std::move(completions_.front());
  completions_.pop_front();
  return completion;
}

void KernelSide::collect(Instant now) {
  std::erase_if(waiting_, [&](NlmsgRequest* request) {
    Completion completion{.sequence = request->sequence(),
                          .client = request->client(),
                          .operation = request->operation,
                          .result = {},
                          .addresses = request->addresses};
    const auto result = requests_.wait_complete_req(*request, now);
    if (!result) {
      return false;
    }
    if (result->is_timeout) {
      services_.log(
          fmt::format("iwpm: the port mapper has not answered request {}", completion.sequence));
    }
    completion.result = *result;
    completions_.push_back(std::move(completion));
    return true;
  });
}

void KernelSide::check_invariants() const {
  requests_.check_invariants();
  const auto valid = std::ranges::count_if(client_, &Client::is_valid);
  WEFT_ASSERT(static_cast<unsigned>(valid) == clients_, "clients are counted");
  WEFT_ASSERT(clients_ != 0 || records_.mappings() == 0, "records go with the last client");
}

}  // namespace weft::iwpm
