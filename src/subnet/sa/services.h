#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/identifiers.h"
#include "base/time.h"
#include "wire/mad/service_record.h"

namespace weft::subnet {

/// Key of a service record (its RID, IBTA vol 1 §15.2.5.14).
struct ServiceName {
  std::uint64_t id{};
  Gid gid{};
  std::uint16_t pkey{};
  friend constexpr auto operator<=>(const ServiceName&, const ServiceName&) = default;
};
[[nodiscard]] inline ServiceName name_of(const wire::ServiceRecord& record) {
  return {.id = record.service_id, .gid = record.service_gid, .pkey = record.service_pkey.value()};
}

/// A registered service.
struct Service {
  wire::ServiceRecord record{};
  Guid owner{};  ///< GUID of the port that registered it
  Instant expiry{Instant::never()};
};

/// Services registered with SA, each with a lease. Not thread-safe.
class Services {
 public:
  struct Limits {  // policy, not from the specification
    std::size_t services{65536};
    std::size_t services_of_port{1024};
  };
  explicit Services(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] const std::map<ServiceName, Service>& all() const { return services_; }
  [[nodiscard]] const Service* find(const ServiceName& name) const;
  [[nodiscard]] bool has_room_for(Guid owner) const;

  /// Adds the service or replaces the one with the same key; its lease starts now.
  void set(const wire::ServiceRecord& record, Guid owner, Instant now);
  void remove(const ServiceName& name);

  /// Earliest end of a lease.
  [[nodiscard]] Instant deadline() const;
  /// Removes services whose lease has ended.
  void handle_timeout(Instant now);

 private:
  Limits limits_;
  std::map<ServiceName, Service> services_;
  std::map<Guid, std::size_t> count_of_owner_;
  std::set<std::pair<Instant, ServiceName>> expiries_;
};

}  // namespace weft::subnet
