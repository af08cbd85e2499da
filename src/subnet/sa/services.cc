#include "subnet/sa/services.h"

namespace weft::subnet {

const Service* Services::find(const ServiceName& name) const {
  const auto found = services_.find(name);
  return found == services_.end() ? nullptr : &found->second;
}

bool Services::has_room_for(Guid owner) const {
  const auto count = count_of_owner_.find(owner);
  return services_.size() < limits_.services &&
         (count == count_of_owner_.end() || count->second < limits_.services_of_port);
}

void Services::set(const wire::ServiceRecord& record, Guid owner, Instant now) {
  const ServiceName name = name_of(record);
  remove(name);
  const bool ends = record.service_lease != wire::kIndefiniteLease;
  const Instant expiry =
      ends ? now + Duration::seconds(std::int64_t{record.service_lease}) : Instant::never();
  services_.emplace(name, Service{.record = record, .owner = owner, .expiry = expiry});
  ++count_of_owner_[owner];
  if (ends) {
    expiries_.emplace(expiry, name);
  }
}

void Services::remove(const ServiceName& name) {
  const auto found = services_.find(name);
  if (found == services_.end()) {
    return;
  }
  const auto count = count_of_owner_.find(found->second.owner);
  if (--count->second == 0) {
    count_of_owner_.erase(count);
  }
  expiries_.erase({found->second.expiry, name});
  services_.erase(found);
}

Instant Services::deadline() const {
  return expiries_.empty() ? Instant::never() : expiries_.begin()->first;
}

void Services::handle_timeout(Instant now) {
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    remove(ServiceName{expiries_.begin()->second});
  }
}

}  // namespace weft::subnet
