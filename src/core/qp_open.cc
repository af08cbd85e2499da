// XRC target QPs that several have open, and multicast groups of QPs.

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "core/device.h"
#include "core/qp.h"
#include "core/qp_access.h"
#include "core/xrcd.h"

namespace weft::core {

Result<Qp*> QpAccess::open(Qp& real, const QpOpen& open) {
  QpInit init = real.init();
  init.event_handler = open.event_handler;
  init.context = open.context;
  auto handle = std::make_unique<Qp>(real.device(), nullptr, init);
  handle->real_ = &real;
  handle->number_ = real.number();
  handle->driver_data = real.driver_data;
  const std::lock_guard lock{real.lock_};
  real.opened_.push_back(*handle);
  return handle.release();
}

void QpAccess::close(Qp& handle) {
  {
    const std::lock_guard lock{handle.real().lock_};
    IntrusiveList<Qp, OpenQpTag>::remove(handle);
  }
  std::unique_ptr<Qp>{&handle}.reset();
}

Result<Qp*> QpAccess::create_target(Device& device, QpInit& init) {
  QpInit inner = init;
  inner.event_handler = nullptr;  // each handle has its own
  inner.send_cq = nullptr;
  inner.recv_cq = nullptr;
  inner.srq = nullptr;
  const auto real = create(device, nullptr, inner);
  if (!real) {
    return std::unexpected(real.error());
  }
  auto handle =
      open(**real, {.number = {}, .event_handler = init.event_handler, .context = init.context});
  init.capabilities = inner.capabilities;
  const std::lock_guard lock{init.xrcd->lock_};
  init.xrcd->targets_.emplace((*real)->number().value(), *real);
  return handle;
}

Result<Qp*> QpAccess::open_target(Xrcd& xrcd, const QpOpen& wanted) {
  const std::lock_guard lock{xrcd.lock_};
  const auto found = xrcd.targets_.find(wanted.number.value());
  if (found == xrcd.targets_.end()) {
    return fail(ErrorCode::InvalidArgument, "the XRC domain has no target QP {:#x}",
                wanted.number.value());
  }
  return open(*found->second, wanted);
}

Result<void> QpAccess::destroy_opened(Qp& handle) {
  Qp& real = handle.real();
  Xrcd& xrcd = *real.xrcd();
  bool is_last = false;
  {
    const std::lock_guard lock{xrcd.lock_};
    close(handle);
    const std::lock_guard inner{real.lock_};
    is_last = real.opened_.empty();
    if (is_last) {
      xrcd.targets_.erase(real.number().value());
    }
  }
  return is_last ? destroy(real) : Result<void>{};
}

Result<Qp*> create_xrc_target(Device& device, QpInit& init) {
  if (init.type != verbs::QpType::XrcTarget || init.xrcd == nullptr) {
    return fail(ErrorCode::InvalidArgument, "an XRC target QP has an XRC domain, and that type");
  }
  return QpAccess::create_target(device, init);
}

Result<Qp*> open_qp(Xrcd& xrcd, const QpOpen& open) { return QpAccess::open_target(xrcd, open); }

Result<void> close_qp(Qp& qp) {
  if (&qp.real() == &qp) {
    return fail(ErrorCode::InvalidArgument, "the QP was not opened: it is destroyed, not closed");
  }
  QpAccess::close(qp);
  return {};
}

Result<void> QpAccess::attach(Qp& qp, const Gid& gid, Lid lid) {
  if (auto attached = qp.device().operations().attach_multicast(qp, gid, lid); !attached) {
    return attached;
  }
  const std::lock_guard lock{qp.lock_};
  const std::pair group{gid, lid};
  if (std::ranges::find(qp.groups_, group) == qp.groups_.end()) {
    qp.groups_.push_back(group);
  }
  return {};
}

Result<void> QpAccess::detach(Qp& qp, const Gid& gid, Lid lid) {
  if (auto detached = qp.device().operations().detach_multicast(qp, gid, lid); !detached) {
    return detached;
  }
  const std::lock_guard lock{qp.lock_};
  std::erase(qp.groups_, std::pair{gid, lid});
  return {};
}

namespace {

Result<void> check_group(Qp& qp, const Gid& gid, Lid lid, bool is_offered) {
  if (!is_offered) {
    return fail(ErrorCode::NotSupported, "{} has no multicast", qp.device().name());
  }
  if (qp.type() != verbs::QpType::Ud) {
    return fail(ErrorCode::InvalidArgument, "only UD QPs join multicast groups; this is {}",
                verbs::name_of(qp.type()));
  }
  if (!gid.is_multicast()) {
    return fail(ErrorCode::InvalidArgument, "the group's GID is no multicast GID");
  }
  // Before INIT the port is not known; of Ethernet ports the LID does not count.
  Device& device = qp.device();
  const PortNumber port = qp.port() == PortNumber{} ? device.first_port() : qp.port();
  if (device.link_layer(port) == LinkLayer::Infiniband && !lid.is_multicast()) {
    return fail(ErrorCode::InvalidArgument, "LID {} is no multicast LID", lid.value());
  }
  return {};
}

}  // namespace

Result<void> attach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  const bool is_offered = qp.device().operations().attach_multicast != nullptr;
  if (auto checked = check_group(qp, gid, lid, is_offered); !checked) {
    return checked;
  }
  return QpAccess::attach(qp, gid, lid);
}

Result<void> detach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  const bool is_offered = qp.device().operations().detach_multicast != nullptr;
  if (auto checked = check_group(qp, gid, lid, is_offered); !checked) {
    return checked;
  }
  return QpAccess::detach(qp, gid, lid);
}

}  // namespace weft::core
