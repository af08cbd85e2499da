#include <rdma/rdma_cm.h>

#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/cm/rdma_cm.h"
#include "core/device.h"
#include "core/qp.h"
#include "core/registry.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/object_faces.h"
#include "kernel/rdma_cm_face.h"
#include "kernel/socket_address.h"

namespace weft::kernel {
namespace {

void store_address(sockaddr_storage& into, const sockaddr* address) {
  std::memcpy(&into, address,
              address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

[[nodiscard]] verbs::ConnectionParameters parameters_of(const rdma_conn_param* from,
                                                        const ib_qp* qp) {
  verbs::ConnectionParameters made;
  if (from != nullptr) {
    made.qpn = Qpn{from->qp_num};
    made.qkey = QKey{from->qkey};
    made.has_srq = from->srq != 0;
    made.responder_resources = from->responder_resources;
    made.initiator_depth = from->initiator_depth;
    made.flow_control = from->flow_control;
    made.retry_count = from->retry_count;
    made.rnr_retry_count = from->rnr_retry_count;
    const auto* const data = static_cast<const std::byte*>(from->private_data);
    if (data != nullptr) {
      made.private_data.assign(data, data + from->private_data_len);
    }
  }
  if (qp != nullptr) {
    made.qpn = Qpn{qp->qp_num};
    made.has_srq = qp->srq != nullptr;
  }
  return made;
}

/// Its private data are those of `event`.
[[nodiscard]] rdma_cm_event to_c(const core::RdmaCmEvent& event) {
  rdma_cm_event made{};
  made.event = static_cast<rdma_cm_event_type>(event.type);
  made.status = event.status;
  const verbs::ConnectionParameters& from = event.parameters;
  rdma_conn_param& to = made.param.conn;
  to.private_data = from.private_data.empty() ? nullptr : from.private_data.data();
  to.private_data_len = static_cast<std::uint8_t>(from.private_data.size());
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.has_srq ? 1 : 0;
  to.qp_num = from.qpn.value();
  to.qkey = from.qkey.value();
  return made;
}

/// An id with the core's id behind it.
class IdFace final : public core::RdmaCmHandler {
 public:
  [[nodiscard]] static std::unique_ptr<IdFace> make(rdma_cm_event_handler handler, void* context) {
    auto made = std::make_unique<IdFace>();
    note_made(&made->id_);
    made->id_.event_handler = handler;
    made->id_.context = context;
    made->id_.weft = made.get();
    return made;
  }

  [[nodiscard]] rdma_cm_id& id() { return id_; }
  [[nodiscard]] core::RdmaCmId& core_id() { return *core_id_; }
  void set_core_id(std::unique_ptr<core::RdmaCmId> core_id) { core_id_ = std::move(core_id); }

  /// No event is handled any more when it returns. Its destructor waits for handlers, which reach
  /// the core's id until then: unique_ptr's own reset() would take it from them first.
  void end_core_id() {
    delete core_id_.get();
    static_cast<void>(core_id_.release());
  }

  void handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override {
    if (event.type == verbs::RdmaCmEventType::ConnectRequest) {
      take_request(event, std::move(request));
      return;
    }
    update();
    rdma_cm_event made = to_c(event);
    if (id_.event_handler(&id_, &made) != 0) {
      rdma_destroy_id(&id_);  // this object is gone
    }
  }

  void update() {
    if (core::Device* const device = core_id_->device(); device != nullptr) {
      id_.device = face_of(*device);
      id_.port_num = core_id_->port().value();
      if (!held_) {
        held_ = device->registry().get_device_by_index(device->index());
      }
    }
  }

  /// The QP goes, or is another id's: the core's id forgets it.
  void release_qp() {
    if (id_.qp != nullptr) {
      core_id_->destroy_qp();  // which destroys none that was given by use_qp()
      id_.qp = nullptr;
    }
  }

 private:
  /// The request's id has the listener's handler and context until its user sets others.
  void take_request(const core::RdmaCmEvent& event, std::unique_ptr<core::RdmaCmId> request) {
    auto face = make(id_.event_handler, id_.context);
    face->core_id_ = std::move(request);
    face->core_id_->set_handler(*face);
    face->id_.ps = id_.ps;
    face->id_.qp_type = id_.qp_type;
    face->id_.route.addr.src_addr = id_.route.addr.src_addr;
    face->update();
    rdma_cm_event made = to_c(event);
    rdma_cm_id* const id = &face.release()->id_;  // the user's, who may destroy it in his handler
    if (id->event_handler(id, &made) != 0) {
      rdma_destroy_id(id);
    }
  }

  rdma_cm_id id_{};
  /// A device that goes waits until its ids are destroyed: what they have of it goes before them.
  core::DeviceReference held_;
  std::unique_ptr<core::RdmaCmId> core_id_;
};

[[nodiscard]] IdFace& id_face_of(const rdma_cm_id& id, const Call& call = Call::current()) {
  require_alive(&id, call);
  return *static_cast<IdFace*>(id.weft);
}
[[nodiscard]] core::RdmaCmId& core_id_of(const rdma_cm_id& id, const Call& call = Call::current()) {
  return id_face_of(id, call).core_id();
}

}  // namespace

void forget_qp_of_id(rdma_cm_id& id) { id_face_of(id).release_qp(); }

}  // namespace weft::kernel

using weft::Duration;
using weft::kernel::core_id_of;
using weft::kernel::core_of;
using weft::kernel::returned;

rdma_cm_id* __rdma_create_kernel_id(net* /*net*/, rdma_cm_event_handler event_handler,
                                    void* context, rdma_ucm_port_space ps, ib_qp_type qp_type,
                                    const char* /*caller*/) {
  const auto host = weft::kernel::host();
  if (!host) {
    return weft::kernel::refuse_pointer<rdma_cm_id>(host.error());
  }
  if (ps != RDMA_PS_TCP || qp_type != IB_QPT_RC) {
    return weft::kernel::refuse_pointer<rdma_cm_id>(
        {weft::ErrorCode::NotSupported, "ids are of RDMA_PS_TCP and IB_QPT_RC"});
  }
  if (host->cm == nullptr) {
    return weft::kernel::refuse_pointer<rdma_cm_id>(
        {weft::ErrorCode::NoSuchDevice, "the host has no RDMA-CM"});
  }
  auto face = weft::kernel::IdFace::make(event_handler, context);
  auto made = host->cm->create_id(*face);
  if (!made) {
    return weft::kernel::refuse_pointer<rdma_cm_id>(made.error());
  }
  face->set_core_id(*std::move(made));
  face->id().ps = ps;
  face->id().qp_type = qp_type;
  return &face.release()->id();
}

void rdma_destroy_id(rdma_cm_id* id) {
  const std::unique_ptr<weft::kernel::IdFace> gone{&weft::kernel::id_face_of(*id)};
  if (id->qp != nullptr) {
    id->qp->weft_id = nullptr;  // it is its user's
  }
  gone->release_qp();
  gone->end_core_id();
  weft::kernel::note_destroyed(id, "RDMA-CM id", 0);
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) {
  const auto to = weft::kernel::address_of(addr);
  if (!to) {
    return weft::kernel::refuse(to.error());
  }
  const auto bound = core_id_of(*id).bind(*to);
  if (bound) {
    weft::kernel::store_address(id->route.addr.src_addr, addr);
    weft::kernel::id_face_of(*id).update();
  }
  return returned(bound);
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, const sockaddr* dst_addr,
                      unsigned long timeout_ms) {
  weft::kernel::require_alive(id);
  const auto to = weft::kernel::address_of(dst_addr);
  if (!to) {
    return weft::kernel::refuse(to.error());
  }
  if (src_addr != nullptr && src_addr->sa_family != AF_UNSPEC) {
    if (const int bound = rdma_bind_addr(id, src_addr); bound != 0) {
      return bound;
    }
  }
  weft::kernel::store_address(id->route.addr.dst_addr, dst_addr);
  return returned(core_id_of(*id).resolve_address(
      *to, Duration::milliseconds(static_cast<std::int64_t>(timeout_ms))));
}

int rdma_resolve_route(rdma_cm_id* id, unsigned long timeout_ms) {
  return returned(
      core_id_of(*id).resolve_route(Duration::milliseconds(static_cast<std::int64_t>(timeout_ms))));
}

int rdma_create_qp(rdma_cm_id* id, ib_pd* pd, ib_qp_init_attr* qp_init_attr) {
  weft::kernel::require_alive(id);
  weft::kernel::require_alive(pd);
  if (id->qp != nullptr || id->device == nullptr || pd->device != id->device) {
    return weft::kernel::refuse(
        {weft::ErrorCode::InvalidArgument,
         "an id has one QP, in a PD of the device that its address is bound to"});
  }
  ib_qp* const qp = ib_create_qp(pd, qp_init_attr);
  if (const auto error = std::bit_cast<std::intptr_t>(qp); error < 0 && error >= -4095) {
    return static_cast<int>(error);
  }
  const auto used = core_id_of(*id).use_qp(core_of(*qp));
  if (!used) {
    static_cast<void>(ib_destroy_qp(qp));
    return returned(used);
  }
  id->qp = qp;
  qp->weft_id = id;
  return 0;
}

void rdma_destroy_qp(rdma_cm_id* id) {
  weft::kernel::require_alive(id);
  if (id->qp != nullptr) {
    static_cast<void>(ib_destroy_qp(id->qp));
  }
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* conn_param) {
  weft::kernel::require_alive(id);
  return returned(core_id_of(*id).connect(weft::kernel::parameters_of(conn_param, id->qp)));
}

int rdma_connect_locked(rdma_cm_id* id, rdma_conn_param* conn_param) {
  return rdma_connect(id, conn_param);
}

int rdma_listen(rdma_cm_id* id, int backlog) { return returned(core_id_of(*id).listen(backlog)); }

int rdma_accept(rdma_cm_id* id, rdma_conn_param* conn_param) {
  weft::kernel::require_alive(id);
  return returned(core_id_of(*id).accept(weft::kernel::parameters_of(conn_param, id->qp)));
}

int rdma_reject(rdma_cm_id* id, const void* private_data, std::uint8_t private_data_len,
                std::uint8_t reason) {
  constexpr std::uint8_t kConsumer = 28;
  if (reason != 0 && reason != kConsumer) {
    return weft::kernel::refuse(
        {weft::ErrorCode::InvalidArgument, "a user rejects with reason 28"});
  }
  const std::span data{static_cast<const std::byte*>(private_data),
                       private_data != nullptr ? private_data_len : std::size_t{0}};
  return returned(core_id_of(*id).reject(data));
}

int rdma_disconnect(rdma_cm_id* id) { return returned(core_id_of(*id).disconnect()); }

int rdma_notify(rdma_cm_id* id, ib_event_type event) {
  const auto type = weft::verbs::async_event_of(static_cast<std::uint32_t>(event));
  if (!type) {
    return weft::kernel::refuse({weft::ErrorCode::InvalidArgument, "there is no such event"});
  }
  return returned(core_id_of(*id).notify(*type));
}

void rdma_set_service_type(rdma_cm_id* id, int tos) {
  static_cast<void>(returned(core_id_of(*id).set_type_of_service(static_cast<std::uint8_t>(tos))));
}

bool rdma_is_consumer_reject(rdma_cm_id* /*id*/, int reason) {
  constexpr int kConsumer = 28;
  return reason == kConsumer;
}

const void* rdma_consumer_reject_data(rdma_cm_id* id, rdma_cm_event* ev, std::uint8_t* data_len) {
  if (ev->event != RDMA_CM_EVENT_REJECTED || !rdma_is_consumer_reject(id, ev->status)) {
    *data_len = 0;
    return nullptr;
  }
  *data_len = ev->param.conn.private_data_len;
  return ev->param.conn.private_data;
}
