// Memory windows. The key part of a window's R_Key changes with each bind: for type 1 the library
// increments it, for type 2 the program does (ibv_inc_rkey).

#include <cerrno>
#include <memory>

#include "compat/ibverbs/objects.h"
#include "compat/ibverbs/work_request.h"
#include "hca/memory_window.h"

namespace {

using namespace weft;
using namespace weft::compat;

constexpr std::uint32_t kKeyPart = 0xFF;

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    refuse(EINVAL, "a memory window is of type 1 or 2");
    return nullptr;
  }
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto window = context.engine->allocate_window(*object_of<ProtectionDomainObject>(pd).engine,
                                                static_cast<hca::WindowType>(type));
  if (!window) {
    refuse(window.error());
    return nullptr;
  }
  auto object = std::make_unique<MemoryWindowObject>();
  object->engine = *window;
  object->mw.context = pd->context;
  object->mw.pd = pd;
  object->mw.rkey = (*window)->rkey().value();
  object->mw.handle = object->mw.rkey / (kKeyPart + 1);
  object->mw.type = type;
  hold(pd);
  return &object.release()->mw;
}

int dealloc_mw(ibv_mw* mw) noexcept {
  auto& object = object_of<MemoryWindowObject>(mw);
  Context& context = context_of(mw->context);
  if (is_alive(context)) {
    context.engine->deallocate_window(*object.engine);
  }
  release_hold(mw->pd);
  delete &object;
  return 0;
}

[[nodiscard]] hca::WindowBinding binding_of(const ibv_mw_bind_info& info, std::uint32_t rkey) {
  return {.rkey = RKey{rkey},
          .lkey = info.mr == nullptr ? LKey{} : LKey{info.mr->lkey},
          .address = info.addr,
          .length = info.length,
          .access = hca::AccessFlags::from_bits(info.mw_access_flags)};
}

/// For windows of type 1; the public header has checked the type and the region's PD.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const hca::WindowBinding binding = binding_of(bind->bind_info, rkey);
  hca::SendWr wr;
  wr.wr_id = bind->wr_id;
  wr.opcode = hca::WrOpcode::BindMemoryWindow;
  wr.flags = hca::SendFlags::from_bits(bind->send_flags & 0xF).without(hca::Send::Inline);
  wr.binding = &binding;
  if (auto posted = object.context->process->post_send(*object.engine, wr); !posted) {
    return refuse(posted.error());
  }
  mw->rkey = rkey;
  return 0;
}

}  // namespace

Result<hca::WindowBinding> weft::compat::to_engine(const ibv_mw& mw, std::uint32_t rkey,
                                                   const ibv_mw_bind_info& info) {
  if (mw.type != IBV_MW_TYPE_2) {
    return fail(ErrorCode::InvalidArgument,
                "a work request binds windows of type 2; ibv_bind_mw() those of type 1");
  }
  if (info.mr == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a window of type 2 needs a region to be bound to");
  }
  // The program chooses only the key part; the rest identifies the window (IBTA vol 1 §10.6.7.2.2).
  // Devices ignore the upper bits, and some programs rely on it.
  // Devices take the low 8 bits and look at no others, and there are programs that count on it.
  return binding_of(info, (mw.rkey & ~kKeyPart) | (rkey & kKeyPart));
}

void weft::compat::set_memory_window_operations(verbs_context& verbs) {
  ibv_context_ops& operations = verbs.context.ops;
  operations.alloc_mw = alloc_mw;
  operations.bind_mw = bind_mw;
  operations.dealloc_mw = dealloc_mw;
}
