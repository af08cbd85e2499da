// Memory regions.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "compat/ibverbs/foreign_objects.h"
#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"
#include "host/user_memory.h"
#include "os/shared_backing.h"

namespace {

using namespace weft;
using namespace weft::compat;

// From newer headers: IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT.
constexpr unsigned kFlushGlobal = 1U << 8;
constexpr unsigned kFlushPersistent = 1U << 9;

constexpr unsigned kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | kFlushGlobal | kFlushPersistent;

/// On hardware, registration pins pages and fails with EFAULT if there are none; a region that is
/// paged on demand may be registered before its memory exists.
[[nodiscard]] Result<void> check_range(void* address, std::size_t length, unsigned access) {
  const std::span range{static_cast<const std::byte*>(address), length};
  if (length == 0) {
    return fail(ErrorCode::InvalidArgument, "a region has at least one byte");
  }
  if ((access & IBV_ACCESS_ON_DEMAND) == 0 && (address == nullptr || !host::is_mapped(range))) {
    return fail(ErrorCode::BadAddress, "a region of {} bytes must be memory that exists", length);
  }
  if ((access & kFlushPersistent) != 0 && !os::is_file_mapping(range)) {
    return fail(ErrorCode::InvalidArgument,
                "flushes to persistence need memory that outlives the program: a file that is "
                "mapped with MAP_SHARED");
  }
  return {};
}

[[nodiscard]] Result<void> check_access(const Context& context, unsigned access) {
  if (!is_alive(context)) {
    return fail(ErrorCode::NoSuchDevice, "a child of fork() has none of its parent's objects");
  }
  if ((access & ~kKnownAccess) != 0) {
    return fail(ErrorCode::InvalidArgument, "access flags {:#x}: only {:#x} are known here", access,
                kKnownAccess);
  }
  return {};
}

/// Removes the flags that a library may ignore, such as relaxed ordering: we never reorder.
[[nodiscard]] unsigned needed_access(unsigned access) {
  return access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
}

[[nodiscard]] std::uint64_t number_of(void* address) {
  std::uint64_t number{};
  std::memcpy(&number, &address, sizeof number);
  return number;
}

/// The implicit region: on demand, starting at null, of maximum length.
[[nodiscard]] bool is_implicit(void* address, std::size_t length, unsigned access) {
  return address == nullptr && length == SIZE_MAX && (access & IBV_ACCESS_ON_DEMAND) != 0;
}

Result<hca::MemoryRegion*> register_range(ibv_pd* pd, void* address, std::size_t length,
                                          std::uint64_t iova, unsigned access) {
  Context& context = context_of(pd->context);
  if (auto known = check_access(context, access); !known) {
    return std::unexpected(known.error());
  }
  hca::ProtectionDomain& domain = *object_of<ProtectionDomainObject>(pd).engine;
  const auto flags = hca::AccessFlags::from_bits(access);
  if (is_implicit(address, length, access)) {
    if ((access & kFlushPersistent) != 0) {
      return fail(ErrorCode::InvalidArgument,
                  "all of the address space is no memory that outlives the program");
    }
    return context.engine->register_address_space(domain, flags);
  }
  if (auto there = check_range(address, length, access); !there) {
    return std::unexpected(there.error());
  }
  return context.engine->register_memory(domain, iova, {static_cast<std::byte*>(address), length},
                                         flags);
}

/// With zero-based access, peers count from the region's start, whatever its address
/// (ibv_reg_mr(3)). The macro ibv_reg_mr calls ibv_reg_mr_iova2 with the address unless its flags
/// are constant.
[[nodiscard]] std::uint64_t start_of(std::uint64_t iova, unsigned access) {
  return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
}

ibv_mr* make_region(ibv_pd* pd, void* address, std::size_t length, std::uint64_t asked_iova,
                    unsigned all_access) {
  const unsigned access = needed_access(all_access);
  const std::uint64_t iova = start_of(asked_iova, access);
  auto region = register_range(pd, address, length, iova, access);
  if (!region) {
    refuse(region.error());
    return nullptr;
  }
  MemoryRegionObject* const object = new_region_object(pd, {.engine = *region});
  object->iova = iova;
  object->access = access;
  object->mr.addr = address;
  object->mr.length = length;
  context_of(pd->context).process->note_region(**region);
  return &object->mr;
}

int to_advise_errno(const Error& error) {
  // Its man page has EPERM where others have EACCES.
  return error.code == ErrorCode::PermissionDenied ? refuse(EPERM, error.reason) : refuse(error);
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* sges,
              std::uint32_t count) noexcept {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  if ((flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || count == 0) {
    return refuse(EINVAL, "advice has one or more ranges, and FLUSH for its only flag");
  }
  hca::Prefetch how{.must_succeed = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0};
  switch (advice) {
    case IBV_ADVISE_MR_ADVICE_PREFETCH:
      break;
    case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:
      how.for_writing = true;
      break;
    case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
      how.fault = false;
      break;
    default:
      return refuse(ENOTSUP, "the advices known here are those about prefetching");
  }
  const auto done = context.engine->prefetch(*object_of<ProtectionDomainObject>(pd).engine,
                                             sges_of(sges, static_cast<int>(count)), how);
  return done ? 0 : to_advise_errno(done.error());
}

ibv_mr* alloc_null_mr(ibv_pd* pd) noexcept {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto region = context.engine->register_null(*object_of<ProtectionDomainObject>(pd).engine);
  if (!region) {
    refuse(region.error());
    return nullptr;
  }
  MemoryRegionObject* const object = new_region_object(pd, {.engine = *region});
  object->mr.length = SIZE_MAX;
  object->mr.rkey = 0;  // no peer may use it
  return &object->mr;
}

}  // namespace

MemoryRegionObject* weft::compat::new_region_object(ibv_pd* pd, const RegionHandle& region) {
  return new_region_name(pd, region, context_of(pd->context).handles->regions.add(region));
}

MemoryRegionObject* weft::compat::new_region_name(ibv_pd* pd, const RegionHandle& region,
                                                  std::uint32_t handle) {
  auto object = std::make_unique<MemoryRegionObject>();
  object->mr.context = pd->context;
  object->mr.pd = pd;
  object->mr.handle = handle;
  object->mr.lkey = region.engine->lkey.value();
  object->mr.rkey = region.engine->rkey.value();
  hold(pd);
  return object.release();
}

void weft::compat::set_memory_operations(verbs_context& verbs) {
  verbs.advise_mr = advise_mr;
  verbs.alloc_null_mr = alloc_null_mr;
}

extern "C" {

WEFT_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return make_region(pd, address, length, number_of(address), static_cast<unsigned>(access));
}

WEFT_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length,
                                    std::uint64_t iova, int access) {
  return make_region(pd, address, length, iova, static_cast<unsigned>(access));
}

WEFT_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length,
                                     std::uint64_t iova, unsigned access) {
  return make_region(pd, address, length, iova, access);
}

WEFT_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                                      int) {
  refuse(
      EOPNOTSUPP,
      "a DMA-BUF is memory of another device, and no device of this fabric can reach it; register "
      "a mapping of it instead");
  return nullptr;
}

WEFT_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  auto& object = object_of<MemoryRegionObject>(mr);
  Context& context = context_of(mr->context);
  if (object.foreign) {
    if (auto gone = object.foreign->deregister(); !gone) {
      return refuse(gone.error());
    }
    ibv_unimport_mr(mr);
    return 0;
  }
  const auto region = context.handles->regions.remove(mr->handle);
  if (!region) {
    return refuse(EINVAL, why_unknown("region", mr->handle, context.handles->regions));
  }
  if (is_alive(context)) {
    if (auto gone = context.engine->deregister_memory(*region->engine); !gone) {
      context.handles->regions.set(mr->handle, *region);
      return refuse(gone.error());
    }
    context.process->forget_region(region->engine);
  }
  if (region->device_memory) {
    --region->device_memory->regions;
  }
  release_hold(mr->pd);
  delete &object;
  return 0;
}

WEFT_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length,
                             int access) {
  auto& object = object_of<MemoryRegionObject>(mr);
  Context& context = context_of(mr->context);
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || flags == 0) {
    refuse(EINVAL, "unknown flags of rereg_mr");
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (object.foreign) {
    refuse(EOPNOTSUPP, "only the process that has registered a region can register it anew");
    return IBV_REREG_MR_ERR_CMD;
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0)) {
    refuse(EINVAL, "a new translation needs an address and a length");
    return IBV_REREG_MR_ERR_INPUT;
  }
  auto handle = context.handles->regions.find(mr->handle);
  if (!handle) {
    refuse(EINVAL, why_unknown("region", mr->handle, context.handles->regions));
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (handle->device_memory) {
    refuse(EOPNOTSUPP, "a region of device memory cannot be registered anew");
    return IBV_REREG_MR_ERR_CMD;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) {
    refuse(EINVAL, "a new PD is asked for, but none is given");
    return IBV_REREG_MR_ERR_INPUT;
  }
  ibv_pd* const new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  void* const new_address = moves ? address : mr->addr;
  const std::size_t new_length = moves ? length : mr->length;
  const unsigned new_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0
                                  ? needed_access(static_cast<unsigned>(access))
                                  : object.access;
  const std::uint64_t new_iova = start_of(moves ? number_of(address) : object.iova, new_access);
  auto checked = check_access(context, new_access);
  if (checked) {
    checked = check_range(new_address, new_length, new_access);
  }
  if (!checked) {
    refuse(checked.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  auto region = context.engine->reregister_memory(
      *handle->engine, *object_of<ProtectionDomainObject>(new_pd).engine, new_iova,
      {static_cast<std::byte*>(new_address), new_length}, hca::AccessFlags::from_bits(new_access));
  if (!region) {
    refuse(region.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  context.process->note_region(**region);  // first, since both may have pages in common
  context.process->forget_region(handle->engine);
  hold(new_pd);
  release_hold(mr->pd);
  handle->engine = *region;
  context.handles->regions.set(mr->handle, *handle);
  object.access = new_access;
  object.iova = new_iova;
  mr->pd = new_pd;
  mr->addr = new_address;
  mr->length = new_length;
  return 0;
}

WEFT_EXPORT int ibv_dontfork_range(void*, std::size_t) { return 0; }
WEFT_EXPORT int ibv_dofork_range(void*, std::size_t) { return 0; }

// Nothing is pinned: the parent's registrations keep referring to the parent's memory, whatever a
// child does (docs/ARCHITECTURE.md, decision 9).
WEFT_EXPORT int ibv_fork_init() { return 0; }
WEFT_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

}  // extern "C"
