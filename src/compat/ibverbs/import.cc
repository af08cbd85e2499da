// Contexts and objects under a second name. What was imported is the same object: once it is
// destroyed under one of its names, the others may only be unimported (ibv_import_pd(3)).

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "compat/ibverbs/objects.h"

using namespace weft;
using namespace weft::compat;

extern "C" {

/// The descriptor belongs to the new context from now on, which closes it.
WEFT_EXPORT ibv_context* ibv_import_device(int command) {
  Context* const open = context_behind(command);
  if (open == nullptr) {
    refuse(EOPNOTSUPP, fmt::format("descriptor {} is that of no device that this program has open; "
                                   "devices of other processes cannot be imported",
                                   command));
    return nullptr;
  }
  if (command == open->command.get()) {
    refuse(EINVAL, "a command descriptor must be duplicated before it is imported");
    return nullptr;
  }
  return new_context(*open->device, host::UniqueFd{command}, open->handles);
}

WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context* c, std::uint32_t handle) {
  Context& context = context_of(c);
  const auto domain = context.handles->domains.find(handle);
  if (!is_alive(context) || !domain) {
    refuse(ENOENT, fmt::format("the device has no PD with handle {}", handle));
    return nullptr;
  }
  ibv_pd* const pd = new_domain_object(c, **domain);
  pd->handle = handle;
  return pd;
}

WEFT_EXPORT void ibv_unimport_pd(ibv_pd* pd) { delete &object_of<ProtectionDomainObject>(pd); }

/// Its address and length are not known here, as documented; its keys are.
WEFT_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  Context& context = context_of(pd->context);
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
  let_go(mr->pd);
  delete &object_of<MemoryRegionObject>(mr);
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
