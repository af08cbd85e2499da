// Devices, PDs and regions that this process has imported from others, and those of its own that
// others have (ibv_import_device(3)): words to and from the process that opened the device.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "host/process_impl.h"

namespace weft::host {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with the daemon or another process; policy

/// Its owner may have opened a device just now, and the daemon not have heard of it; policy.
constexpr std::chrono::milliseconds kPause{5};
constexpr int kTries = 20;

[[nodiscard]] UniqueFd duplicate(int fd) { return UniqueFd{fcntl(fd, F_DUPFD_CLOEXEC, 0)}; }

[[nodiscard]] uabi::AskForObject question_of(const ImportedDevice& device, uabi::ImportVerb verb,
                                             std::uint32_t handle) {
  uabi::AskForObject question;
  question.peer = device.owner;
  question.device = device.number;
  question.verb = verb;
  question.handle = handle;
  return question;
}

}  // namespace

uabi::ObjectAnswer ProcessEvents::object_wanted(const uabi::AskForObject& /*question*/) {
  uabi::ObjectAnswer nothing;
  nothing.error = static_cast<std::uint8_t>(ErrorCode::NotSupported) + 1;
  nothing.reason = "the program shares no devices";
  return nothing;
}

void Process::share_device(std::uint32_t hca, int command) {
  if (UniqueFd file = duplicate(command)) {
    impl_->post_and_send(uabi::ShareDevice{.hca = hca, .is_over = false}, std::move(file));
  }
}

void Process::unshare_device(std::uint32_t hca, int command) {
  if (UniqueFd file = duplicate(command)) {
    impl_->post_and_send(uabi::ShareDevice{.hca = hca, .is_over = true}, std::move(file));
  }
}

Result<ImportedDevice> Process::import_device(int command) {
  impl_->start_hearing();
  for (int attempt = 1;; ++attempt) {
    const auto answer = impl_->ask_for_device(command);
    if (!answer) {
      return std::unexpected(answer.error());
    }
    if (answer->device != 0) {
      return ImportedDevice{.number = answer->device, .owner = answer->owner, .hca = answer->hca};
    }
    if (!answer->may_come || attempt == kTries) {
      return fail(answer->may_come ? ErrorCode::NotFound : ErrorCode::OutOfMemory, "{}",
                  answer->reason);
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<uabi::DeviceImported> Process::Impl::ask_for_device(int command) {
  UniqueFd file = duplicate(command);
  if (!file) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} is not open", command);
  }
  std::unique_lock guard{xrc_lock};
  const std::uint32_t request = ++newest_xrc_request;
  device_questions[request] = std::nullopt;
  post(uabi::ImportDevice{.request = request}, std::move(file));
  xrc_answered.wait_for(guard, kPatience, [&] {
    return device_questions[request].has_value() || daemon_is_gone.load();
  });
  auto answer = std::move(device_questions.extract(request).mapped());
  if (!answer) {
    return daemon_is_gone.load() ? std::unexpected(gone())
                                 : fail(ErrorCode::TimedOut, "the daemon does not answer");
  }
  return std::move(*answer);
}

void Process::leave_device(const ImportedDevice& device) {
  impl_->post(uabi::LeaveDevice{.device = device.number});
}

Result<uabi::ObjectAnswer> Process::ask_for_object(const ImportedDevice& device,
                                                   uabi::ImportVerb verb, std::uint32_t handle) {
  uabi::AskForObject question = question_of(device, verb, handle);
  std::unique_lock guard{impl_->xrc_lock};
  question.serial = ++impl_->newest_xrc_request;
  auto& asked = impl_->object_questions[question.serial];
  asked.peer = device.owner;
  asked.device = device.number;
  impl_->post(question);
  impl_->xrc_answered.wait_for(
      guard, kPatience, [&] { return asked.answer.has_value() || impl_->daemon_is_gone.load(); });
  auto answer = std::move(impl_->object_questions.extract(question.serial).mapped().answer);
  if (!answer) {
    return impl_->daemon_is_gone.load()
               ? std::unexpected(impl_->gone())
               : fail(ErrorCode::TimedOut,
                      "the program that opened the device does not answer: is it stopped?");
  }
  if (answer->error != 0) {
    constexpr unsigned kLast = static_cast<unsigned>(ErrorCode::BadAddress) + 1;
    return fail(answer->error <= kLast ? static_cast<ErrorCode>(answer->error - 1) : ErrorCode::Io,
                "{}", answer->reason);
  }
  return std::move(*answer);
}

/// What its owner answers from now on, the daemon carries no more.
void Process::Impl::give_up_questions(const uabi::DeviceGone& left) {
  const std::lock_guard guard{xrc_lock};
  for (auto& [serial, question] : object_questions) {
    if (question.device == left.device && question.peer == left.peer && !question.answer) {
      question.answer.emplace();
      question.answer->error = static_cast<std::uint8_t>(ErrorCode::NoSuchDevice) + 1;
      question.answer->reason = "the program that opened the device has closed it or has ended";
    }
  }
  xrc_answered.notify_all();
}

/// False: it is none of these. On the control thread.
bool Process::Impl::handle_import(const uabi::Message& message) {
  if (const auto* imported = std::get_if<uabi::DeviceImported>(&message)) {
    const std::lock_guard guard{xrc_lock};
    if (const auto asked = device_questions.find(imported->request);
        asked != device_questions.end()) {
      asked->second = *imported;
      xrc_answered.notify_all();
    } else if (imported->device != 0) {
      post(uabi::LeaveDevice{.device = imported->device});  // who asked waits no longer
    }
  } else if (const auto* question = std::get_if<uabi::AskForObject>(&message)) {
    uabi::ObjectAnswer answer = events.object_wanted(*question);
    answer.peer = question->peer;
    answer.device = question->device;
    answer.serial = question->serial;
    post(std::move(answer));
  } else if (const auto* answer = std::get_if<uabi::ObjectAnswer>(&message)) {
    const std::lock_guard guard{xrc_lock};
    if (const auto asked = object_questions.find(answer->serial);
        asked != object_questions.end() && asked->second.peer == answer->peer) {
      asked->second.answer = *answer;
      xrc_answered.notify_all();
    }
  } else if (const auto* left = std::get_if<uabi::DeviceGone>(&message)) {
    give_up_questions(*left);
    events.device_gone(left->device, left->peer);
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::host
