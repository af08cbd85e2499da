#include "verbs_driver/verbs_device.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "core/cq.h"
#include "core/events.h"
#include "core/qp.h"
#include "core/srq.h"
#include "verbs_driver/translation.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

[[nodiscard]] Result<void> make_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return check_call(flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK), "fcntl(O_NONBLOCK)");
}

/// Whether one key may stand for all memory (implicit on-demand paging).
[[nodiscard]] bool has_on_demand_paging(ibv_context* context) {
  const verbs_context* const extended = __extension__ verbs_get_ctx_op(context, query_device_ex);
  ibv_device_attr_ex attributes{};
  const ibv_query_device_ex_input input{};
  if (extended == nullptr ||
      extended->query_device_ex(context, &input, &attributes, sizeof attributes) != 0) {
    return false;
  }
  constexpr std::uint64_t kAsked = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  return (attributes.odp_caps.general_caps & kAsked) == kAsked;
}

/// Opens the device with that name, or the first.
Result<ibv_context*> open_by_name(const VerbsLibrary& library, const std::string& name) {
  int count = 0;
  ibv_device** const list = library.get_device_list(&count);
  if (list == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "no RDMA device at all: ibv_get_device_list: {}",
                std::strerror(errno));
  }
  ibv_context* context = nullptr;
  bool is_there = false;
  for (int i = 0; i < count && !is_there; ++i) {
    is_there = name.empty() || name == library.get_device_name(list[i]);
    context = is_there ? library.open_device(list[i]) : nullptr;
  }
  const int error_number = errno;
  library.free_device_list(list);
  if (!is_there) {
    return fail(ErrorCode::NoSuchDevice,
                "no RDMA device {}: ibv_devices lists those that there are",
                name.empty() ? "at all" : name);
  }
  if (context == nullptr) {
    return std::unexpected(library_error(error_number, "ibv_open_device"));
  }
  return context;
}

}  // namespace

VerbsDevice& verbs_device_of(const core::Device& device) {
  return *static_cast<VerbsDevice*>(device.driver_data());
}

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(core::Registry& registry,
                                                       VerbsDeviceInit init) {
  const auto library = load_verbs();
  if (!library) {
    return std::unexpected(library.error());
  }
  std::unique_ptr<VerbsDevice> made{new VerbsDevice(registry, **library, std::move(init))};
  if (const auto opened = made->open_context(); !opened) {
    return std::unexpected(opened.error());
  }
  if (const auto registered = made->register_device(); !registered) {
    return std::unexpected(registered.error());
  }
  return made;
}

VerbsDevice::VerbsDevice(core::Registry& registry, const VerbsLibrary& library,
                         VerbsDeviceInit init)
    : registry_(registry),
      library_(&library),
      init_(std::move(init)),
      unregistration_(registry.environment(), core::WorkContext::UnboundWorkQueue, 0,
                      [this] { registry_.unregister_device(*device_); }) {}

Result<void> VerbsDevice::open_context() {
  const auto context = open_by_name(*library_, init_.name);
  if (!context) {
    return std::unexpected(context.error());
  }
  context_ = *context;
  init_.name = library_->get_device_name(context_->device);
  node_guid_ = Guid{be64toh(library_->get_device_guid(context_->device))};
  ibv_device_attr attributes{};
  if (auto asked = check_call(library_->query_device(context_, &attributes), "ibv_query_device");
      !asked) {
    return asked;
  }
  ports_ = attributes.phys_port_cnt;
  on_demand_paging_ = init_.on_demand_paging && std::getenv("WEFT_REGISTER_ON_USE") == nullptr &&
                      has_on_demand_paging(context_);
  registers_by_windows_ =
      (init_.fast_registration || std::getenv("WEFT_FAST_REGISTRATION") != nullptr) &&
      on_demand_paging_ && (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  auto arena = Arena::reserve(init_.arena_bytes);
  if (!arena) {
    return std::unexpected(arena.error());
  }
  arena_ = std::make_unique<Arena>(*std::move(arena));
  channel_ = library_->create_comp_channel(context_);
  if (channel_ == nullptr) {
    return std::unexpected(library_error(errno, "ibv_create_comp_channel"));
  }
  stop_.reset(eventfd(0, EFD_CLOEXEC));
  if (!stop_) {
    return std::unexpected(library_error(errno, "eventfd"));
  }
  for (const int fd : {channel_->fd, context_->async_fd}) {
    if (auto changed = make_nonblocking(fd); !changed) {
      return changed;
    }
  }
  return {};
}

Result<void> VerbsDevice::register_device() {
  device_ = registry_.allocate_device(
      {.operations = verbs_operations(),
       .driver_data = this,
       .node_guid = node_guid_,
       .node_description = init_.name,
       .port_count = ports_,
       .completion_vectors = init_.completion_vectors,
       .forces_registration =
           registers_by_windows_ && std::getenv("WEFT_FORCE_REGISTRATION") != nullptr});
  // Clients of the core may wait for events.
  if (init_.watch_completions != nullptr) {
    watched_ = init_.watch_completions(channel_->fd, [this] {
      while (take_completion_event()) {
      }
    });
  }
  thread_ = std::thread{[this] { serve_events(); }};
  auto registered = registry_.register_device(*device_, init_.name);
  is_registered_ = registered.has_value();
  return registered;
}

VerbsDevice::~VerbsDevice() {
  unregistration_.cancel_and_wait();
  if (is_registered_) {
    registry_.unregister_device(*device_);  // nothing, if it went before
  }
  if (thread_.joinable()) {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  watched_.reset();
  if (device_ != nullptr) {
    registry_.deallocate_device(*device_);
  }
  if (channel_ != nullptr) {
    library_->destroy_comp_channel(channel_);
  }
  if (context_ != nullptr) {
    library_->close_device(context_);
  }
}

Result<MutableByteSpan> VerbsDevice::allocate_memory(std::size_t bytes) {
  return arena_->allocate(bytes);
}

void VerbsDevice::free_memory(MutableByteSpan memory) { arena_->free(memory); }

void VerbsDevice::add_qp(core::Qp& qp) {
  const std::lock_guard lock{qps_mutex_};
  qps_[qp.number().value()] = &qp;
}

void VerbsDevice::remove_qp(const core::Qp& qp) {
  const std::lock_guard lock{qps_mutex_};
  qps_.erase(qp.number().value());
}

core::Qp* VerbsDevice::find_qp(Qpn number) const {
  const std::lock_guard lock{qps_mutex_};
  const auto found = qps_.find(number.value());
  return found != qps_.end() ? found->second : nullptr;
}

void VerbsDevice::serve_events() {
  enum : std::size_t { Completions, Events, Stop };
  std::array<pollfd, 3> ready{
      {{.fd = watched_ == nullptr ? channel_->fd : -1, .events = POLLIN, .revents = 0},
       {.fd = context_->async_fd, .events = POLLIN, .revents = 0},
       {.fd = stop_.get(), .events = POLLIN, .revents = 0}}
  };
  while (ready[Stop].revents == 0) {
    if (poll(ready.data(), ready.size(), -1) < 0) {
      WEFT_ASSERT(errno == EINTR, "three descriptors of this device can be waited for");
      continue;
    }
    if (ready[Completions].revents != 0) {
      take_completion_event();
    }
    if ((ready[Events].revents & POLLIN) != 0) {
      take_async_event();
    } else if (ready[Events].revents != 0) {
      ready[Events].fd = -1;  // whoever told of events is gone
    }
  }
}

bool VerbsDevice::take_completion_event() {
  ibv_cq* from = nullptr;
  void* user = nullptr;
  if (library_->get_cq_event(channel_, &from, &user) != 0) {
    return false;
  }
  static_cast<core::Cq*>(user)->notify();
  library_->ack_cq_events(from, 1);  // only now may the CQ go: ibv_destroy_cq waits for it
  return true;
}

void VerbsDevice::take_async_event() {
  ibv_async_event event{};
  if (library_->get_async_event(context_, &event) != 0) {
    return;
  }
  const auto type = verbs::async_event_of(event.event_type);
  if (type) {
    core::Event told{.device = device_, .type = *type};
    switch (event.event_type) {
      case IBV_EVENT_CQ_ERR:
        told.cq = static_cast<core::Cq*>(event.element.cq->cq_context);
        break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_SRQ_LIMIT_REACHED:
        told.srq = static_cast<core::Srq*>(event.element.srq->srq_context);
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        told.qp = static_cast<core::Qp*>(event.element.qp->qp_context);
        break;
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_PKEY_CHANGE:
      case IBV_EVENT_SM_CHANGE:
      case IBV_EVENT_CLIENT_REREGISTER:
      case IBV_EVENT_GID_CHANGE:
        told.port = PortNumber{static_cast<std::uint8_t>(event.element.port_num)};
        break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_WQ_FATAL:
        break;
    }
    core::dispatch_event(told);
    if (*type == verbs::AsyncEventType::DeviceFatal && init_.unregisters_when_gone) {
      unregistration_.queue();  // in another thread: clients wait for completions
    }
  }
  library_->ack_async_event(&event);
}

}  // namespace weft::verbs_driver
