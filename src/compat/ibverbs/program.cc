// This program's attachment to its fabric, and error reporting.

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "compat/ibverbs/foreign_objects.h"
#include "compat/ibverbs/objects.h"
#include "os/error_numbers.h"
#include "os/fork_boundary.h"

namespace weft::compat {
namespace {

/// Distributes the engine's events to the queues on which programs wait.
class Events final : public host::ProcessEvents {
 public:
  void completion_event(std::uint32_t, hca::CompletionQueue& cq) override {
    auto* const object = static_cast<CompletionQueueObject*>(cq.user);
    if (object != nullptr && object->cq.channel != nullptr) {
      object_of<CompletionChannel>(object->cq.channel).events.push(object);
    }
  }

  void async_event(std::uint32_t hca, const hca::AsyncEvent& event) override;
  void target_event(std::uint32_t domain, Qpn target, hca::AsyncEventType type) override;
  [[nodiscard]] uabi::ObjectAnswer handle_object_request(
      const uabi::ObjectRequest& question) override {
    return answer_importer(question);
  }
  void device_gone(std::uint32_t device, uabi::ProcessAddress peer) override {
    remove_importer(device, peer);
  }

  /// The user must be told, since the program itself only sees errors.
  void fabric_gone(std::string_view reason) override {
    std::fprintf(stderr, "weft: %.*s\n", static_cast<int>(reason.size()), reason.data());
  }

  [[nodiscard]] bool explains_errors() const override { return compat::explains_errors(); }
  void explain(std::string_view reason) override { compat::explain(reason); }

  std::mutex contexts_lock;
  std::vector<Context*> contexts;
};

Events& events = *new Events;  // never destroyed: our threads run until the program exits
std::recursive_mutex attach_lock;
std::atomic<host::Process*> attached{nullptr};
std::uint64_t attachments = 0;  // so far, with attach_lock
std::string told_refusal;       // the same: of the latest attempt; it is told once

/// A program may exit before our thread has reported the end of the fabric: because it saw an
/// error, or with data in transit.
struct FinalReport {
  ~FinalReport() {
    if (host::Process* const program = attached.load(); program && !os::is_child_of_fork()) {
      program->report_if_fabric_gone();
      program->finish_sending();
    }
  }
};
const FinalReport final_report;

// Events have the numbers of the verbs API (verbs/async_event.h).
static_assert(static_cast<int>(hca::AsyncEventType::PathMigrated) == IBV_EVENT_PATH_MIG);
static_assert(static_cast<int>(hca::AsyncEventType::SrqLimitReached) ==
              IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(static_cast<int>(hca::AsyncEventType::GidChange) == IBV_EVENT_GID_CHANGE);

void Events::async_event(std::uint32_t hca, const hca::AsyncEvent& event) {
  AsyncEventRecord record{};
  record.event.event_type = static_cast<ibv_event_type>(event.type);
  Context* context = nullptr;
  if (event.qp != nullptr && event.qp->type() == hca::QpType::XrcTarget) {
    push_to_targets(*event.qp, record);
    return;
  }
  if (event.qp != nullptr) {
    auto* const object = static_cast<QpObject*>(event.qp->user);
    if (object == nullptr) {
      return;  // between creation and first use, no event can occur
    }
    record.event.element.qp = &object->qp.qp_base;
    context = object->context;
  } else if (event.cq != nullptr) {
    auto* const object = static_cast<CompletionQueueObject*>(event.cq->user);
    record.event.element.cq = ibv_cq_ex_to_cq(&object->cq);
    context = object->context;
  } else if (event.srq != nullptr) {
    auto* const object = static_cast<SharedReceiveQueueObject*>(event.srq->user);
    record.event.element.srq = &object->srq;
    context = object->context;
  } else {
    record.event.element.port_num = event.port.value();
  }
  if (context != nullptr) {
    context->async_events.push(record);
    return;
  }
  const std::lock_guard guard{contexts_lock};
  for (Context* const open : contexts) {
    if (open->hca == hca && is_alive(*open)) {  // ignores those that a parent had before fork()
      open->async_events.push(record);
    }
  }
}

void Events::target_event(std::uint32_t domain, Qpn target, hca::AsyncEventType type) {
  AsyncEventRecord record{};
  record.event.event_type = static_cast<ibv_event_type>(type);
  push_to_targets(PeerTarget{.domain = domain, .number = target}, record);
}

}  // namespace

void add_context(Context& context) {
  const std::lock_guard guard{events.contexts_lock};
  events.contexts.push_back(&context);
}

void remove_context(Context& context) {
  const std::lock_guard guard{events.contexts_lock};
  std::erase(events.contexts, &context);
}

Context* context_of_command(int command) {
  struct stat wanted{};
  if (fstat(command, &wanted) != 0) {
    return nullptr;
  }
  const std::lock_guard guard{events.contexts_lock};
  for (Context* const open : events.contexts) {
    struct stat own{};
    if (is_alive(*open) && fstat(open->command.get(), &own) == 0 && own.st_dev == wanted.st_dev &&
        own.st_ino == wanted.st_ino) {
      return open;
    }
  }
  return nullptr;
}

Result<void> with_context_of(std::uint64_t inode,
                             const std::function<Result<void>(const Context&)>& use) {
  const std::lock_guard guard{events.contexts_lock};
  for (const Context* const open : events.contexts) {
    struct stat own{};
    if (is_alive(*open) && open->handles->foreign == nullptr &&
        fstat(open->command.get(), &own) == 0 && own.st_ino == inode) {
      return use(*open);
    }
  }
  return fail(ErrorCode::NoSuchDevice, "the program that opened the device has closed it");
}

namespace {

/// With attach_lock. False after it was told why.
[[nodiscard]] bool attach() {
  auto opened = host::Process::open(host::options_of_environment(), events);
  if (!opened) {
    if (std::exchange(told_refusal, opened.error().reason) != opened.error().reason) {
      std::fprintf(stderr, "weft: %s\n", opened.error().reason.c_str());
    }
    return false;
  }
  told_refusal.clear();
  attached.store(opened->release());
  ++attachments;
  return true;
}

[[nodiscard]] bool has_open_devices() {
  const std::lock_guard guard{events.contexts_lock};
  return std::ranges::any_of(events.contexts,
                             [](const Context* context) { return is_alive(*context); });
}

}  // namespace

host::Process* process() {
  const std::lock_guard guard{attach_lock};
  // A child of fork() attaches anew; what it inherited belongs to its parent and stays untouched.
  if (attached.load() == nullptr || os::is_child_of_fork()) {
    return attach() ? attached.load() : nullptr;
  }
  return attached.load();
}

std::unique_lock<std::recursive_mutex> hold_attachment() { return std::unique_lock{attach_lock}; }

std::uint64_t attachment_number() { return attachments; }

bool renew_attachment() {
  host::Process* const before = attached.load();
  if (before == nullptr || os::is_child_of_fork() || !before->is_fabric_gone()) {
    return true;
  }
  if (has_open_devices() || !attach()) {
    return false;
  }
  delete before;  // nothing of it is open
  return true;
}

bool is_alive(const Context& context) {
  return context.process == attached.load(std::memory_order_relaxed) && !os::is_child_of_fork();
}

bool explains_errors() {
  static const bool wanted = [] {
    const char* const value = std::getenv("WEFT_EXPLAIN");
    return value != nullptr && *value != '\0' && *value != '0';
  }();
  return wanted;
}

void explain(std::string_view reason) {
  if (explains_errors()) {
    std::fprintf(stderr, "weft: %.*s\n", static_cast<int>(reason.size()), reason.data());
  }
}

int refuse(const Error& error) {
  explain(error.reason);
  errno = os::error_number_of(error.code);
  return errno;
}

int refuse(int error_number, std::string_view reason) {
  explain(reason);
  errno = error_number;
  return errno;
}

int refuse_in_child() { return refuse(EIO, "a child of fork() has none of its parent's objects"); }

}  // namespace weft::compat
