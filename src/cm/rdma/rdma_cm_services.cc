// Services by their name or ServiceID: SA says at which GID and in which partition each is
// (ServiceRecord, IBTA vol 1 §15.2.5.14). librdmacm asks for them with RAI_SA.

#include <algorithm>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "cm/rdma/rdma_cm.h"
#include "wire/mad/component_mask.h"

namespace weft::cm {
namespace {

using Record = wire::ServiceRecord;

[[nodiscard]] RdmaCmFailure failure_of(const sa::QueryError& error) {
  if (error.is_no_records()) {
    return RdmaCmFailure::NoSuchService;
  }
  switch (error.failure) {
    case sa::QueryFailure::Cancelled:
      return RdmaCmFailure::Cancelled;
    case sa::QueryFailure::TimedOut:
      return RdmaCmFailure::TimedOut;
    case sa::QueryFailure::NotSent:
      return RdmaCmFailure::NetworkDown;
    default:
      return RdmaCmFailure::InvalidArgument;
  }
}

}  // namespace

Result<void> RdmaCm::resolve_service(RdmaCmId id, const ServiceWish& path_query, Instant now) {
  auto in = in_state(id, {RdmaCmState::AddressBound}, "resolving a service");
  if (!in) {
    return std::unexpected(in.error());
  }
  Id& of = **in;
  const auto port = of.port ? ports_.find(*of.port) : ports_.end();
  if (port == ports_.end()) {
    return fail(ErrorCode::InvalidArgument,
                "bind the id to an address of a port first: that port's SA is asked");
  }
  Record wanted;
  if (path_query.name.size() > wanted.service_name.size()) {
    return fail(ErrorCode::InvalidArgument, "the name of a service has up to {} octets, not {}",
                wanted.service_name.size(), path_query.name.size());
  }
  copy_bytes(std::span{wanted.service_name}.first(path_query.name.size()),
             std::as_bytes(std::span{path_query.name}));
  wanted.service_id = path_query.service_id;
  const auto started = port->second.sa.get_services(
      sa::SaClient::Kind::GetTable, wanted,
      path_query.name.empty() ? wire::kComponent<Record, "ServiceID">
                              : wire::kComponent<Record, "ServiceName">,
      {},
      [this, id](sa::QueryId, const sa::Answer<std::vector<Record>>& records, Instant) {
        services_found(id, records);
      },
      now);
  if (!started) {
    return std::unexpected(started.error());
  }
  of.services.clear();
  of.query = *started;
  of.state = RdmaCmState::ServiceQuery;
  return {};
}

/// A table without records is SA's way to say that there is none (IBTA vol 1 §15.4.1).
void RdmaCm::services_found(RdmaCmId id, const sa::Answer<std::vector<Record>>& records) {
  Id* const of = find(id);
  if (of == nullptr || of->state != RdmaCmState::ServiceQuery) {
    return;
  }
  of->query.reset();
  of->state = RdmaCmState::AddressBound;
  if (!records || records->empty()) {
    return fail_with(id, *of, RdmaCmEventType::AddrinfoError,
                     records ? RdmaCmFailure::NoSuchService : failure_of(records.error()));
  }
  for (const Record& record : *records) {
    if (of->services.size() == limits_.services_of_id) {
      break;
    }
    of->services.push_back(
        {.service_id = record.service_id, .gid = record.service_gid, .pkey = record.service_pkey});
  }
  static_cast<void>(report_event(id, *of, {.type = RdmaCmEventType::AddrinfoResolved}));
}

Result<std::vector<ServicePlace>> RdmaCm::services(RdmaCmId id) const {
  const Id* const of = find(id);
  if (of == nullptr) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  return of->services;
}

}  // namespace weft::cm
