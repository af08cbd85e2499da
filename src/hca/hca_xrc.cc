#include <memory>
#include <mutex>

#include "hca/hca.h"
#include "hca/hca_state.h"

namespace weft::hca {

Result<XrcDomain*> Hca::open_xrc_domain(std::uint32_t name) {
  const std::lock_guard guard{state_->objects};
  if (state_->xrc_domains.size() >= state_->configuration.limits.max_xrcd) {
    return fail(ErrorCode::OutOfMemory, "the device's {} XRC domains are all in use",
                state_->configuration.limits.max_xrcd);
  }
  return state_->xrc_domains.add(std::make_unique<XrcDomain>(name));
}

Result<void> Hca::close_xrc_domain(XrcDomain& domain) {
  if (const std::uint32_t uses = domain.uses.load(std::memory_order_acquire); uses != 0) {
    return fail(ErrorCode::Busy,
                "the XRC domain is still used by {} XRC SRQs and target QPs; destroy those first",
                uses);
  }
  const std::lock_guard guard{state_->objects};
  state_->xrc_domains.free(domain);
  return {};
}

Result<SharedReceiveQueue*> Hca::create_xrc_srq(ProtectionDomain& pd, XrcDomain& domain,
                                                CompletionQueue& cq, std::uint32_t depth,
                                                std::uint32_t max_sge) {
  auto srq = make_srq(pd, depth, max_sge, 0, {.domain = &domain, .cq = &cq, .number = 0});
  if (srq) {
    domain.uses.fetch_add(1, std::memory_order_relaxed);
    cq.uses.fetch_add(1, std::memory_order_relaxed);
  }
  return srq;
}

/// The proxy's connection: from the home's target QP, which has enforced the target's own
/// attributes, to the port's own LID.
Result<Qp*> Hca::create_proxy(XrcDomain& domain, const XrcProxyRequest& request) {
  QpInit init;
  init.type = QpType::XrcTarget;
  init.xrcd = &domain;
  init.proxy_for = request.of;
  auto made = create_qp(init);
  if (!made) {
    return made;
  }
  QpAttributes to;
  to.state = QpState::Init;
  to.port = request.port;
  to.pkey_index = request.pkey_index;
  to.access = AccessFlags{Access::RemoteWrite} | Access::RemoteRead | Access::RemoteAtomic |
              Access::FlushGlobal | Access::FlushPersistent;
  auto modified = (*made)->modify(to, QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                                          QpAttribute::Port | QpAttribute::RemoteAccess);
  if (modified) {
    to.state = QpState::Rtr;
    to.path_mtu = request.path_mtu;
    to.dest_qpn = request.of.target;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = request.min_rnr_timer;
    to.address.dlid = port(request.port).lid;
    to.address.port = request.port;
    modified =
        (*made)->modify(to, QpAttributeMask{QpAttribute::State} | QpAttribute::AddressVector |
                                QpAttribute::PathMtu | QpAttribute::DestQpn | QpAttribute::RqPsn |
                                QpAttribute::MaxDestRdAtomic | QpAttribute::MinRnrTimer);
  }
  if (!modified) {
    static_cast<void>(destroy_qp(**made));
    return std::unexpected(modified.error());
  }
  return made;
}

/// Makes the SRQ unreachable for requests. Refused, and undone, while a message fills one of its
/// receive WQEs.
Result<void> Hca::withdraw_xrc_srq(SharedReceiveQueue& srq) {
  const std::uint32_t number = srq.xrc().number;
  state_->xrc_srqs.set(number, nullptr);
  fence_qps();
  if (srq.uses.load(std::memory_order_acquire) != 0) {
    state_->xrc_srqs.set(number, &srq);
    return fail(ErrorCode::Busy,
                "XRC SRQ {:#x} is receiving a message: wait for its completion, or destroy the "
                "target QP that it comes to",
                number);
  }
  srq.xrc().domain->uses.fetch_sub(1, std::memory_order_release);
  srq.xrc().cq->uses.fetch_sub(1, std::memory_order_release);
  return {};
}

}  // namespace weft::hca
