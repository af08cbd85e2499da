// Protection domains and memory regions.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "compat/ibverbs/objects.h"

namespace {

using namespace weft;
using namespace weft::compat;

/// Whether every page of a range exists. Registering pins pages on hardware and fails with EFAULT
/// where there are none.
[[nodiscard]] bool is_mapped(void* address, std::size_t length) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* at = static_cast<char*>(address);
  std::size_t misaligned = 0;
  std::memcpy(&misaligned, &at, sizeof misaligned);
  misaligned %= page;
  at -= misaligned;
  std::size_t left = length + misaligned;
  constexpr std::size_t kPagesAtOnce = 4'096;
  std::vector<unsigned char> resident(kPagesAtOnce);
  while (left != 0) {
    const std::size_t part = std::min(left, kPagesAtOnce * page);
    if (mincore(at, part, resident.data()) != 0 && errno == ENOMEM) {
      return false;
    }
    at += part;
    left -= part;
  }
  return true;
}

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

Result<hca::MemoryRegion*> register_range(ibv_pd* pd, void* address, std::size_t length,
                                          std::uint64_t iova, unsigned access) {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    return fail(ErrorCode::NoSuchDevice, "a child of fork() has none of its parent's objects");
  }
  access &= ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  if ((access & ~kKnownAccess) != 0) {
    return fail(
        (access & IBV_ACCESS_ON_DEMAND) != 0 ? ErrorCode::NotSupported : ErrorCode::InvalidArgument,
        "access flags {:#x}: only {:#x} are known here", access, kKnownAccess);
  }
  if (length == 0 || address == nullptr || !is_mapped(address, length)) {
    return fail(length == 0 ? ErrorCode::InvalidArgument : ErrorCode::BadAddress,
                "a region of {} bytes must be memory that exists", length);
  }
  return context.engine->register_memory(*object_of<ProtectionDomainObject>(pd).engine, iova,
                                         {static_cast<std::byte*>(address), length},
                                         hca::AccessFlags::from_bits(access));
}

ibv_mr* make_region(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                    unsigned access) {
  auto region = register_range(pd, address, length, iova, access);
  if (!region) {
    refuse(region.error());
    return nullptr;
  }
  auto object = std::make_unique<MemoryRegionObject>();
  object->engine = *region;
  object->iova = iova;
  object->access = access;
  object->mr.context = pd->context;
  object->mr.pd = pd;
  object->mr.addr = address;
  object->mr.length = length;
  object->mr.lkey = (*region)->lkey.value();
  object->mr.rkey = (*region)->rkey.value();
  return &object.release()->mr;
}

[[nodiscard]] std::uint64_t number_of(void* address) {
  std::uint64_t number{};
  std::memcpy(&number, &address, sizeof number);
  return number;
}

}  // namespace

extern "C" {

WEFT_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* c) {
  Context& context = context_of(c);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto pd = context.engine->allocate_pd();
  if (!pd) {
    refuse(pd.error());
    return nullptr;
  }
  auto object = std::make_unique<ProtectionDomainObject>();
  object->pd.context = c;
  object->engine = *pd;
  return &object.release()->pd;
}

WEFT_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  auto& object = object_of<ProtectionDomainObject>(pd);
  Context& context = context_of(pd->context);
  if (is_alive(context)) {
    if (auto freed = context.engine->deallocate_pd(*object.engine); !freed) {
      return refuse(freed.error());
    }
  }
  delete &object;
  return 0;
}

WEFT_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  const std::uint64_t iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : number_of(address);
  return make_region(pd, address, length, iova, static_cast<unsigned>(access));
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
  refuse(EOPNOTSUPP, "dmabuf regions are not supported");
  return nullptr;
}

WEFT_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  auto& object = object_of<MemoryRegionObject>(mr);
  Context& context = context_of(mr->context);
  if (is_alive(context)) {
    if (auto gone = context.engine->deregister_memory(*object.engine); !gone) {
      return refuse(gone.error());
    }
  }
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
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0)) {
    refuse(EINVAL, "a new translation needs an address and a length");
    return IBV_REREG_MR_ERR_INPUT;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) {
    refuse(EINVAL, "a new PD is asked for, but none is given");
    return IBV_REREG_MR_ERR_INPUT;
  }
  ibv_pd* const new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  void* const new_address = moves ? address : mr->addr;
  const std::size_t new_length = moves ? length : mr->length;
  const unsigned new_access =
      (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<unsigned>(access) : object.access;
  const std::uint64_t new_iova = moves ? number_of(address) : object.iova;
  auto region = register_range(new_pd, new_address, new_length, new_iova, new_access);
  if (!region) {
    refuse(region.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  static_cast<void>(context.engine->deregister_memory(*object.engine));
  object.engine = *region;
  object.access = new_access;
  object.iova = new_iova;
  mr->pd = new_pd;
  mr->addr = new_address;
  mr->length = new_length;
  mr->lkey = (*region)->lkey.value();
  mr->rkey = (*region)->rkey.value();
  return 0;
}

WEFT_EXPORT int ibv_dontfork_range(void*, std::size_t) { return 0; }
WEFT_EXPORT int ibv_dofork_range(void*, std::size_t) { return 0; }

// Nothing is pinned: the parent's registrations keep naming the parent's memory, whatever a child
// does (DESIGN.md, decision 9).
WEFT_EXPORT int ibv_fork_init() { return 0; }
WEFT_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

}  // extern "C"
