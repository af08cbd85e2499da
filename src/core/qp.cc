#include "core/qp.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "core/device.h"
#include "core/qp_access.h"
#include "core/rdma_rw_sizing.h"
#include "core/wq.h"

namespace weft::core {
namespace {

using verbs::QpType;

[[nodiscard]] bool is_special(QpType type) { return type == QpType::Smi || type == QpType::Gsi; }

Result<void> check_parts(Device& device, const QpInit& init) {
  const bool sends = init.type != QpType::XrcTarget;
  const bool receives = sends && init.type != QpType::XrcInitiator;
  if (init.indirection_table != nullptr &&
      (init.recv_cq != nullptr || init.srq != nullptr || init.capabilities.max_recv_wr != 0 ||
       init.capabilities.max_recv_sge != 0)) {
    return fail(ErrorCode::InvalidArgument,
                "a QP that receives through an indirection table has no receive queue, CQ or SRQ");
  }
  if (init.flags.has(QpCreateFlag::IntegrityEnabled) &&
      !device.attributes().capabilities.has(DeviceCapability::Integrity)) {
    return fail(ErrorCode::InvalidArgument, "{} has no integrity regions", device.name());
  }
  if (sends && init.send_cq == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a {} QP has a send CQ", name_of(init.type));
  }
  if (receives && init.recv_cq == nullptr && init.indirection_table == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a {} QP has a receive CQ", name_of(init.type));
  }
  if (init.type == QpType::XrcTarget && init.xrcd == nullptr) {
    return fail(ErrorCode::InvalidArgument, "an XRC target QP has an XRC domain");
  }
  for (const Cq* const cq : {init.send_cq, init.recv_cq}) {
    if (cq != nullptr && &cq->device() != &device) {
      return fail(ErrorCode::InvalidArgument, "the CQ is of {}, the QP of {}", cq->device().name(),
                  device.name());
    }
  }
  if (is_special(init.type)) {
    return device.check_port(init.port);
  }
  return {};
}

Result<void> check_capabilities(Device& device, const verbs::QpCapabilities& asked) {
  const DeviceAttributes& limits = device.attributes();
  if (asked.max_send_wr > limits.max_qp_wr || asked.max_recv_wr > limits.max_qp_wr) {
    return fail(ErrorCode::InvalidArgument, "{} send and {} receive requests; the device has {}",
                asked.max_send_wr, asked.max_recv_wr, limits.max_qp_wr);
  }
  if (asked.max_send_sge > limits.max_send_sge || asked.max_recv_sge > limits.max_recv_sge) {
    return fail(ErrorCode::InvalidArgument,
                "{} elements a send and {} a receive; the device has {} and {}", asked.max_send_sge,
                asked.max_recv_sge, limits.max_send_sge, limits.max_recv_sge);
  }
  return {};
}

/// What a QP uses is held from its creation to its destruction.
template <class Visit>
void for_each_part(Qp& qp, Visit visit) {
  const QpInit& init = qp.init();
  const auto one = [&](auto* part) {
    if (part != nullptr) {
      visit(*part);
    }
  };
  one(qp.pd());
  one(init.send_cq);
  one(init.recv_cq);
  one(init.srq);
  one(init.indirection_table);
  one(init.xrcd);
}

}  // namespace

Qp::Qp(Device& device, Pd* pd, const QpInit& init)
    : Resource(device, ResourceKind::Qp, init.caller),
      rdma_mrs(device.lock_policy()),
      signature_mrs(device.lock_policy()),
      pd_(pd),
      init_(init),
      port_(init.port.value()),
      lock_(device.lock_policy()) {}

Qp::~Qp() = default;

std::size_t Qp::multicast_groups() const {
  const std::lock_guard lock{lock_};
  return groups_.size();
}

void Qp::dispatch(const Event& event) {
  if (init_.event_handler != nullptr) {
    init_.event_handler(event, init_.context);
  }
  const std::lock_guard lock{lock_};
  opened_.for_each([&](Qp& handle) {
    if (handle.init_.event_handler != nullptr) {
      Event told = event;
      told.qp = &handle;
      handle.init_.event_handler(told, handle.init_.context);
    }
  });
}

void QpAccess::enter(Qp& qp) {
  Device& device = qp.device();
  device.add_resource(qp);
  const std::lock_guard lock{device.lock_};
  qp.age_ = ++device.next_qp_age_;
  device.qps_.emplace(qp.age_, &qp);
}

void QpAccess::leave(Qp& qp) {
  Device& device = qp.device();
  {
    const std::lock_guard lock{device.lock_};
    device.qps_.erase(qp.age_);
  }
  device.environment().wait_until([&] { return qp.holds_.load(std::memory_order_acquire) == 0; },
                                  Instant::never());
  device.remove_resource(qp);
}

Result<Qp*> QpAccess::create(Device& device, Pd* pd, QpInit& init) {
  if (device.operations().create_qp == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no QPs", device.name());
  }
  if (const auto checked = check_parts(device, init); !checked) {
    return std::unexpected(checked.error());
  }
  if (const auto checked = check_capabilities(device, init.capabilities); !checked) {
    return std::unexpected(checked.error());
  }
  make_room_for_contexts(device, init);
  auto qp = std::make_unique<Qp>(device, pd, init);
  if (const auto made = device.operations().create_qp(*qp, init); !made) {
    return std::unexpected(made.error());
  }
  for_each_part(*qp, [](auto& part) { part.hold(); });
  init.capabilities = qp->init_.capabilities;
  enter(*qp);
  if (const auto filled = fill_context_pools(*qp); !filled) {
    static_cast<void>(destroy(*qp.release()));
    return std::unexpected(filled.error());
  }
  return qp.release();
}

Result<void> QpAccess::destroy(Qp& qp) {
  Device& device = qp.device();
  if (const std::size_t groups = qp.multicast_groups(); groups != 0) {
    return fail(ErrorCode::Busy, "the QP is in {} multicast groups; detach it first", groups);
  }
  qp.rdma_mrs.clear();
  qp.signature_mrs.clear();
  leave(qp);
  if (auto gone = device.operations().destroy_qp(qp); !gone) {
    enter(qp);
    return gone;
  }
  if (qp.default_destination_ != nullptr) {
    static_cast<void>(destroy_ah(*qp.default_destination_->ah));
  }
  for_each_part(qp, [](auto& part) { part.put(); });
  std::unique_ptr<Qp>{&qp}.reset();
  return {};
}

void QpAccess::visit_all(Device& device, bool special, const std::function<void(Qp&)>& visit) {
  std::uint64_t last = 0;
  for (;;) {
    Qp* qp = nullptr;
    {
      const std::lock_guard lock{device.lock_};
      auto next = device.qps_.upper_bound(last);
      while (next != device.qps_.end() && is_special(next->second->type()) != special) {
        ++next;
      }
      if (next == device.qps_.end()) {
        return;
      }
      last = next->first;
      qp = next->second;
      qp->holds_.fetch_add(1, std::memory_order_relaxed);
    }
    visit(*qp);
    if (qp->holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      device.environment().notify();
    }
  }
}

Result<Qp*> create_qp(Pd& pd, QpInit& init) {
  if (init.type == QpType::XrcTarget) {
    return fail(ErrorCode::InvalidArgument, "an XRC target QP has no PD");
  }
  return QpAccess::create(pd.device(), &pd, init);
}

Result<void> destroy_qp(Qp& qp) {
  return &qp.real() == &qp ? QpAccess::destroy(qp) : QpAccess::destroy_opened(qp);
}

Result<void> post_send(Qp& qp, const SendWr& first, const SendWr** bad) {
  const SendWr* unused = nullptr;
  const SendWr** const refused = bad != nullptr ? bad : &unused;
  const DefaultDestination* const destination = QpAccess::default_destination(qp);
  if (destination == nullptr) {
    return qp.device().operations().post_send(qp, first, refused);
  }
  for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    SendWr filled = *wr;
    filled.next = nullptr;
    if (filled.ah == nullptr) {
      filled.ah = destination->ah;
      filled.remote_qpn = destination->qpn;
    }
    if (auto posted = qp.device().operations().post_send(qp, filled, refused); !posted) {
      *refused = wr;
      return posted;
    }
  }
  return {};
}

Result<void> post_recv(Qp& qp, const RecvWr& first, const RecvWr** bad) {
  const RecvWr* unused = nullptr;
  return qp.device().operations().post_recv(qp, first, bad != nullptr ? bad : &unused);
}

void for_each_qp(Device& device, const std::function<void(Qp&)>& visit) {
  QpAccess::visit_all(device, true, visit);
  QpAccess::visit_all(device, false, visit);
}

}  // namespace weft::core
