#include "subnet/sa/subscriptions.h"

#include <algorithm>

namespace weft::subnet {
namespace {

constexpr std::uint16_t kAny16 = 0xFFFF;
constexpr std::uint32_t kAnyProducer = 0xFF'FFFF;

/// True if two subscriptions are equivalent, as required to unsubscribe (§13.4.8.3). Ignores
/// Subscribe and RespTimeValue.
[[nodiscard]] bool are_equivalent(const wire::InformInfo& a, const wire::InformInfo& b) {
  return a.gid == b.gid && a.lid_range_begin == b.lid_range_begin &&
         a.lid_range_end == b.lid_range_end && a.is_generic == b.is_generic && a.type == b.type &&
         a.trap_number == b.trap_number && a.producer_type == b.producer_type;
}

}  // namespace

bool matches_notice(const wire::InformInfo& info, const wire::SaNotice& notice) {
  const wire::Notice& what = notice.notice;
  if ((info.is_generic != 0) != what.is_generic ||
      (info.type != kAny16 && info.type != static_cast<std::uint16_t>(what.type)) ||
      (info.trap_number != kAny16 && info.trap_number != what.trap_number) ||
      (info.producer_type != kAnyProducer && info.producer_type != what.producer_type)) {
    return false;
  }
  if (!info.gid.is_zero()) {  // a GID takes precedence over the LID range
    return info.gid == notice.issuer_gid;
  }
  const Lid last = std::max(info.lid_range_begin, info.lid_range_end);  // end 0: a single LID
  return info.lid_range_begin == kPermissiveLid ||
         (what.issuer_lid >= info.lid_range_begin && what.issuer_lid <= last);
}

const Subscription* Subscriptions::find(SubscriptionId id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

std::optional<SubscriptionId> Subscriptions::find(const Subscription& like) const {
  const auto [begin, end] = of_port_.equal_range(like.port);
  for (auto each = begin; each != end; ++each) {
    const Subscription& subscription = all_.at(each->second);
    if (subscription.report_to.qp == like.report_to.qp &&
        are_equivalent(subscription.wanted, like.wanted)) {
      return each->second;
    }
  }
  return std::nullopt;
}

std::size_t Subscriptions::count_of(Guid port) const { return of_port_.count(port); }

bool Subscriptions::has_room_for(Guid port) const {
  return all_.size() < limits_.subscriptions && count_of(port) < limits_.subscriptions_of_port;
}

SubscriptionId Subscriptions::add(const Subscription& subscription) {
  const SubscriptionId id{++last_};
  all_.emplace(id, subscription);
  of_port_.emplace(subscription.port, id);
  return id;
}

void Subscriptions::remove(SubscriptionId id) {
  const auto found = all_.find(id);
  if (found == all_.end()) {
    return;
  }
  const auto [begin, end] = of_port_.equal_range(found->second.port);
  for (auto each = begin; each != end; ++each) {
    if (each->second == id) {
      of_port_.erase(each);
      break;
    }
  }
  all_.erase(found);
}

void Subscriptions::remove_port(Guid port) {
  const auto [begin, end] = of_port_.equal_range(port);
  for (auto each = begin; each != end; ++each) {
    all_.erase(each->second);
  }
  of_port_.erase(begin, end);
}

}  // namespace weft::subnet
