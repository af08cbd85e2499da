// What the daemon says to the kernel's side: one callback for each operation.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "iwpm/kernel_side.h"
#include "iwpm/planted_bug.h"

namespace weft::iwpm {

using wire::iwpm::DaemonError;
using wire::iwpm::Operation;
using wire::netlink::Message;

namespace {

[[nodiscard]] bool is_known(const std::string& library, std::uint16_t version) {
  return library == wire::iwpm::kLibraryName && version >= wire::iwpm::kAbiMin;
}

}  // namespace

// RemoveMapping has no answer.
const std::array<KernelSide::Callback, wire::iwpm::kOperations - 1> KernelSide::kCallbacks{
    {
     {Operation::RegisterPid, &KernelSide::register_pid_cb},
     {Operation::AddMapping, &KernelSide::add_mapping_cb},
     {Operation::QueryMapping, &KernelSide::add_and_query_mapping_cb},
     {Operation::RemoteInfo, &KernelSide::remote_info_cb},
     {Operation::HandleError, &KernelSide::mapping_error_cb},
     {Operation::Mapinfo, &KernelSide::mapping_info_cb},
     {Operation::MapinfoCount, &KernelSide::ack_mapping_info_cb},
     {Operation::Hello, &KernelSide::hello_cb},
     }
};

int KernelSide::handle_message(const Message& message, std::uint32_t sender, Instant now) {
  const Operation operation = wire::iwpm::operation_of(message.header.type);
  const auto found = std::ranges::find(kCallbacks, operation, &Callback::operation);
  if (found == kCallbacks.end() || sender == 0) {
    return -EINVAL;
  }
  const int result = (this->*found->handler)(message, sender);
  collect(now);
  return result;
}

NlmsgRequest* KernelSide::find_answered(std::uint32_t sequence, std::uint32_t sender) {
  NlmsgRequest* request = requests_.find_nlmsg_request(sequence);
  if (request == nullptr) {
    return nullptr;
  }
  // Only who was asked may answer; of register_pid, which asks all, the first one.
  if (request->daemon != 0 && request->daemon != sender) {
    requests_.put(*request);
    return nullptr;
  }
  return request;
}

void KernelSide::complete(NlmsgRequest& request, DaemonError error) {
  requests_.complete(request, static_cast<int>(error));
  requests_.put(request);  // the reference of find_answered()
}

int KernelSide::register_pid_cb(const Message& message, std::uint32_t sender) {
  const auto answer = wire::iwpm::parse<wire::iwpm::RegisterPidAnswer>(message.payload);
  if (!answer) {
    return -EINVAL;
  }
  NlmsgRequest* request = find_answered(answer->sequence, sender);
  if (request == nullptr || request->operation != Operation::RegisterPid) {
    if (request != nullptr) {
      requests_.put(*request);
    }
    return -EINVAL;
  }
  if (answer->device_name != request->device.device_name ||
      !is_known(answer->library_name, answer->library_version)) {
    services_.log(fmt::format("iwpm: a daemon with library {} of version {} for device {} is none",
                              answer->library_name, answer->library_version, answer->device_name));
    complete(*request, DaemonError::UserLibraryInfo);
    return 0;
  }
  if (answer->error != 0) {
    complete(*request, static_cast<DaemonError>(answer->error));
    return 0;
  }
  daemon_ = sender;
  abi_ = std::min(answer->library_version, wire::iwpm::kAbi);
  echo_sequence_ = message.header.sequence;
  if (valid_client(request->client())) {
    set_registration(request->client(), kRegistrationValid);
  }
  complete(*request, DaemonError::None);
  return 0;
}

int KernelSide::add_mapping_cb(const Message& message, std::uint32_t sender) {
  const auto answer = wire::iwpm::parse<wire::iwpm::AddMappingAnswer>(message.payload);
  if (!answer) {
    return -EINVAL;
  }
  NlmsgRequest* request = find_answered(answer->sequence, sender);
  if (request == nullptr) {
    return -EINVAL;
  }
  echo_sequence_ = message.header.sequence;
  if (answer->error != 0) {
    complete(*request, static_cast<DaemonError>(answer->error));
    return 0;
  }
  if (request->operation != Operation::AddMapping ||
      compare_sockaddr(answer->local, request->addresses.local) != 0 ||
      answer->mapped_local.family != answer->local.family) {
    complete(*request, DaemonError::UserLibraryInfo);
    return 0;
  }
  request->addresses.mapped_local = answer->mapped_local;
  complete(*request, DaemonError::None);
  return 0;
}

int KernelSide::add_and_query_mapping_cb(const Message& message, std::uint32_t sender) {
  const auto answer = wire::iwpm::parse<wire::iwpm::ConnectionInfo>(message.payload);
  if (!answer) {
    return -EINVAL;
  }
  NlmsgRequest* request = find_answered(answer->sequence, sender);
  if (request == nullptr) {
    return -EINVAL;
  }
  echo_sequence_ = message.header.sequence;
  const auto error = static_cast<DaemonError>(answer->error);
  if (error != DaemonError::None && error != DaemonError::RemoteQueryReject) {
    complete(*request, error);
    return 0;
  }
  if (request->operation != Operation::QueryMapping ||
      compare_sockaddr(answer->local, request->addresses.local) != 0 ||
      compare_sockaddr(answer->remote, request->addresses.remote) != 0 ||
      answer->mapped_local.family != answer->local.family ||
      answer->mapped_remote.family != answer->remote.family) {
    complete(*request, DaemonError::UserLibraryInfo);
    return 0;
  }
  request->addresses.mapped_local = answer->mapped_local;
  request->addresses.mapped_remote =
      error == DaemonError::None ? answer->mapped_remote : request->addresses.remote;
  // A peer that listens on any of its addresses tells its port only.
  if (request->addresses.mapped_remote.is_wildcard()) {
    request->addresses.mapped_remote =
        request->addresses.remote.with_port(answer->mapped_remote.port);
  }
  complete(*request, error);
  return 0;
}

int KernelSide::remote_info_cb(const Message& message, std::uint32_t sender) {
  const auto info = wire::iwpm::parse<wire::iwpm::ConnectionInfo>(message.payload);
  const std::uint8_t client = wire::iwpm::client_of(message.header.type);
  if (!info || !valid_client(client) || daemon() != sender || !info->local.is_ip() ||
      !info->remote.is_ip() || info->mapped_local.family != info->local.family ||
      info->mapped_remote.family != info->remote.family) {
    return -EINVAL;
  }
  echo_sequence_ = message.header.sequence;
  add_remote_info({.client = client,
                   .mapped_local = info->mapped_local,
                   .mapped_remote = info->mapped_remote,
                   .remote = info->remote});
  return 0;
}

int KernelSide::mapping_info_cb(const Message& message, std::uint32_t sender) {
  const auto request = wire::iwpm::parse<wire::iwpm::MapinfoRequest>(message.payload);
  const std::uint8_t client = wire::iwpm::client_of(message.header.type);
  if (!request || !is_known(request->library_name, request->library_version) ||
      !valid_client(client)) {
    return -EINVAL;
  }
  if (!planted(PlantedBug::RegistrationKept)) {
    set_registration(client, kRegistrationIncomplete);
  }
  echo_sequence_ = message.header.sequence;
  daemon_ = sender;
  // Linux sends nothing without a record; a count of none lets the daemon know that it has all.
  if (const auto sent = send_mapinfo(client, sender); !sent) {
    services_.log(
        fmt::format("iwpm: the port mapper cannot be told all mappings: {}", sent.error().reason));
    return sent.error().code == ErrorCode::OutOfMemory ? -ENOMEM : -ECONNREFUSED;
  }
  return 0;
}

int KernelSide::ack_mapping_info_cb(const Message& message, std::uint32_t sender) {
  const auto ack = wire::iwpm::parse<wire::iwpm::MapinfoCountAnswer>(message.payload);
  if (!ack || daemon() != sender) {
    return -EINVAL;
  }
  if (ack->received != ack->sent) {
    services_.log(
        fmt::format("iwpm: of {} mappings the port mapper has taken {}", ack->sent, ack->received));
  }
  echo_sequence_ = message.header.sequence;
  return 0;
}

int KernelSide::mapping_error_cb(const Message& message, std::uint32_t sender) {
  const auto error = wire::iwpm::parse<wire::iwpm::HandleError>(message.payload);
  if (!error) {
    return -EINVAL;
  }
  NlmsgRequest* request = find_answered(error->sequence, sender);
  services_.log(fmt::format("iwpm: the port mapper reports error {} of request {}", error->error,
                            error->sequence));
  if (request == nullptr) {
    return 0;  // not every error has a request
  }
  echo_sequence_ = message.header.sequence;
  // An error of 0 must not look like a mapping.
  complete(*request, error->error == 0 ? DaemonError::InvalidMessage
                                       : static_cast<DaemonError>(error->error));
  return 0;
}

int KernelSide::hello_cb(const Message& message, std::uint32_t sender) {
  const auto hello = wire::iwpm::parse<wire::iwpm::Hello>(message.payload);
  const std::uint8_t client = wire::iwpm::client_of(message.header.type);
  if (!hello || hello->abi < wire::iwpm::kAbiMin || !valid_client(client)) {
    return -EINVAL;
  }
  if (!planted(PlantedBug::RegistrationKept)) {
    set_registration(client, kRegistrationIncomplete);
  }
  echo_sequence_ = message.header.sequence;
  abi_ = std::min(hello->abi, wire::iwpm::kAbi);
  daemon_ = sender;
  return send_hello(client, sender, abi_) ? 0 : -ECONNREFUSED;
}

}  // namespace weft::iwpm
