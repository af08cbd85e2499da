#include <rdma/ib_cm.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/qp.h"
#include "kernel/device_face.h"
#include "kernel/host.h"
#include "kernel/ib_cm_id.h"
#include "kernel/ib_cm_values.h"
#include "kernel/object_faces.h"
#include "kernel/values.h"

namespace weft::kernel {
namespace {

[[nodiscard]] Result<IbCmService*> service() {
  const auto found = host();
  if (!found) {
    return std::unexpected(found.error());
  }
  if (found->ib_cm == nullptr) {
    return fail(ErrorCode::NoSuchDevice,
                "the host's devices let nobody send MADs: connections go by rdma_cm.h");
  }
  return found->ib_cm;
}

/// Listeners of ib_cm_insert_listen(), one for each device and service.
struct SharedListeners {
  struct Entry {
    const ib_device* device{};
    IbCmIdFace* face{};
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

SharedListeners& shared_listeners() {
  static SharedListeners made;
  return made;
}

[[nodiscard]] Result<cm::RequestParameters> request_of(const ib_cm_req_param& from,
                                                       const Call& call = Call::current()) {
  if (from.qp == nullptr || from.primary_path == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a request has a QP and a primary path");
  }
  cm::RequestParameters made;
  made.primary = cm_path_of(*from.primary_path);
  if (from.alternate_path != nullptr) {
    made.alternate = cm_path_of(*from.alternate_path);
  }
  made.service_id = from.service_id;
  made.qp_type = core_of(*from.qp, call).type();
  made.qpn = Qpn{from.qp->qp_num};
  made.starting_psn = Psn{from.starting_psn & 0xFF'FFFF};
  made.responder_resources = from.responder_resources;
  made.initiator_depth = from.initiator_depth;
  made.remote_cm_response_timeout = from.remote_cm_response_timeout;
  made.local_cm_response_timeout = from.local_cm_response_timeout;
  made.retry_count = from.retry_count;
  made.rnr_retry_count = from.rnr_retry_count;
  made.max_cm_retries = from.max_cm_retries;
  made.flow_control = from.flow_control != 0;
  made.srq = from.qp->srq != nullptr;
  made.private_data = bytes_at(from.private_data, from.private_data_len);
  return made;
}

[[nodiscard]] cm::ReplyParameters reply_of(const ib_cm_req_param& from) {
  cm::ReplyParameters made;
  made.qpn = Qpn{from.qp->qp_num};
  made.starting_psn = Psn{from.starting_psn & 0xFF'FFFF};
  made.responder_resources = from.responder_resources;
  made.initiator_depth = from.initiator_depth;
  made.target_ack_delay = core_of(*from.qp->device).attributes().local_ca_ack_delay;
  made.rnr_retry_count = from.rnr_retry_count;
  made.flow_control = from.flow_control != 0;
  made.srq = from.qp->srq != nullptr;
  made.private_data = bytes_at(from.private_data, from.private_data_len);
  return made;
}

/// `function(manager, id, now)` is the call of the manager.
template <class Function>
int call(ib_cm_id* id, Function function, const Call& caller = Call::current()) {
  IbCmIdFace& face = IbCmIdFace::of(*id, caller);
  return returned(face.call([&](cm::ConnectionManager& manager, Instant now) {
    return function(manager, face.id(), now);
  }));
}

int refuse_argument(const char* why) {
  return refuse({.code = ErrorCode::InvalidArgument, .reason = why});
}

}  // namespace
}  // namespace weft::kernel

using weft::Instant;
using weft::kernel::bytes_at;
using weft::kernel::IbCmIdFace;
using weft::kernel::refuse_argument;
using Manager = weft::cm::ConnectionManager;
using Id = weft::cm::CmId;

ib_cm_id* ib_create_cm_id(ib_cm_handler cm_handler, void* context) {
  const auto service = weft::kernel::service();
  if (!service) {
    return weft::kernel::refuse_pointer<ib_cm_id>(service.error());
  }
  auto face = std::make_unique<IbCmIdFace>(**service, cm_handler, context);
  const auto id =
      (*service)->with_manager([&](Manager& manager, Instant) { return manager.create(*face); });
  if (!id) {
    return weft::kernel::refuse_pointer<ib_cm_id>(id.error());
  }
  face->set_id(*id);
  return &face.release()->face();
}

int ib_destroy_cm_id(ib_cm_id* cm_id) {
  IbCmIdFace& face = IbCmIdFace::of(*cm_id);
  {
    auto& shared = weft::kernel::shared_listeners();
    const std::lock_guard lock{shared.mutex};
    if (--face.users != 0) {
      return 0;
    }
    std::erase_if(shared.entries, [&](const auto& entry) { return entry.face == &face; });
  }
  IbCmIdFace::destroy(face, weft::kernel::Call::current());
  return 0;
}

int ib_cm_listen(ib_cm_id* cm_id, __u64 service_id) {
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant) -> weft::Result<void> {
    const auto listens = manager.listen(id, {.service_id = service_id});
    if (!listens) {
      return std::unexpected(listens.error());
    }
    cm_id->service_id = *listens;
    return {};
  });
}

ib_cm_id* ib_cm_insert_listen(ib_device* device, ib_cm_handler cm_handler, __be64 service_id) {
  const std::uint64_t number = std::byteswap(std::uint64_t{service_id});
  auto& shared = weft::kernel::shared_listeners();
  const std::lock_guard lock{shared.mutex};
  const auto found = std::ranges::find_if(shared.entries, [&](const auto& entry) {
    return entry.device == device && entry.face->face().service_id == number;
  });
  if (found != shared.entries.end()) {
    if (found->face->face().cm_handler != cm_handler) {
      return static_cast<ib_cm_id*>(weft::kernel::error_pointer(
          refuse_argument("the service's listener has another handler")));
    }
    ++found->face->users;
    return &found->face->face();
  }
  const auto service = weft::kernel::service();
  if (!service) {
    return weft::kernel::refuse_pointer<ib_cm_id>(service.error());
  }
  auto face = std::make_unique<IbCmIdFace>(**service, cm_handler, nullptr);
  const weft::Guid guid = weft::kernel::core_of(*device).attributes().node_guid;
  const auto id = (*service)->with_manager(
      [&](Manager& manager, Instant) { return manager.insert_listen(*face, number, guid); });
  if (!id) {
    return weft::kernel::refuse_pointer<ib_cm_id>(id.error());
  }
  face->set_id(*id);
  face->face().service_id = number;
  face->face().state = IB_CM_LISTEN;
  shared.entries.push_back({.device = device, .face = face.get()});
  return &face.release()->face();
}

int ib_send_cm_req(ib_cm_id* cm_id, ib_cm_req_param* param) {
  const auto request = weft::kernel::request_of(*param);
  if (!request) {
    return weft::kernel::refuse(request.error());
  }
  IbCmIdFace::of(*cm_id).qp = param->qp;
  cm_id->service_id = param->service_id;
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_req(id, *request, now);
  });
}

int ib_send_cm_rep(ib_cm_id* cm_id, ib_cm_req_param* param) {
  if (param->qp == nullptr) {
    return refuse_argument("a reply has a QP");
  }
  weft::kernel::require_alive(param->qp);
  IbCmIdFace::of(*cm_id).qp = param->qp;
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_rep(id, weft::kernel::reply_of(*param), now);
  });
}

int ib_send_cm_rtu(ib_cm_id* cm_id, void* private_data, std::uint8_t private_data_len) {
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_rtu(id, bytes_at(private_data, private_data_len), now);
  });
}

int ib_send_cm_dreq(ib_cm_id* cm_id, void* private_data, std::uint8_t private_data_len) {
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_dreq(id, bytes_at(private_data, private_data_len), now);
  });
}

int ib_send_cm_drep(ib_cm_id* cm_id, void* private_data, std::uint8_t private_data_len) {
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_drep(id, bytes_at(private_data, private_data_len), now);
  });
}

int ib_cm_establish(ib_cm_id* id) {
  return weft::kernel::call(
      id, [](Manager& manager, Id own, Instant now) { return manager.establish(own, now); });
}

int ib_send_cm_rej(ib_cm_id* cm_id, ib_cm_rej_reason reason, void* ari, std::uint8_t ari_length,
                   void* private_data, std::uint8_t private_data_len) {
  const weft::cm::RejectParameters parameters{
      .reason = static_cast<weft::wire::RejectReason>(reason),
      .additional_information = bytes_at(ari, ari_length),
      .private_data = bytes_at(private_data, private_data_len)};
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_rej(id, parameters, now);
  });
}

int ib_send_cm_mra(ib_cm_id* cm_id, std::uint8_t service_timeout, void* private_data,
                   std::uint8_t private_data_len) {
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_mra(id, service_timeout, bytes_at(private_data, private_data_len), now);
  });
}

int ib_send_cm_lap(ib_cm_id* cm_id, sa_path_rec* alternate_path, void* private_data,
                   std::uint8_t private_data_len) {
  const weft::cm::Path path = weft::kernel::cm_path_of(*alternate_path);
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_lap(id, path, bytes_at(private_data, private_data_len), now);
  });
}

int ib_send_cm_apr(ib_cm_id* cm_id, ib_cm_apr_status status, void* info, std::uint8_t info_length,
                   void* private_data, std::uint8_t private_data_len) {
  const weft::cm::AprParameters parameters{
      .status = static_cast<weft::wire::AprStatus>(status),
      .additional_information = bytes_at(info, info_length),
      .private_data = bytes_at(private_data, private_data_len)};
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_apr(id, parameters, now);
  });
}

int ib_cm_migrate_path(ib_cm_id* cm_id) {
  const ib_qp* const qp = IbCmIdFace::of(*cm_id).qp;
  if (qp == nullptr) {
    return refuse_argument("no REQ or REP of the connection has named its QP");
  }
  weft::core::QpModify modify;
  modify.mask = weft::verbs::QpAttribute::PathMigrationState;
  modify.attributes.migration = weft::verbs::MigrationState::Migrated;
  if (const auto moved = weft::core::modify_qp(weft::kernel::core_of(*qp), modify); !moved) {
    return weft::kernel::refuse(moved.error());
  }
  return weft::kernel::call(cm_id, [](Manager& manager, Id id, Instant now) {
    return manager.notify(id, weft::cm::AsyncEventType::PathMigrated, now);
  });
}

int ib_cm_init_qp_attr(ib_cm_id* cm_id, ib_qp_attr* qp_attr, int* qp_attr_mask) {
  const auto state = static_cast<weft::verbs::QpState>(qp_attr->qp_state);
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant) -> weft::Result<void> {
    const auto made = manager.init_qp_attributes(id, state);
    if (!made) {
      return std::unexpected(made.error());
    }
    *qp_attr = weft::kernel::to_c(made->attributes);
    *qp_attr_mask = static_cast<int>(made->mask.bits());
    return {};
  });
}

int ib_send_cm_sidr_req(ib_cm_id* cm_id, ib_cm_sidr_req_param* param) {
  if (param->path == nullptr) {
    return refuse_argument("a request for a service's QP has a path");
  }
  weft::cm::SidrRequestParameters parameters{
      .path = weft::kernel::cm_path_of(*param->path),
      .service_id = param->service_id,
      .timeout = weft::Duration::milliseconds(param->timeout_ms),
      .private_data = bytes_at(param->private_data, param->private_data_len)};
  if (param->pkey != 0) {
    parameters.path.pkey = weft::PKey{param->pkey};
  }
  cm_id->service_id = param->service_id;
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_sidr_req(id, parameters, now);
  });
}

int ib_send_cm_sidr_rep(ib_cm_id* cm_id, ib_cm_sidr_rep_param* param) {
  const weft::cm::SidrReplyParameters parameters{
      .status = static_cast<weft::wire::SidrStatus>(param->status),
      .qpn = weft::Qpn{param->qp_num},
      .qkey = weft::QKey{param->qkey},
      .additional_information = bytes_at(param->info, param->info_length),
      .private_data = bytes_at(param->private_data, param->private_data_len)};
  return weft::kernel::call(cm_id, [&](Manager& manager, Id id, Instant now) {
    return manager.send_sidr_rep(id, parameters, now);
  });
}
