#include "compat/rdmacm/devices.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compat/rdmacm/refusals.h"

namespace weft::compat {
namespace {

std::mutex devices_lock;
/// By process ID: a child of fork() has none of its parent's.
auto& devices = *new std::map<pid_t, std::vector<std::unique_ptr<Device>>>;

[[nodiscard]] std::uint8_t as_octet(int value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

/// Null if it is not open. Caller must hold devices_lock, as for all functions here.
[[nodiscard]] Device* find_open(const std::string& name) {
  const auto& open = devices[getpid()];
  const auto found =
      std::ranges::find_if(open, [&](const auto& each) { return each->name == name; });
  return found == open.end() ? nullptr : found->get();
}

/// Opens a device; null after refuse().
[[nodiscard]] Device* open_device(ibv_device& device) {
  const std::string name = ibv_get_device_name(&device);
  if (Device* const open = find_open(name)) {
    return open;
  }
  auto added = std::make_unique<Device>();
  added->name = name;
  added->verbs = ibv_open_device(&device);
  if (added->verbs == nullptr) {
    refuse(ENODEV, "the device cannot be opened");
    return nullptr;
  }
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(added->verbs, &attributes); error != 0) {
    ibv_close_device(added->verbs);
    refuse(error, "the device does not say its limits");
    return nullptr;
  }
  added->max_qp_wr = static_cast<std::uint32_t>(attributes.max_qp_wr);
  added->initiator_depth = as_octet(attributes.max_qp_init_rd_atom);
  added->responder_resources = as_octet(attributes.max_qp_rd_atom);
  return devices[getpid()].emplace_back(std::move(added)).get();
}

/// The list of the program's devices; freed on destruction.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) {
      ibv_free_device_list(list_);
    }
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  [[nodiscard]] std::vector<ibv_device*> all() const {
    return list_ == nullptr ? std::vector<ibv_device*>{}
                            : std::vector<ibv_device*>(list_, list_ + count_);
  }

 private:
  int count_{};
  ibv_device** list_;
};

/// Closes a device that nobody uses and that the program has no more, so that it can have one that
/// comes instead.
void close_if_gone(Device& device) {
  if (device.users > 0) {
    return;
  }
  const int refusal = errno;  // of a call that is undoing what it had begun
  const std::vector<ibv_device*> there = DeviceList{}.all();
  if (std::ranges::find(there, device.verbs->device) == there.end()) {
    ibv_close_device(device.verbs);
    std::erase_if(devices[getpid()], [&](const auto& each) { return each.get() == &device; });
  }
  errno = refusal;
}

/// Null after refuse().
[[nodiscard]] Device* find_or_open(const std::string& name) {
  if (Device* const open = find_open(name)) {
    return open;
  }
  const DeviceList list;
  for (ibv_device* const each : list.all()) {
    if (name == ibv_get_device_name(each)) {
      return open_device(*each);
    }
  }
  refuse(ENODEV, "this program has no device " + name);
  return nullptr;
}

}  // namespace

Device* take_device(const std::string& name) {
  const std::lock_guard guard{devices_lock};
  Device* const device = find_or_open(name);
  if (device == nullptr) {
    return nullptr;
  }
  if (device->pd == nullptr && (device->pd = ibv_alloc_pd(device->verbs)) == nullptr) {
    return nullptr;
  }
  ++device->users;
  return device;
}

void give_back(Device& device) {
  const std::lock_guard guard{devices_lock};
  if (--device.users > 0) {
    return;
  }
  if (device.xrcd != nullptr) {
    ibv_close_xrcd(device.xrcd);
    device.xrcd = nullptr;
  }
  ibv_dealloc_pd(device.pd);  // if the program has objects in it, this fails and the PD stays
  device.pd = nullptr;
  close_if_gone(device);
}

void close_gone_devices() {
  const std::lock_guard guard{devices_lock};
  std::vector<Device*> unused;
  for (const auto& device : devices[getpid()]) {
    if (device->users == 0 && !device->is_listed) {
      unused.push_back(device.get());
    }
  }
  std::ranges::for_each(unused, [](Device* device) { close_if_gone(*device); });
}

ibv_xrcd* shared_xrc_domain(Device& device) {
  const std::lock_guard guard{devices_lock};
  if (device.xrcd == nullptr) {
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = -1;
    attributes.oflags = O_CREAT;
    device.xrcd = ibv_open_xrcd(device.verbs, &attributes);
  }
  return device.xrcd;
}

}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT ibv_context** rdma_get_devices(int* count) {
  std::vector<ibv_context*> contexts;
  {
    const std::lock_guard guard{devices_lock};
    const DeviceList list;
    for (ibv_device* const each : list.all()) {
      if (Device* const device = open_device(*each)) {
        device->is_listed = true;
        contexts.push_back(device->verbs);
      }
    }
  }
  ibv_context** array = nullptr;
  if (contexts.empty()) {
    refuse(ENODEV, "this program has no device");
  } else {
    array = static_cast<ibv_context**>(std::calloc(contexts.size() + 1, sizeof(ibv_context*)));
    if (array != nullptr) {
      std::ranges::copy(contexts, array);
    }
  }
  if (count != nullptr) {
    *count = array == nullptr ? 0 : static_cast<int>(contexts.size());
  }
  return array;
}

/// Devices that are there stay open, since ids of the program use them, too.
WEFT_EXPORT void rdma_free_devices(ibv_context** list) {
  const std::lock_guard guard{devices_lock};
  for (ibv_context** each = list; each != nullptr && *each != nullptr; ++each) {
    const auto& open = devices[getpid()];
    const auto found =
        std::ranges::find_if(open, [&](const auto& device) { return device->verbs == *each; });
    if (found != open.end()) {
      (*found)->is_listed = false;
      close_if_gone(**found);
    }
  }
  std::free(list);
}

}  // extern "C"
