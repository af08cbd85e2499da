// Protection domains, thread domains, and parent domains, which combine one of each.

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <new>

#include "compat/ibverbs/foreign_objects.h"
#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// The resource type that is passed to a program's allocator: the upper half is a driver's number
/// in rdma-core, where 0 means unknown, and the lower half is defined by the driver
/// (ibv_alloc_parent_domain(3)). This value means: the object of a QP, CQ or SRQ.
constexpr std::uint64_t kResource = 1;

/// Objects of a thread domain share nothing here, so that its use by a single thread saves no lock.
/// The domain exists for compatibility.
ibv_td* alloc_td(ibv_context* c, ibv_td_init_attr* attributes) noexcept {
  if (!is_alive(context_of(c))) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  if (attributes->comp_mask != 0) {
    refuse(EINVAL, "unknown attributes of a thread domain");
    return nullptr;
  }
  auto object = std::make_unique<ThreadDomainObject>();
  object->td.context = c;
  return &object.release()->td;
}

int dealloc_td(ibv_td* td) noexcept {
  auto& object = object_of<ThreadDomainObject>(td);
  if (object.uses.load() != 0) {
    return refuse(EBUSY, "parent domains still use the thread domain; deallocate those first");
  }
  delete &object;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* c, ibv_parent_domain_init_attr* attributes) noexcept {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  const auto has = [&](std::uint32_t bit) { return (attributes->comp_mask & bit) != 0; };
  if (attributes->pd == nullptr || attributes->pd->context != c ||
      (attributes->td != nullptr && attributes->td->context != c)) {
    refuse(EINVAL, "a parent domain needs a PD, and a thread domain if any, of its own context");
    return nullptr;
  }
  if ((attributes->comp_mask & ~kKnown) != 0) {
    refuse(EOPNOTSUPP, fmt::format("comp_mask {:#x} of a parent domain: only {:#x} are known here",
                                   attributes->comp_mask, kKnown));
    return nullptr;
  }
  if (has(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
      (attributes->alloc == nullptr || attributes->free == nullptr)) {
    refuse(EINVAL, "an allocator of a parent domain comes with both functions");
    return nullptr;
  }
  auto& below = object_of<ProtectionDomainObject>(attributes->pd);
  auto object = std::make_unique<ProtectionDomainObject>();
  object->pd.context = c;
  object->pd.handle = attributes->pd->handle;
  object->engine = below.engine;
  object->below = &below;
  if (attributes->td != nullptr) {
    object->thread_domain = &object_of<ThreadDomainObject>(attributes->td);
    ++object->thread_domain->uses;
  }
  if (has(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)) {
    object->allocate = attributes->alloc;
    object->release = attributes->free;
  }
  if (has(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
    object->allocator_context = attributes->pd_context;
  }
  hold(attributes->pd);
  return &object.release()->pd;
}

}  // namespace

ibv_pd* new_domain_object(ibv_context* context, hca::ProtectionDomain& domain) {
  auto object = std::make_unique<ProtectionDomainObject>();
  object->pd.context = context;
  object->engine = &domain;
  return &object.release()->pd;
}

void hold(ibv_pd* pd) {
  auto& object = object_of<ProtectionDomainObject>(pd);
  ++object.uses;
  if (object.foreign) {
    object.foreign->hold();
  }
}

void release_hold(ibv_pd* pd) {
  auto& object = object_of<ProtectionDomainObject>(pd);
  if (object.foreign) {
    object.foreign->release_hold();
  }
  --object.uses;
}

bool is_parent_domain(ibv_pd* pd) { return object_of<ProtectionDomainObject>(pd).below != nullptr; }

void* allocate_object(ObjectHome& home, std::size_t size, std::size_t alignment) {
  void* memory = IBV_ALLOCATOR_USE_DEFAULT;
  if (home.domain != nullptr) {
    auto& domain = object_of<ProtectionDomainObject>(home.domain);
    if (domain.allocate != nullptr) {
      memory = domain.allocate(home.domain, domain.allocator_context, size, alignment, kResource);
    }
  }
  home.is_the_programs = memory != IBV_ALLOCATOR_USE_DEFAULT;
  if (!home.is_the_programs) {
    memory = ::operator new(size, std::align_val_t{alignment}, std::nothrow);
  }
  if (memory == nullptr) {
    refuse(ENOMEM, home.is_the_programs ? "the parent domain's allocator gave no memory"
                                        : "no memory for a verbs object");
  } else if (home.domain != nullptr) {
    hold(home.domain);
  }
  return memory;
}

void free_object(const ObjectHome& home, void* memory, std::size_t alignment) {
  if (home.is_the_programs) {
    auto& domain = object_of<ProtectionDomainObject>(home.domain);
    domain.release(home.domain, domain.allocator_context, memory, kResource);
  } else {
    ::operator delete(memory, std::align_val_t{alignment});
  }
  if (home.domain != nullptr) {
    release_hold(home.domain);
  }
}

void set_domain_operations(verbs_context& verbs) {
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  verbs.alloc_parent_domain = alloc_parent_domain;
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

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
  ibv_pd* const made = new_domain_object(c, **pd);
  made->handle = context.handles->domains.add(*pd);
  return made;
}

WEFT_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  auto& object = object_of<ProtectionDomainObject>(pd);
  Context& context = context_of(pd->context);
  if (is_alive(context)) {
    if (object.uses.load() != 0) {
      return refuse(EBUSY, "objects of the domain still exist, or parent domains above it");
    }
    if (object.foreign) {
      if (auto freed = object.foreign->deallocate(); !freed) {
        return refuse(freed.error());
      }
    } else if (object.below == nullptr) {
      const auto known = context.handles->domains.find(pd->handle);
      if (!known || *known != object.engine) {
        return refuse(EINVAL, why_unknown("PD", pd->handle, context.handles->domains));
      }
      if (auto freed = context.engine->deallocate_pd(*object.engine); !freed) {
        return refuse(freed.error());
      }
      context.handles->domains.remove(pd->handle);
    }
  }
  if (object.below != nullptr) {
    release_hold(&object.below->pd);
  }
  if (object.thread_domain != nullptr) {
    --object.thread_domain->uses;
  }
  delete &object;
  return 0;
}

}  // extern "C"
