// What the port has at SA: its record, its groups, and whom it finds there.

#include <algorithm>
#include <utility>

#include "programs/vnic/datagram_port.h"
#include "wire/mad/component_mask.h"

namespace weft::programs::vnic {
namespace {

// Policy.
constexpr Duration kAgain = Duration::seconds(1);  // after SA has refused, and between looks
constexpr sa::QueryOptions kQuery{.timeout = Duration::seconds(2), .tries = 4};

}  // namespace

void DatagramPort::announce(std::string host, Instant now) {
  host_ = std::move(host);
  wants_announcement_ = true;
  renew_at_ = now;
}

void DatagramPort::withdraw(Instant now) {
  if (!std::exchange(wants_announcement_, false)) {
    return;
  }
  renew_at_ = Instant::never();
  if (!std::exchange(is_announced_, false) || !port().can_query()) {
    return;
  }
  constexpr std::uint64_t kName = wire::kComponent<wire::ServiceRecord, "ServiceID"> |
                                  wire::kComponent<wire::ServiceRecord, "ServiceGID"> |
                                  wire::kComponent<wire::ServiceRecord, "ServiceP_Key">;
  const wire::ServiceRecord record{.service_id = kServiceId,
                                   .service_gid = port().gids.front(),
                                   .service_pkey = port().management_pkey()};
  static_cast<void>(sa_.query_service(
      wire::MadMethod::Delete, record, kName, kQuery, [](sa::QueryId, const auto&, Instant) {},
      now));  // its lease would end it, too
}

void DatagramPort::renew(Instant now) {
  renew_at_ = now + kAgain;
  if (!port().can_query() || !packets_) {
    return;
  }
  const Announcement own{.host = host_,
                         .gid = port().gids.front(),
                         .lid = port().lid,
                         .mad_qp = mads_->qpn(),
                         .packet_qp = packets_->qpn()};
  const auto asked = sa_.query_service(
      wire::MadMethod::Set, to_record(own, port().management_pkey()), registered_components(),
      kQuery,
      [this](sa::QueryId, const sa::Answer<std::vector<wire::ServiceRecord>>& answer, Instant at) {
        if (!wants_announcement_) {
          return;
        }
        renew_at_ = at + (answer ? kRenewal : kAgain);
        if (answer && !std::exchange(is_announced_, true)) {
          handlers_.changed();
        }
      },
      now);
  if (asked) {
    renew_at_ = Instant::never();  // its answer, or that there is none, says when
  }
}

void DatagramPort::look_up(Instant now) {
  if (is_looking_up_ || now < next_look_ || !port().can_query()) {
    return;
  }
  wire::ServiceRecord wanted;
  wanted.service_id = kServiceId;
  const auto asked = sa_.get_services(
      sa::SaClient::Kind::GetTable, wanted, wire::kComponent<wire::ServiceRecord, "ServiceID">,
      kQuery,
      [this](sa::QueryId, const sa::Answer<std::vector<wire::ServiceRecord>>& answer, Instant) {
        is_looking_up_ = false;
        if (answer) {
          take_announced(*answer);
        } else if (answer.error().is_no_records()) {
          take_announced({});
        }
      },
      now);
  is_looking_up_ = asked.has_value();
  next_look_ = now + kAgain;
}

/// Of two that say that they have a LID, the last.
void DatagramPort::take_announced(const std::vector<wire::ServiceRecord>& records) {
  std::map<Lid, Announcement> now_announced;
  for (const wire::ServiceRecord& record : records) {
    if (const auto one = from_record(record)) {
      now_announced.insert_or_assign(one->lid, *one);
    }
  }
  if (now_announced == announced_) {
    return;
  }
  announced_ = std::move(now_announced);
  for (const auto& [lid, one] : announced_) {
    peers_.insert_or_assign(lid, one.packet_qp);
  }
  handlers_.changed();
}

void DatagramPort::set_groups(const std::set<FloodGroup>& groups, Instant now) {
  std::set<Gid> wanted;
  for (const FloodGroup& group : groups) {
    wanted.insert(group_of(group.fabric_id, group.vesw_id));
  }
  for (auto at = groups_.begin(); at != groups_.end();) {
    if (wanted.contains(at->first)) {
      ++at;
      continue;
    }
    if (at->second.id) {
      sa_.leave(*at->second.id, now);
    }
    at = groups_.erase(at);
  }
  for (const Gid& group : wanted) {
    const auto [at, is_new] = groups_.try_emplace(group);
    if (is_new) {
      join(group, at->second, now);
    }
  }
}

void DatagramPort::join(const Gid& group, Membership& membership, Instant now) {
  membership = {};
  const auto joined = sa_.join(
      group_record(group, port().pkeys.empty() ? kDefaultPKey : port().pkeys.front()),
      group_components(),
      [this, group](sa::MembershipId, const sa::Answer<wire::McMemberRecord>& answer, Instant at) {
        take_membership(group, answer, at);
      },
      now);
  if (joined) {
    membership.id = *joined;
  } else {
    membership.join_at = now + kAgain;
  }
}

void DatagramPort::take_membership(const Gid& group, const sa::Answer<wire::McMemberRecord>& answer,
                                   Instant now) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return;
  }
  if (answer) {
    found->second.record = *answer;
  } else {
    found->second = {.join_at = now + kAgain};
  }
  handlers_.changed();
}

std::optional<Lid> DatagramPort::lid_of_group(const Gid& group) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && found->second.record ? std::optional{found->second.record->mlid}
                                                        : std::nullopt;
}

/// So that the daemon leaves the groups when this process is gone, however it ends.
Result<void> DatagramPort::attach() {
  std::map<Gid, Lid> attachments;
  for (const auto& [mgid, membership] : groups_) {
    if (membership.record) {
      attachments.emplace(mgid, membership.record->mlid);
    }
  }
  return (packets_ ? packets_ : mads_)->set_attachments(attachments);
}

void DatagramPort::handle_timeouts(Instant now) {
  if (renew_at_ <= now) {
    renew(now);
  }
  for (auto& [group, membership] : groups_) {
    if (membership.join_at <= now) {
      join(group, membership, now);
    }
  }
  gsi_.handle_timeout(now);
  sa_.handle_timeout(now);
}

Instant DatagramPort::deadline() const {
  Instant first = std::min({gsi_.deadline(), sa_.deadline(), renew_at_});
  for (const auto& [group, membership] : groups_) {
    first = std::min(first, membership.join_at);
  }
  return first;
}

}  // namespace weft::programs::vnic
