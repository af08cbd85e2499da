// Device memory: a part of the process's memory that programs access by copying only.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// Policy: copies are of whole words, as on hardware.
constexpr std::uint64_t kWord = 4;
/// Policy: at most a page, which is what devices offer.
constexpr std::uint32_t kMaxLogAlignment = 12;

[[nodiscard]] int check_copy(const DeviceMemoryObject& object, std::uint64_t offset,
                             std::size_t length) {
  if (offset % kWord != 0 || length % kWord != 0) {
    return refuse(EINVAL, "copies to and from device memory begin and end at multiples of 4");
  }
  if (length > object.memory->length() || offset > object.memory->length() - length) {
    return refuse(EINVAL, "the copy is not inside the device memory");
  }
  return 0;
}

int memcpy_to_dm(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) noexcept {
  auto& object = object_of<DeviceMemoryObject>(dm);
  if (const int error = check_copy(object, offset, length); error != 0) {
    return error;
  }
  std::memcpy(object.memory->start() + offset, from, length);
  return 0;
}

int memcpy_from_dm(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) noexcept {
  auto& object = object_of<DeviceMemoryObject>(dm);
  if (const int error = check_copy(object, offset, length); error != 0) {
    return error;
  }
  std::memcpy(to, object.memory->start() + offset, length);
  return 0;
}

/// Takes bytes from the device's remaining memory.
[[nodiscard]] bool reserve(Handles& handles, std::size_t length) {
  std::uint64_t used = handles.device_memory_used.load();
  do {
    if (length > kMaxDeviceMemory - used) {
      return false;
    }
  } while (!handles.device_memory_used.compare_exchange_weak(used, used + length));
  return true;
}

/// Allowed in a child of fork(): device memory involves no engine until it is registered.
ibv_dm* alloc_dm(ibv_context* c, ibv_alloc_dm_attr* attributes) noexcept {
  Context& context = context_of(c);
  if (attributes->comp_mask != 0 || attributes->length == 0 ||
      attributes->log_align_req > kMaxLogAlignment) {
    refuse(EINVAL, "device memory has a length, an alignment up to 2^12, and no other attribute");
    return nullptr;
  }
  Handles& handles = *context.handles;
  if (!reserve(handles, attributes->length)) {
    refuse(ENOMEM, "the device has not that much device memory left (max_dm_size)");
    return nullptr;
  }
  auto memory = DeviceMemory::make(
      attributes->length, std::max<std::size_t>(std::size_t{1} << attributes->log_align_req,
                                                alignof(std::max_align_t)));
  if (!memory) {
    handles.device_memory_used -= attributes->length;
    refuse(ENOMEM, "no memory to be device memory");
    return nullptr;
  }
  const std::uint32_t handle = handles.device_memories.add(memory);
  ibv_dm* const dm = new_device_memory_object(c, std::move(memory));
  dm->handle = handle;
  return dm;
}

int free_dm(ibv_dm* dm) noexcept {
  auto& object = object_of<DeviceMemoryObject>(dm);
  Handles& handles = *context_of(dm->context).handles;
  if (object.memory->regions.load() != 0) {
    return refuse(EBUSY, "regions of the device memory still exist; deregister those first");
  }
  if (!handles.device_memories.remove(dm->handle)) {
    return refuse(EINVAL, "the device memory was freed under another name: only unimport this one");
  }
  handles.device_memory_used -= object.memory->length();
  delete &object;
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access) noexcept {
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                              IBV_ACCESS_ZERO_BASED;
  auto& object = object_of<DeviceMemoryObject>(dm);
  Context& context = context_of(pd->context);
  access &= ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if ((access & ~kKnown) != 0 || (access & IBV_ACCESS_ZERO_BASED) == 0) {
    refuse(EINVAL, "a region of device memory is zero based, and neither bound nor paged");
    return nullptr;
  }
  if (length > object.memory->length() || offset > object.memory->length() - length) {
    refuse(EINVAL, "the region is not inside the device memory");
    return nullptr;
  }
  auto region = context.engine->register_memory(*object_of<ProtectionDomainObject>(pd).engine, 0,
                                                {object.memory->start() + offset, length},
                                                hca::AccessFlags::from_bits(access));
  if (!region) {
    refuse(region.error());
    return nullptr;
  }
  MemoryRegionObject* const made =
      new_region_object(pd, {.engine = *region, .device_memory = object.memory});
  made->access = access;
  made->mr.length = length;
  ++object.memory->regions;
  return &made->mr;
}

}  // namespace

std::shared_ptr<DeviceMemory> DeviceMemory::make(std::size_t length, std::size_t alignment) {
  void* const start = ::operator new(length, std::align_val_t{alignment}, std::nothrow);
  if (start == nullptr) {
    return nullptr;
  }
  std::memset(start, 0, length);
  return std::shared_ptr<DeviceMemory>{
      new DeviceMemory{static_cast<std::byte*>(start), length, alignment}
  };
}

DeviceMemory::~DeviceMemory() { ::operator delete(start_, std::align_val_t{alignment_}); }

ibv_dm* new_device_memory_object(ibv_context* context, std::shared_ptr<DeviceMemory> memory) {
  auto object = std::make_unique<DeviceMemoryObject>();
  object->memory = std::move(memory);
  object->dm.context = context;
  object->dm.memcpy_to_dm = memcpy_to_dm;
  object->dm.memcpy_from_dm = memcpy_from_dm;
  object->dm.comp_mask = IBV_DM_MASK_HANDLE;
  return &object.release()->dm;
}

void set_device_memory_operations(verbs_context& verbs) {
  verbs.alloc_dm = alloc_dm;
  verbs.free_dm = free_dm;
  verbs.reg_dm_mr = reg_dm_mr;
}

}  // namespace weft::compat
