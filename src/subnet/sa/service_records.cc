// SubnetAdministration: services (IBTA vol 1 §15.2.5.14, §15.4.4).

#include <algorithm>

#include "subnet/sa/administration.h"

namespace weft::subnet {
namespace {

using Record = wire::ServiceRecord;
using wire::SaStatus;

constexpr std::array<std::byte, 16> kNoKey{};

/// The record as returned to clients: with the remaining lease, without the service key
/// (§15.4.1.2).
[[nodiscard]] Record reported(const SaQuery& query, const Service& service) {
  Record record = service.record;
  if (service.expiry != Instant::never()) {
    const Duration left = service.expiry - query.now;
    const Duration whole_second = Duration::seconds(1) - Duration::nanoseconds(1);
    record.service_lease = static_cast<std::uint32_t>((left + whole_second).milliseconds() / 1'000);
  }
  if (!query.is_trusted) {
    record.service_key = kNoKey;
  }
  return record;
}

/// A service may be replaced or removed by whoever has its key; without a key, by its port.
[[nodiscard]] bool may_change(const SaQuery& query, Guid requester, const Service& service,
                              const Record& wanted) {
  return query.is_trusted ||
         (service.record.service_key == kNoKey ? service.owner == requester
                                               : service.record.service_key == wanted.service_key);
}

/// The request's record, with the default P_Key if it has none.
[[nodiscard]] Record named_record(const SaQuery& query) {
  auto record = query.record<Record>();
  if (!query.has<Record, "ServiceP_Key">()) {
    record.service_pkey = kDefaultPKey;
  }
  if (!query.has<Record, "ServiceKey">()) {
    record.service_key = kNoKey;
  }
  return record;
}

[[nodiscard]] bool names_service(const SaQuery& query) {
  return query.has<Record, "ServiceID">() && query.has<Record, "ServiceGID">();
}

/// The service to delete: the one with the given RID, or, as osmtest requests, the only one that
/// matches and that the requester may remove. Otherwise refuses.
[[nodiscard]] const Service* find_service(const SaQuery& query, Guid requester,
                                          const Services& services, SaAnswer& answer) {
  const auto record = named_record(query);
  if (query.mask() == 0) {
    answer.refuse(SaStatus::RequestInsufficientComponents);
    return nullptr;
  }
  const Service* found = names_service(query) ? services.find(name_of(record)) : nullptr;
  if (!names_service(query)) {
    const ComponentMatcher<Record> matcher{record, query.mask()};
    for (const auto& [name, service] : services.all()) {
      answer.charge();
      if (matcher.matches(service.record) && may_change(query, requester, service, record)) {
        if (found != nullptr) {
          answer.refuse(SaStatus::TooManyRecords);
          return nullptr;
        }
        found = &service;
      }
    }
  }
  if (found == nullptr) {
    answer.refuse(SaStatus::NoRecords);
  }
  return found;
}

}  // namespace

void SubnetAdministration::get_service_records(const SaQuery& query, SaAnswer& answer) {
  services_.handle_timeout(query.now);
  const auto wanted = query.record<Record>();
  const ComponentMatcher<Record> matcher{wanted,
                                         query.mask() & ~wire::kComponent<Record, "ServiceLease">};
  const PartitionKind kind = directory_.kind_of(query.subnet(), query.requester);
  for (const auto& [name, service] : services_.all()) {
    if (answer.is_over()) {
      return;
    }
    answer.charge();
    if ((query.is_trusted || directory_.has_key(kind, service.record.service_pkey)) &&
        matcher.matches(service.record)) {
      answer.add(reported(query, service));
    }
  }
}

void SubnetAdministration::set_service_record(const SaQuery& query, SaAnswer& answer) {
  services_.handle_timeout(query.now);
  auto record = named_record(query);
  if (!names_service(query)) {
    return answer.refuse(SaStatus::RequestInsufficientComponents);
  }
  const PartitionKind kind = directory_.kind_of(query.subnet(), query.requester);
  if (!record.service_pkey.is_valid() ||
      (!query.is_trusted && !directory_.has_key(kind, record.service_pkey))) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  if (!query.has<Record, "ServiceLease">()) {
    record.service_lease = wire::kIndefiniteLease;
  }
  const Guid owner = guid_of(query.requester);
  const Service* const before = services_.find(name_of(record));
  if (before != nullptr && !may_change(query, owner, *before, record)) {
    return answer.refuse(SaStatus::RequestDenied);
  }
  const bool is_own = before != nullptr && before->owner == owner;
  if (!is_own && !services_.has_room_for(owner)) {
    return answer.refuse(SaStatus::NoResources);
  }
  services_.set(record, owner, query.now);
  answer.add(reported(query, *services_.find(name_of(record))));
}

void SubnetAdministration::delete_service_record(const SaQuery& query, SaAnswer& answer) {
  services_.handle_timeout(query.now);
  const Service* const service = find_service(query, guid_of(query.requester), services_, answer);
  if (service == nullptr) {
    return;
  }
  if (!may_change(query, guid_of(query.requester), *service, named_record(query))) {
    return answer.refuse(SaStatus::RequestDenied);
  }
  const ServiceName name = name_of(service->record);
  answer.add(reported(query, *service));
  services_.remove(name);
}

}  // namespace weft::subnet
