#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/strong.h"
#include "mad/mad_address.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/notice.h"

namespace weft::subnet {

/// Identifies a subscription. Never reused.
using SubscriptionId = Ordered<struct SubscriptionIdTag, std::uint64_t>;

/// An event subscription by InformInfo: the notices wanted and where to report them (IBTA vol 1
/// §13.4.8.3, §13.4.11).
struct Subscription {
  wire::InformInfo wanted{};
  Gid subscriber{};
  Guid port{};
  mad::MadAddress report_to{};
  bool is_trusted{};
};

/// True if the subscription matches the notice. The notice's source is its issuer.
[[nodiscard]] bool matches_notice(const wire::InformInfo& info, const wire::SaNotice& notice);

/// Subscriptions of all ports, with limits. Not thread-safe.
class Subscriptions {
 public:
  struct Limits {  // policy, not from the specification
    std::size_t subscriptions{65536};
    std::size_t subscriptions_of_port{64};
  };
  explicit Subscriptions(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] const std::map<SubscriptionId, Subscription>& all() const { return all_; }
  [[nodiscard]] const Subscription* find(SubscriptionId id) const;
  /// Finds a subscription of the same subscriber for the same notices.
  [[nodiscard]] std::optional<SubscriptionId> find(const Subscription& like) const;
  [[nodiscard]] bool has_room_for(Guid port) const;
  [[nodiscard]] std::size_t count_of(Guid port) const;

  SubscriptionId add(const Subscription& subscription);
  void remove(SubscriptionId id);
  void remove_port(Guid port);

 private:
  Limits limits_;
  std::map<SubscriptionId, Subscription> all_;
  std::multimap<Guid, SubscriptionId> of_port_;
  std::uint64_t last_{};
};

}  // namespace weft::subnet
