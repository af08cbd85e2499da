#include "verbs_driver/rdma_cm.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/assert.h"
#include "verbs_driver/rdma_cm_id.h"

namespace weft::verbs_driver {
namespace {

using verbs::RdmaCmEventType;

/// What an event says, copied: it is acknowledged before it is handled, so that the handler may
/// destroy its id.
[[nodiscard]] core::RdmaCmEvent copy_of(const rdma_cm_event& event, RdmaCmEventType type) {
  const rdma_conn_param& told = event.param.conn;
  core::RdmaCmEvent made{.type = type, .status = event.status};
  made.parameters.qpn = Qpn{told.qp_num};
  made.parameters.has_srq = told.srq != 0;
  made.parameters.responder_resources = told.responder_resources;
  made.parameters.initiator_depth = told.initiator_depth;
  made.parameters.flow_control = told.flow_control;
  made.parameters.retry_count = told.retry_count;
  made.parameters.rnr_retry_count = told.rnr_retry_count;
  if (told.private_data != nullptr) {
    const std::span octets{static_cast<const std::byte*>(told.private_data), told.private_data_len};
    made.parameters.private_data.assign(octets.begin(), octets.end());
  }
  return made;
}

/// An event that waits for its handler. A request whose listener goes before is rejected.
struct Told {
  core::RdmaCmEvent event;
  std::unique_ptr<LiveRdmaCmId> request;
};

}  // namespace

Result<std::unique_ptr<LiveRdmaCm>> LiveRdmaCm::start(core::Environment& environment,
                                                      std::vector<VerbsDevice*> devices) {
  const auto library = load_rdmacm();
  if (!library) {
    return std::unexpected(library.error());
  }
  return start(environment, std::move(devices), **library);
}

Result<std::unique_ptr<LiveRdmaCm>> LiveRdmaCm::start(core::Environment& environment,
                                                      std::vector<VerbsDevice*> devices,
                                                      const RdmaCmLibrary& library) {
  std::unique_ptr<LiveRdmaCm> made{new LiveRdmaCm(environment, library, std::move(devices))};
  made->channel_ = library.create_event_channel();
  if (made->channel_ == nullptr) {
    return std::unexpected(library_error(errno, "rdma_create_event_channel"));
  }
  const int flags = fcntl(made->channel_->fd, F_GETFL);
  made->stop_.reset(eventfd(0, EFD_CLOEXEC));
  if (flags < 0 || fcntl(made->channel_->fd, F_SETFL, flags | O_NONBLOCK) < 0 || !made->stop_) {
    return std::unexpected(library_error(errno, "a channel that does not block"));
  }
  made->thread_ = std::thread{[cm = made.get()] { cm->serve_events(); }};
  return made;
}

LiveRdmaCm::~LiveRdmaCm() {
  if (thread_.joinable()) {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  environment_.wait_until(
      [this] {
        const std::lock_guard lock{mutex_};
        return std::ranges::all_of(ended_, [](const auto& one) { return one->is_idle(); });
      },
      Instant::never());
  WEFT_ASSERT(ids_.empty(), "the ids of a connection manager are destroyed before it");
  if (channel_ != nullptr) {
    library_.destroy_event_channel(channel_);
  }
}

Result<std::unique_ptr<core::RdmaCmId>> LiveRdmaCm::create_id(core::RdmaCmHandler& handler) {
  return create(handler, RDMA_PS_TCP);
}

Result<std::unique_ptr<core::RdmaCmId>> LiveRdmaCm::create_native_id(core::RdmaCmHandler& handler) {
  return create(handler, RDMA_PS_IB);
}

Result<std::unique_ptr<core::RdmaCmId>> LiveRdmaCm::create(core::RdmaCmHandler& handler,
                                                           rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  if (const auto made =
          check_call(library_.create_id(channel_, &id, nullptr, space), "rdma_create_id");
      !made) {
    return std::unexpected(made.error());
  }
  const std::lock_guard lock{mutex_};
  return enter(id, handler, false);
}

void LiveRdmaCm::add_device(VerbsDevice& device) {
  const std::lock_guard lock{devices_mutex_};
  devices_.push_back(&device);
}

void LiveRdmaCm::remove_device(const VerbsDevice& device) {
  const std::lock_guard lock{devices_mutex_};
  std::erase(devices_, &device);
}

VerbsDevice* LiveRdmaCm::find_device(ibv_context* context) const {
  const std::lock_guard lock{devices_mutex_};
  // librdmacm has opened the device for itself; its GUID says which it is.
  for (VerbsDevice* const device : devices_) {
    const std::uint64_t guid = be64toh(device->library().get_device_guid(context->device));
    if (Guid{guid} == device->node_guid()) {
      return device;
    }
  }
  return nullptr;
}

std::unique_ptr<LiveRdmaCmId> LiveRdmaCm::enter(rdma_cm_id* id, core::RdmaCmHandler& handler,
                                                bool is_request) {
  auto made = std::make_unique<LiveRdmaCmId>(*this, id, handler,
                                             std::make_shared<IdEvents>(environment_, is_request));
  ids_.emplace(id, made.get());
  return made;
}

void LiveRdmaCm::leave(LiveRdmaCmId& id) {
  {
    const std::lock_guard lock{mutex_};
    ids_.erase(id.id());  // nobody adds events any more
  }
  id.events().end();
  const std::lock_guard lock{mutex_};
  std::erase_if(ended_, [](const auto& one) { return one->is_idle(); });
  if (!id.events().is_idle()) {
    ended_.push_back(id.share_events());
  }
}

void LiveRdmaCm::serve_events() {
  std::array<pollfd, 2> ready{
      {{.fd = channel_->fd, .events = POLLIN, .revents = 0},
       {.fd = stop_.get(), .events = POLLIN, .revents = 0}}
  };
  while (ready[1].revents == 0) {
    if (poll(ready.data(), ready.size(), -1) < 0) {
      WEFT_ASSERT(errno == EINTR, "a channel of events can be waited for");
      continue;
    }
    const bool is_gone = (ready[0].revents & POLLIN) != 0 ? !take_event() : ready[0].revents != 0;
    if (is_gone) {
      ready[0].fd = -1;  // nobody tells of events any more, and it stays readable
    }
  }
}

bool LiveRdmaCm::take_event() {
  rdma_cm_event* event = nullptr;
  if (library_.get_cm_event(channel_, &event) != 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  const auto type = verbs::rdma_cm_event_of(static_cast<std::uint32_t>(event->event));
  const bool is_request = type == RdmaCmEventType::ConnectRequest;
  rdma_cm_id* const new_id = is_request ? event->id : nullptr;
  rdma_cm_id* const of = is_request ? event->listen_id : event->id;
  const auto told = std::make_shared<Told>();
  told->event = copy_of(*event, type.value_or(RdmaCmEventType::User));
  std::unique_lock lock{mutex_};
  const auto found = ids_.find(of);
  LiveRdmaCmId* const id = found != ids_.end() && type ? found->second : nullptr;
  if (id != nullptr && new_id != nullptr) {
    told->request = enter(new_id, id->handler(), true);
  }
  library_.ack_cm_event(event);  // from here on another id may have the address of one that ended
  if (id != nullptr) {
    id->events().add([id, told] { id->handle(told->event, std::move(told->request)); });
    return true;
  }
  lock.unlock();
  if (new_id != nullptr) {
    library_.destroy_id(new_id);  // the listener has gone meanwhile: rejects it
  }
  return true;
}

}  // namespace weft::verbs_driver
