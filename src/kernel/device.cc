#include <netinet/in.h>
#include <rdma/ib_verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/device.h"
#include "core/events.h"
#include "core/registry.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/net_device_face.h"
#include "kernel/socket_address.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

void copy_text(std::string_view text, std::span<char> into) {
  const std::size_t length = std::min(text.size(), into.size() - 1);
  std::ranges::copy(text.substr(0, length), into.begin());
  into[length] = '\0';
}

void fill_face(ib_device& face, core::Device& device) {
  copy_text(device.name(), face.name);
  face.attrs = to_c(device.attributes());
  face.local_dma_lkey = device.attributes().local_dma_lkey;
  face.node_guid = std::byteswap(device.init().node_guid.value());
  copy_text(device.init().node_description, face.node_desc);
  face.num_comp_vectors = static_cast<int>(device.completion_vectors());
  face.phys_port_cnt = device.port_count();
  face.node_type = static_cast<std::uint8_t>(device.init().node_type);
  face.index = device.index();
  face.weft = &device;
}

/// The first client of a registry, which keeps the faces.
class FaceClient final : public core::Client {
 public:
  FaceClient() : Client("names", false) {}

  Result<void> add(core::Device& device) override {
    auto face = std::make_unique<ib_device>();
    fill_face(*face, device);
    const std::lock_guard lock{mutex_};
    faces_[&device] = std::move(face);
    return {};
  }
  void remove(core::Device& device, void* /*data*/) override {
    const std::lock_guard lock{mutex_};
    faces_.erase(&device);
  }
  void rename(core::Device& device, void* /*data*/) override {
    const std::lock_guard lock{mutex_};
    if (const auto found = faces_.find(&device); found != faces_.end()) {
      copy_text(device.name(), found->second->name);
    }
  }

  [[nodiscard]] ib_device* find(const core::Device& device) {
    const std::lock_guard lock{mutex_};
    const auto found = faces_.find(&device);
    return found == faces_.end() ? nullptr : found->second.get();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const core::Device*, std::unique_ptr<ib_device>> faces_;
};

FaceClient& faces() {
  static FaceClient made;
  return made;
}

/// A client in C.
class CClient final : public core::Client {
 public:
  explicit CClient(ib_client& client)
      : Client(client.name != nullptr ? client.name : "client", client.no_kverbs_req == 0),
        client_(client) {}

  Result<void> add(core::Device& device) override {
    if (client_.add == nullptr) {
      return {};
    }
    if (const int error = client_.add(face_of(device)); error != 0) {
      return fail(ErrorCode::Io, "client {} does not take {}: {}", name(), device.name(), error);
    }
    return {};
  }
  void remove(core::Device& device, void* data) override {
    if (client_.remove != nullptr) {
      client_.remove(face_of(device), data);
    }
  }
  void rename(core::Device& device, void* data) override {
    if (client_.rename != nullptr) {
      client_.rename(face_of(device), data);
    }
  }
  core::NetDeviceReference net_device_of(core::Device& device,
                                         const core::NetDeviceParameters& parameters,
                                         void* data) override {
    if (client_.get_net_dev_by_params == nullptr) {
      return {};
    }
    const ib_gid gid = parameters.gid != nullptr ? to_c(*parameters.gid) : ib_gid{};
    sockaddr_storage address{};
    if (parameters.address != nullptr) {
      store(address, {.address = *parameters.address});
    }
    // Its reference is that of whoever asks ib_get_net_dev_by_params().
    net_device* const found = client_.get_net_dev_by_params(
        face_of(device), parameters.port.value(), parameters.pkey.value(),
        parameters.gid != nullptr ? &gid : nullptr, as_sockaddr(address), data);
    return found != nullptr ? core::NetDeviceReference{&net_device_faces().core_of(*found)}
                            : core::NetDeviceReference{};
  }

 private:
  [[nodiscard]] static const sockaddr* as_sockaddr(const sockaddr_storage& address) {
    const void* const any = &address;
    return static_cast<const sockaddr*>(any);
  }

  ib_client& client_;
};

class CEventHandler final : public core::EventHandler {
 public:
  CEventHandler(core::Device& device, ib_event_handler& handler)
      : EventHandler(device), handler_(handler) {}
  void handle(const core::Event& event) override {
    ib_event made = event_of(event);
    handler_.handler(&handler_, &made);
  }

 private:
  ib_event_handler& handler_;
};

[[nodiscard]] CClient* client_of(const ib_client& client) {
  return static_cast<CClient*>(client.weft);
}

}  // namespace

void attach_faces(core::Registry& registry) {
  static_cast<void>(registry.register_client(faces()));
}

void detach_faces(core::Registry& registry) { registry.unregister_client(faces()); }

ib_device* face_of(const core::Device& device) { return faces().find(device); }

ib_event event_of(const core::Event& event) {
  ib_event made{};
  made.device = face_of(*event.device);
  made.event = static_cast<ib_event_type>(event.type);
  if (event.qp != nullptr) {
    made.element.qp = static_cast<ib_qp*>(event.qp->context());
  } else if (event.cq != nullptr) {
    made.element.cq = static_cast<ib_cq*>(event.cq->context());
  } else if (event.srq != nullptr) {
    made.element.srq = static_cast<ib_srq*>(event.srq->context());
  } else {
    made.element.port_num = event.port.value();
  }
  return made;
}

}  // namespace weft::kernel

using weft::kernel::core_of;
using weft::kernel::face_of;

int ib_register_client(ib_client* client) {
  const auto host = weft::kernel::host();
  if (!host) {
    return weft::kernel::refuse(host.error());
  }
  if (client->weft != nullptr) {
    return weft::kernel::refuse({weft::ErrorCode::Exists, "the client is registered already"});
  }
  auto made = std::make_unique<weft::kernel::CClient>(*client);
  client->weft = made.get();
  if (const auto registered = host->registry->register_client(*made); !registered) {
    client->weft = nullptr;
    return weft::kernel::refuse(registered.error());
  }
  static_cast<void>(made.release());
  return 0;
}

void ib_unregister_client(ib_client* client) {
  const auto host = weft::kernel::host();
  if (!host || client->weft == nullptr) {
    return;
  }
  const std::unique_ptr<weft::kernel::CClient> made{weft::kernel::client_of(*client)};
  host->registry->unregister_client(*made);
  client->weft = nullptr;
}

void ib_set_client_data(ib_device* device, ib_client* client, void* data) {
  if (client->weft == nullptr) {
    return;
  }
  weft::core::Device& made = core_of(*device);
  if (const auto set =
          made.registry().set_client_data(made, *weft::kernel::client_of(*client), data);
      !set) {
    static_cast<void>(weft::kernel::refuse(set.error()));
  }
}

void* ib_get_client_data(ib_device* device, ib_client* client) {
  weft::core::Device& made = core_of(*device);
  return client->weft == nullptr
             ? nullptr
             : made.registry().client_data(made, *weft::kernel::client_of(*client));
}

void ib_register_event_handler(ib_event_handler* event_handler) {
  auto made = std::make_unique<weft::kernel::CEventHandler>(core_of(*event_handler->device),
                                                            *event_handler);
  event_handler->weft = made.get();
  weft::core::register_event_handler(*made);
  static_cast<void>(made.release());
}

void ib_unregister_event_handler(ib_event_handler* event_handler) {
  const std::unique_ptr<weft::kernel::CEventHandler> made{
      static_cast<weft::kernel::CEventHandler*>(event_handler->weft)};
  if (made != nullptr) {
    weft::core::unregister_event_handler(*made);
    event_handler->weft = nullptr;
  }
}

void ib_dispatch_event(const ib_event* event) {
  weft::core::Event made{.device = &core_of(*event->device)};
  const auto type = weft::verbs::async_event_of(static_cast<std::uint32_t>(event->event));
  if (!type) {
    return;
  }
  made.type = *type;
  if (weft::core::is_device_event(*type)) {
    made.port = weft::PortNumber{event->element.port_num};
    weft::core::dispatch_event(made);
  }
}

ib_device* ib_device_get_by_name(const char* name, rdma_driver_id driver_id) {
  const auto host = weft::kernel::host();
  if (!host) {
    return nullptr;
  }
  auto found = host->registry->get_device_by_name(name, static_cast<std::uint32_t>(driver_id));
  ib_device* const face = found ? face_of(*found) : nullptr;
  if (face != nullptr) {
    static_cast<void>(found.release());
  }
  return face;
}

void ib_device_put(ib_device* device) {
  weft::core::DeviceReference::adopt(&core_of(*device)).reset();
}

void ib_unregister_device(ib_device* ib_dev) {
  weft::core::Device& device = core_of(*ib_dev);
  device.registry().unregister_device(device);
}

void ib_unregister_device_and_put(ib_device* ib_dev) {
  weft::core::Device& device = core_of(*ib_dev);
  device.registry().unregister_device_and_put(weft::core::DeviceReference::adopt(&device));
}

void ib_unregister_device_queued(ib_device* ib_dev) {
  weft::core::Device& device = core_of(*ib_dev);
  device.registry().unregister_device_queued(device);
}

void ib_unregister_driver(rdma_driver_id driver_id) {
  if (const auto host = weft::kernel::host()) {
    host->registry->unregister_driver(static_cast<std::uint32_t>(driver_id));
  }
}
