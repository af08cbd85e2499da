// Messages between processes about shared verbs objects (uabi/shared_object_messages.h). The daemon
// verifies the sender, and that both processes have the domain or device open.

#include <sys/stat.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "daemon/daemon_impl.h"

namespace weft::daemon {
namespace {

constexpr std::uint64_t kManyLate = 64;  // policy

[[nodiscard]] std::uint8_t code_of(ErrorCode code) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(code) + 1);
}

}  // namespace

// --- target QPs of XRC domains

template <class Message>
void Daemon::Impl::relay_target(Client& client, Message message) {
  if (!xrc_domains_.has(*client.process, message.domain)) {
    record_offence(client, "messages about XRC domains that it does not have open");
    return;
  }
  const node::ProcessId peer = process_of(message.peer);
  Client* const other = client_of(peer);
  if (other != nullptr && xrc_domains_.has(peer, message.domain) && !other->is_backlogged()) {
    message.peer = address_of(*client.process);
    other->send(message);
    return;
  }
  if constexpr (std::is_same_v<Message, uabi::XrcTargetRequest>) {
    client.send(uabi::XrcTargetAnswer{
        .peer = message.peer,
        .domain = message.domain,
        .serial = message.serial,
        .error = code_of(ErrorCode::NoSuchDevice),
        .reason = "the process whose QP has that number does not have the XRC domain open",
        .attributes = {}});
  }
}

template void Daemon::Impl::relay_target(Client&, uabi::XrcTargetRequest);
template void Daemon::Impl::relay_target(Client&, uabi::XrcTargetAnswer);
template void Daemon::Impl::relay_target(Client&, uabi::XrcTargetEvent);

// --- devices

void Daemon::Impl::share_device(Client& client, const uabi::ShareDevice& request,
                                os::UniqueFd file) {
  struct stat status{};
  if (request.hca >= view().hcas_of(view().node(client.process->host)).size() ||
      fstat(file.get(), &status) != 0) {
    record_offence(client, "devices of HCAs or files that do not exist");
    return;
  }
  const node::SharedDevices::Name name{
      .host = client.process->host, .device = status.st_dev, .inode = status.st_ino};
  if (request.is_over) {
    if (const auto device = shared_devices_.owned(*client.process, name)) {
      leave_device(*client.process, *device, true);
    } else {
      record_offence(client, "messages about devices that it does not have open");
    }
    return;
  }
  const auto shared = shared_devices_.share(*client.process, name, request.hca);
  if (shared) {  // keeps the file open, so that its inode number is not reused
    device_files_[*shared] = std::move(file);
  } else if (shared.error().code == ErrorCode::Exists) {
    record_offence(client, "devices that are another's");
  }  // otherwise the limit is reached, and the device cannot be imported
}

void Daemon::Impl::import_device(Client& client, const uabi::ImportDevice& request,
                                 os::UniqueFd file) {
  struct stat status{};
  uabi::DeviceImported answer{.request = request.request,
                              .device = 0,
                              .owner = {},
                              .hca = 0,
                              .may_retry = false,
                              .reason = {}};
  if (fstat(file.get(), &status) != 0) {
    answer.reason = "the descriptor is of no file";
    client.send(std::move(answer));
    return;
  }
  const auto imported = shared_devices_.import(
      *client.process,
      {.host = client.process->host, .device = status.st_dev, .inode = status.st_ino});
  if (imported) {
    const node::SharedDevices::Device& device = *shared_devices_.find(*imported);
    answer.device = *imported;
    answer.owner = address_of(device.owner);
    answer.hca = device.hca;
  } else {
    answer.may_retry = imported.error().code == ErrorCode::TryAgain;
    answer.reason = imported.error().reason;
  }
  client.send(std::move(answer));
}

void Daemon::Impl::close_device(Client& client, const uabi::LeaveDevice& request) {
  if (shared_devices_.has(*client.process, request.device)) {
    leave_device(*client.process, request.device, false);
  } else {
    record_offence(client, "words about devices that it has not open");
  }
}

/// Questions go to the owner, answers come from it.
template <class Message>
void Daemon::Impl::relay_object(Client& client, Message message) {
  constexpr bool kIsQuestion = std::is_same_v<Message, uabi::ObjectRequest>;
  const node::SharedDevices::Device* const device = shared_devices_.find(message.device);
  if (!shared_devices_.has(*client.process, message.device) ||
      (!kIsQuestion && device->owner != *client.process)) {
    // Messages may have been in flight when the owner closed the device, so a few are not a
    // violation.
    record_offence(client, "messages about devices that it does not have open",
                   device == nullptr ? kManyLate : 1);
    if (!kIsQuestion || device != nullptr) {
      return;
    }
  }
  const node::ProcessId peer = process_of(message.peer);
  Client* const other = client_of(peer);
  if (device != nullptr && other != nullptr && shared_devices_.has(peer, message.device) &&
      (!kIsQuestion || device->owner == peer) && !other->is_backlogged()) {
    message.peer = address_of(*client.process);
    if constexpr (kIsQuestion) {
      message.inode = device->name.inode;
    }
    other->send(message);
    return;
  }
  if constexpr (kIsQuestion) {
    uabi::ObjectAnswer answer;
    answer.peer = message.peer;
    answer.device = message.device;
    answer.serial = message.serial;
    answer.error = code_of(ErrorCode::NoSuchDevice);
    answer.reason = "the program that opened the device has closed it or has ended";
    client.send(std::move(answer));
  }
}

template void Daemon::Impl::relay_object(Client&, uabi::ObjectRequest);
template void Daemon::Impl::relay_object(Client&, uabi::ObjectAnswer);

void Daemon::Impl::leave_device(node::ProcessId process, std::uint32_t device, bool wholly) {
  for (const node::ProcessId other : shared_devices_.leave(process, device, wholly)) {
    if (Client* const client = client_of(other)) {
      client->send(uabi::DeviceGone{.peer = address_of(process), .device = device});
    }
  }
  if (shared_devices_.find(device) == nullptr) {
    device_files_.erase(device);
  }
}

void Daemon::Impl::leave_devices(node::ProcessId process) {
  for (const std::uint32_t device : shared_devices_.of(process)) {
    leave_device(process, device, true);
  }
}

}  // namespace weft::daemon
