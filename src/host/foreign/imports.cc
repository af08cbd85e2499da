#include "host/foreign/imports.h"

#include <fcntl.h>

#include <thread>
#include <utility>

namespace weft::host {
namespace {

/// Policy: its owner may have just opened the device, and its message may not have reached the
/// daemon.
constexpr std::chrono::milliseconds kPause{5};
constexpr int kTries = 20;

[[nodiscard]] os::UniqueFd duplicate(int fd) { return os::UniqueFd{fcntl(fd, F_DUPFD_CLOEXEC, 0)}; }

}  // namespace

uabi::ObjectAnswer ProcessEvents::handle_object_request(const uabi::ObjectRequest& /*question*/) {
  uabi::ObjectAnswer nothing;
  put_error(nothing, {ErrorCode::NotSupported, "the program shares no devices"});
  return nothing;
}

/// Sends on the calling thread: a program that closes a device expects its descriptor to be closed
/// on return.
void Imports::tell_of_device(std::uint32_t hca, int command, bool is_over) {
  if (os::UniqueFd file = duplicate(command)) {
    daemon_.post_and_send(uabi::ShareDevice{.hca = hca, .is_over = is_over}, std::move(file));
  }
}

Result<ImportedDevice> Imports::import_device(int command) {
  daemon_.start_daemon_events();
  for (int attempt = 1;; ++attempt) {
    const auto answer = request_device(command);
    if (!answer) {
      return std::unexpected(answer.error());
    }
    if (answer->device != 0) {
      return ImportedDevice{.number = answer->device, .owner = answer->owner, .hca = answer->hca};
    }
    if (!answer->may_retry || attempt == kTries) {
      return fail(answer->may_retry ? ErrorCode::NotFound : ErrorCode::OutOfMemory, "{}",
                  answer->reason);
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<uabi::DeviceImported> Imports::request_device(int command) {
  os::UniqueFd file = duplicate(command);
  if (!file) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} is not open", command);
  }
  auto answer = devices_.ask(
      {},
      [&](std::uint32_t serial) {
        daemon_.post(uabi::ImportDevice{.request = serial}, std::move(file));
      },
      [this] { return daemon_.is_gone(); });
  if (!answer) {
    return daemon_.is_gone() ? std::unexpected(daemon_.gone())
                             : fail(ErrorCode::TimedOut, "the daemon does not answer");
  }
  return std::move(*answer);
}

void Imports::leave_device(const ImportedDevice& device) {
  daemon_.post(uabi::LeaveDevice{.device = device.number});
}

Result<uabi::ObjectAnswer> Imports::ask_for_object(const ImportedDevice& device,
                                                   uabi::ImportVerb verb, std::uint32_t handle) {
  uabi::ObjectRequest question;
  question.peer = device.owner;
  question.device = device.number;
  question.verb = verb;
  question.handle = handle;
  auto answer = objects_.ask(
      {.owner = device.owner, .device = device.number},
      [&](std::uint32_t serial) {
        question.serial = serial;
        daemon_.post(question);
      },
      [this] { return daemon_.is_gone(); });
  if (!answer) {
    return daemon_.is_gone()
               ? std::unexpected(daemon_.gone())
               : fail(ErrorCode::TimedOut,
                      "the program that opened the device does not answer: is it stopped?");
  }
  if (answer->error != 0) {
    return std::unexpected(error_in(*answer));
  }
  return std::move(*answer);
}

void Imports::handle(const uabi::DeviceImported& answer) {
  const bool is_awaited = devices_.answer(answer.request, answer, [](Nothing) { return true; });
  if (!is_awaited && answer.device != 0) {
    daemon_.post(uabi::LeaveDevice{.device = answer.device});  // the requester no longer waits
  }
}

void Imports::handle(const uabi::ObjectRequest& question) {
  uabi::ObjectAnswer answer = events_.handle_object_request(question);
  answer.peer = question.peer;
  answer.device = question.device;
  answer.serial = question.serial;
  daemon_.post(std::move(answer));
}

void Imports::handle(const uabi::ObjectAnswer& answer) {
  objects_.answer(answer.serial, answer,
                  [&](const About& about) { return about.owner == answer.peer; });
}

/// From now on the daemon forwards no responses of the device's owner.
void Imports::handle(const uabi::DeviceGone& left) {
  uabi::ObjectAnswer none;
  put_error(none, {ErrorCode::NoSuchDevice,
                   "the program that opened the device has closed it, or is gone"});
  objects_.answer_all(none, [&](const About& about) {
    return about.owner == left.peer && about.device == left.device;
  });
  events_.device_gone(left.device, left.peer);
}

}  // namespace weft::host
