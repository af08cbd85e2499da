// Importing contexts and objects, of this process or of another one that has opened the device
// (foreign_objects.h). An imported object is the same object: once it has been destroyed through
// one of its handles, the others may only be unimported (ibv_import_pd(3)).

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "compat/ibverbs/foreign_objects.h"
#include "compat/ibverbs/objects.h"

using namespace weft;
using namespace weft::compat;

namespace {

/// True for a descriptor created by ibv_open_device; the number of any other file is not looked up.
[[nodiscard]] bool is_command_descriptor(int command) {
  constexpr std::string_view kName = "/memfd:weft-device";
  std::array<char, 64> target{};
  const auto path = fmt::format("/proc/self/fd/{}", command);
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  return size > 0 &&
         std::string_view{target.data(), static_cast<std::size_t>(size)}.starts_with(kName);
}

ibv_pd* import_peer_pd(ibv_context* c, std::uint32_t handle) {
  auto domain = context_of(c).handles->foreign->import_domain(handle);
  if (!domain) {
    refuse(domain.error());
    return nullptr;
  }
  ibv_pd* const pd = new_domain_object(c, (*domain)->engine());
  pd->handle = handle;
  object_of<ProtectionDomainObject>(pd).foreign = std::move(*domain);
  return pd;
}

ibv_mr* import_peer_mr(ibv_pd* pd, std::uint32_t handle) {
  auto region = object_of<ProtectionDomainObject>(pd).foreign->import_region(handle);
  if (!region) {
    refuse(region.error());
    return nullptr;
  }
  MemoryRegionObject* const object =
      new_region_name(pd, {.engine = &(*region)->engine(), .device_memory = nullptr}, handle);
  object->foreign = std::move(*region);
  return &object->mr;
}

}  // namespace

extern "C" {

/// The new context takes ownership of the descriptor and closes it.
WEFT_EXPORT ibv_context* ibv_import_device(int command) {
  if (Context* const open = context_of_command(command)) {
    if (command == open->command.get()) {
      refuse(EINVAL, "a command descriptor must be duplicated before it is imported");
      return nullptr;
    }
    return new_context(*open->device, os::UniqueFd{command}, open->handles);
  }
  const auto attachment = hold_attachment();
  host::Process* const program = process();
  if (!is_command_descriptor(command) || program == nullptr) {
    refuse(EOPNOTSUPP, fmt::format("descriptor {} is that of no device: it cannot be imported; it "
                                   "is an ibv_context's cmd_fd that is passed on",
                                   command));
    return nullptr;
  }
  auto device = import_peer_device(*program, command);
  if (!device) {
    refuse(device.error().code == ErrorCode::NotFound
               ? Error{ErrorCode::NotSupported, device.error().reason}
               : device.error());
    return nullptr;
  }
  Device* const known = device_of((*device)->hca());
  if (known == nullptr) {
    refuse(ENODEV, "the device is of an HCA that this host does not have");
    return nullptr;
  }
  auto handles = std::make_shared<Handles>(Handles::kFirstOwnHandle);
  handles->foreign = std::move(*device);
  return new_context(*known, os::UniqueFd{command}, std::move(handles));
}

WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context* c, std::uint32_t handle) {
  Context& context = context_of(c);
  const auto domain = context.handles->domains.find(handle);
  if (is_alive(context) && !domain && context.handles->foreign) {
    return import_peer_pd(c, handle);
  }
  if (!is_alive(context) || !domain) {
    refuse(ENOENT, fmt::format("the device has no PD with handle {}", handle));
    return nullptr;
  }
  ibv_pd* const pd = new_domain_object(c, **domain);
  pd->handle = handle;
  return pd;
}

WEFT_EXPORT void ibv_unimport_pd(ibv_pd* pd) { delete &object_of<ProtectionDomainObject>(pd); }

/// Address and length are unknown here, as documented; the keys are known.
WEFT_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  Context& context = context_of(pd->context);
  if (is_alive(context) && object_of<ProtectionDomainObject>(pd).foreign) {
    return import_peer_mr(pd, handle);
  }
  const auto region = context.handles->regions.find(handle);
  if (!is_alive(context) || !region) {
    refuse(ENOENT, fmt::format("the device has no region with handle {}", handle));
    return nullptr;
  }
  if (region->engine->pd != object_of<ProtectionDomainObject>(pd).engine) {
    refuse(EINVAL, "the region is of another PD");
    return nullptr;
  }
  return &new_region_name(pd, *region, handle)->mr;
}

WEFT_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  ibv_pd* const pd = mr->pd;
  delete &object_of<MemoryRegionObject>(mr);
  release_hold(pd);
}

WEFT_EXPORT ibv_dm* ibv_import_dm(ibv_context* c, std::uint32_t handle) {
  auto memory = context_of(c).handles->device_memories.find(handle);
  if (!memory) {
    refuse(ENOENT, fmt::format("the device has no device memory with handle {}", handle));
    return nullptr;
  }
  ibv_dm* const dm = new_device_memory_object(c, std::move(*memory));
  dm->handle = handle;
  return dm;
}

WEFT_EXPORT void ibv_unimport_dm(ibv_dm* dm) { delete &object_of<DeviceMemoryObject>(dm); }

}  // extern "C"
