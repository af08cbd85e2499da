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

/// What names a service (IBTA vol 1 §15.2.5.14: its RID).
struct ServiceName {
  std::uint64_t id{};
  Gid gid{};
  std::uint16_t pkey{};
  friend constexpr auto operator<=>(const ServiceName&, const ServiceName&) = default;
};
[[nodiscard]] inline ServiceName name_of(const wire::ServiceRecord& record) {
  return {.id = record.service_id, .gid = record.service_gid, .pkey = record.service_pkey.value()};
}

struct Service {
  wire::ServiceRecord record{};
  Guid owner{};  ///< the port that registered it
  Instant expiry{Instant::never()};
};

/// The services that ports offer, each until its lease ends.
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

  /// New, or in place of the one of that name; its lease begins now.
  void set(const wire::ServiceRecord& record, Guid owner, Instant now);
  void remove(const ServiceName& name);

  /// When the next lease ends.
  [[nodiscard]] Instant deadline() const;
  /// Drops what has expired.
  void handle_timeout(Instant now);

 private:
  Limits limits_;
  std::map<ServiceName, Service> services_;
  std::map<Guid, std::size_t> count_of_owner_;
  std::set<std::pair<Instant, ServiceName>> expiries_;
};

}  // namespace weft::subnet
