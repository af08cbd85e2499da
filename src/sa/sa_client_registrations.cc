// SaClient's memberships and subscriptions: registration with SA and reregistration (§14.4.11).

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "sa/sa_client.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/notice_details.h"

namespace weft::sa {
namespace {

using wire::kComponent;
using wire::McMemberRecord;

constexpr std::uint64_t kJoinComponents = kComponent<McMemberRecord, "MGID"> |
                                          kComponent<McMemberRecord, "PortGID"> |
                                          kComponent<McMemberRecord, "JoinState">;

/// True for failures that are retried: no answer, or the port was down.
[[nodiscard]] bool is_passing(const QueryError& error) {
  return error.failure == QueryFailure::TimedOut || error.failure == QueryFailure::NotSent ||
         error.failure == QueryFailure::Cancelled;
}

/// True if a subscription matches the notice (IBTA vol 1 §13.4.8.3). SA has already matched it
/// against at least one subscription of this port.
[[nodiscard]] bool is_about(const wire::InformInfo& wanted, const wire::Notice& notice) {
  constexpr std::uint16_t kAny = 0xFFFF;
  return (wanted.is_generic != 0) == notice.is_generic &&
         (wanted.trap_number == kAny || wanted.trap_number == notice.trap_number) &&
         (wanted.type == kAny || wanted.type == static_cast<std::uint16_t>(notice.type));
}

}  // namespace

Result<MembershipId> SaClient::join(const McMemberRecord& wanted, std::uint64_t mask,
                                    MembershipHandler handler, Instant now) {
  if (!wanted.mgid.is_multicast() && !wanted.mgid.is_zero()) {
    return fail(ErrorCode::InvalidArgument, "the MGID of a group begins with ff");
  }
  if (wanted.join_state.empty()) {
    return fail(ErrorCode::InvalidArgument, "a join state has to say how the port is a member");
  }
  if (group_of_.size() >= limits_.memberships) {
    return fail(ErrorCode::OutOfMemory, "{} memberships of the port, which is the limit",
                limits_.memberships);
  }
  const GroupKey key{wanted.mgid, wanted.join_state.bits()};
  const MembershipId id{++last_membership_};
  const auto [place, is_new] = groups_.try_emplace(key);
  Group& group = place->second;
  if (is_new) {
    group.wanted = wanted;
    group.mask = mask | kJoinComponents;
    group.registration.retry_at = now;
  }
  group.users.emplace(id, std::move(handler));
  group_of_.emplace(id, key);
  if (group.record) {
    notify_user(id, *group.record);
  }
  register_due(now);
  return id;
}

Flags<wire::JoinState> SaClient::join_states_of(const Gid& mgid) const {
  Flags<wire::JoinState> states{};
  for (auto at = groups_.lower_bound({mgid, 0}); at != groups_.end() && at->first.first == mgid;
       ++at) {
    states = states | at->second.wanted.join_state;
  }
  return states;
}

void SaClient::leave(MembershipId membership, Instant now) {
  const auto found = group_of_.find(membership);
  if (found == group_of_.end()) {
    return;
  }
  const GroupKey key = found->second;
  group_of_.erase(found);
  const auto place = groups_.find(key);
  Group& group = place->second;
  group.users.erase(membership);
  if (!group.users.empty()) {
    return;
  }
  const bool may_be_member =
      group.registration.registration_state != RegistrationState::Unregistered || group.record;
  McMemberRecord left = group.record.value_or(group.wanted);
  left.join_state = group.wanted.join_state;
  if (group.registration.registration_state == RegistrationState::Requested) {
    cancel(group.registration.query, now);
  }
  groups_.erase(place);
  const Flags<wire::JoinState> held =
      join_states_of(left.mgid) |
      (other_owner_ ? other_owner_(left.mgid) : Flags<wire::JoinState>{});
  left.join_state = left.join_state.without(held);
  if (may_be_member && !left.join_state.empty() && port_.can_query()) {
    left.port_gid = port_.gids.front();
    // The result does not matter: a later join registers the state again.
    static_cast<void>(query<McMemberRecord>(wire::MadMethod::Delete,
                                            wire::SaAttribute::McMemberRecord, left,
                                            kJoinComponents, {}, {}, now));
  }
}

Result<SubscriptionId> SaClient::subscribe(const wire::InformInfo& wanted, NoticeHandler handler,
                                           Instant now) {
  if (subscriptions_.size() >= limits_.subscriptions) {
    return fail(ErrorCode::OutOfMemory, "{} subscriptions of the port, which is the limit",
                limits_.subscriptions);
  }
  if (!report_agent_) {
    const auto agent = gsi_.register_agent({.mgmt_class = wire::ManagementClass::SubnAdm,
                                            .class_version = wire::kSaClassVersion,
                                            .methods = mad::methods({wire::MadMethod::Report}),
                                            .listens = true,  // programs of the host may, too
                                            .name = "SA client's reports"},
                                           this);
    if (!agent) {
      return std::unexpected(agent.error());
    }
    report_agent_ = *agent;
  }
  const SubscriptionId id{++last_subscription_};
  Subscription& subscription = subscriptions_[id];
  subscription.wanted = wanted;
  subscription.wanted.qpn = kQp1;
  subscription.registration.retry_at = now;
  subscription.handler = std::move(handler);
  register_due(now);
  return id;
}

void SaClient::unsubscribe(SubscriptionId id, Instant now) {
  const auto found = subscriptions_.find(id);
  if (found == subscriptions_.end()) {
    return;
  }
  wire::InformInfo wanted = found->second.wanted;
  const Registration registration = found->second.registration;
  subscriptions_.erase(found);
  if (registration.registration_state == RegistrationState::Requested) {
    cancel(registration.query, now);
  }
  const bool is_shared = std::ranges::any_of(
      subscriptions_, [&](const auto& other) { return other.second.wanted == wanted; });
  if (registration.registration_state != RegistrationState::Unregistered && !is_shared &&
      port_.can_query()) {
    wanted.subscribe = 0;
    static_cast<void>(query<wire::InformInfo>(wire::MadMethod::Set, wire::SaAttribute::InformInfo,
                                              wanted, 0, {}, {}, now));
  }
}

/// SA knows a subscription by the port's GID and QP1 (IBTA vol 1 §13.4.8.3): the one that an agent
/// of this port takes back is that of all who have the same. Ours is made anew, though a request
/// for it is under way: which of the two SA has met first is unknown.
void SaClient::note_received(const mad::MadAddress& source, ByteSpan mad) {
  constexpr std::size_t kSaHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  const auto header = wire::parse<wire::SaHeader>(mad);
  if (subscriptions_.empty() || source.lid != port_.sm_lid || !header ||
      header->header.mgmt_class != wire::ManagementClass::SubnAdm ||
      header->header.method != wire::MadMethod::GetResp || header->header.status != 0 ||
      header->header.attribute_id != static_cast<std::uint16_t>(wire::SaAttribute::InformInfo)) {
    return;
  }
  const auto ended = wire::parse<wire::InformInfo>(mad.subspan(kSaHeaderBytes));
  if (!ended || ended->subscribe != 0) {
    return;
  }
  for (auto& [id, subscription] : subscriptions_) {
    const wire::InformInfo& wanted = subscription.wanted;
    if ((wanted.is_generic != 0) == (ended->is_generic != 0) && wanted.type == ended->type &&
        wanted.trap_number == ended->trap_number) {
      subscription.registration = {};  // due at once; an answer to an earlier request is outdated
      subscription.was_ended = true;
      if (on_due_) {
        on_due_();
      }
    }
  }
}

void SaClient::watch_gids(GidHandler handler) {
  watches_gids_ = true;
  gid_handler_ = std::move(handler);
}

/// Who has no paths to forget costs SA nothing.
void SaClient::subscribe_to_gids(Instant now) {
  if (!watches_gids_ || std::exchange(is_subscribed_to_gids_, true)) {
    return;
  }
  for (const wire::Trap trap : {wire::Trap::GidInService, wire::Trap::GidOutOfService}) {
    constexpr std::uint16_t kAllTypes = 0xFFFF;
    constexpr std::uint32_t kAllProducers = 0xFF'FFFF;
    constexpr std::uint8_t kResponseTime = 18;  // about 1 s; policy
    const wire::InformInfo wanted{.lid_range_begin = kPermissiveLid,
                                  .is_generic = 1,
                                  .type = kAllTypes,
                                  .trap_number = static_cast<std::uint16_t>(trap),
                                  .resp_time_value = kResponseTime,
                                  .producer_type = kAllProducers};
    // Without it (too many subscriptions, or agents) paths age, and go with the subnet manager.
    static_cast<void>(subscribe(
        wanted,
        [this](SubscriptionId, const wire::SaNotice& notice, Instant at) { take_gid(notice, at); },
        now));
  }
}

void SaClient::take_gid(const wire::SaNotice& notice, Instant now) {
  const Gid gid = wire::unpack<wire::GidNoticeDetails>(notice.notice.details).gid;
  ++counters_.gids;
  paths_.erase_to(gid);
  if (gid_handler_) {
    const GidHandler handler = gid_handler_;  // copied, because it may watch anew
    handler(gid, notice.notice.trap_number == static_cast<std::uint16_t>(wire::Trap::GidInService),
            now);
  }
}

/// Processes a report (IBTA vol 1 §13.4.11). Accepted only from the SM's address, because nobody
/// else forwards notices.
const mad::MadMessage* SaClient::handle(mad::MadRequest& request) {
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  const auto notice =
      wire::parse<wire::SaNotice>(ByteSpan{request.message.mad}.subspan(kHeaderBytes));
  if (request.source.lid != port_.sm_lid || !notice) {
    return nullptr;
  }
  for (const auto& [id, subscription] : subscriptions_) {
    if (!is_about(subscription.wanted, notice->notice)) {
      continue;
    }
    if (notices_waiting_ >= limits_.waiting_notices) {
      ++counters_.notices_dropped;
      continue;
    }
    ++counters_.notices;
    ++notices_waiting_;
    post([this, which = id, reported = *notice](Instant now) {
      --notices_waiting_;
      if (const auto found = subscriptions_.find(which); found != subscriptions_.end()) {
        const NoticeHandler handler = found->second.handler;  // copied, because it may unsubscribe
        handler(which, reported, now);
      }
    });
  }
  return &request.message;
}

/// SA may have lost the registrations, or a different SA took over.
void SaClient::reregister_all(Instant now) {
  const auto again = [&](Registration& registration) {
    if (registration.registration_state == RegistrationState::Requested) {
      cancel(std::exchange(registration.query, QueryId{}), now);
    }
    registration = {.retry_at = now};
  };
  for (auto& [key, group] : groups_) {
    again(group.registration);
  }
  for (auto& [id, subscription] : subscriptions_) {
    again(subscription.registration);
  }
  register_due(now);
}

void SaClient::register_due(Instant now) {
  if (!port_.can_query()) {
    return;
  }
  for (auto& [key, group] : groups_) {
    if (group.registration.registration_state == RegistrationState::Unregistered &&
        group.registration.retry_at <= now) {
      register_group(key, group, now);
    }
  }
  for (auto& [id, subscription] : subscriptions_) {
    if (subscription.registration.registration_state == RegistrationState::Unregistered &&
        subscription.registration.retry_at <= now) {
      register_subscription(id, subscription, now);
    }
  }
}

void SaClient::schedule_retry(Registration& registration, Instant now) const {
  registration.backoff = registration.backoff == Duration{}
                             ? limits_.retry
                             : std::min(registration.backoff * 2, limits_.max_retry);
  registration.registration_state = RegistrationState::Unregistered;
  registration.retry_at = now + registration.backoff;
}

void SaClient::register_group(const GroupKey& key, Group& group, Instant now) {
  McMemberRecord wanted = group.wanted;
  wanted.port_gid = port_.gids.front();
  const auto asked = query<McMemberRecord>(
      wire::MadMethod::Set, wire::SaAttribute::McMemberRecord, wanted, group.mask, {},
      [this, key](QueryId id, const Answer<std::vector<McMemberRecord>>& reported, Instant at) {
        take_membership(id, key, reported, at);
      },
      now);
  if (!asked) {
    return schedule_retry(group.registration, now);
  }
  group.registration.registration_state = RegistrationState::Requested;
  group.registration.query = *asked;
}

void SaClient::take_membership(QueryId id, const GroupKey& key,
                               const Answer<std::vector<McMemberRecord>>& reported, Instant now) {
  const auto found = groups_.find(key);
  if (found == groups_.end() || found->second.registration.query != id) {
    return;  // answer to an outdated request
  }
  Group& group = found->second;
  if (!reported && is_passing(reported.error())) {
    return schedule_retry(group.registration, now);
  }
  const bool has_group = reported && (key.first.is_zero() || reported->front().mgid == key.first) &&
                         reported->front().mlid.is_multicast();
  if (has_group) {
    group.registration = {.registration_state = RegistrationState::Registered,
                          .query = {},
                          .retry_at = {},
                          .backoff = {}};
    const bool may_change_migration = group.record != reported->front();
    group.record = reported->front();
    for (auto user = group.users.begin(); may_change_migration && user != group.users.end();
         ++user) {
      notify_user(user->first, *group.record);
    }
    return;
  }
  const QueryError error = reported ? QueryError{.failure = QueryFailure::BadAnswer,
                                                 .reason = "a membership of another group"}
                                    : reported.error();
  for (auto& [user, handler] : found->second.users) {
    group_of_.erase(user);
    post([user, error, lost = std::move(handler)](Instant at) {
      lost(user, std::unexpected(error), at);
    });
  }
  groups_.erase(found);
}

/// Defers the call of the user's handler, unless the user has left by then.
void SaClient::notify_user(MembershipId user, const McMemberRecord& record) {
  post([this, user, record](Instant now) {
    const auto key = group_of_.find(user);
    if (key != group_of_.end()) {
      // copied, because it may leave
      const MembershipHandler handler = groups_.at(key->second).users.at(user);
      handler(user, record, now);
    }
  });
}

void SaClient::register_subscription(SubscriptionId id, Subscription& subscription, Instant now) {
  wire::InformInfo wanted = subscription.wanted;
  wanted.subscribe = 1;
  const auto asked = query<wire::InformInfo>(
      wire::MadMethod::Set, wire::SaAttribute::InformInfo, wanted, 0, {},
      [this, id](QueryId query_id, const Answer<std::vector<wire::InformInfo>>& reported,
                 Instant at) {
        const auto found = subscriptions_.find(id);
        if (found == subscriptions_.end() || found->second.registration.query != query_id) {
          return;
        }
        if (reported) {
          found->second.registration = {.registration_state = RegistrationState::Registered};
          if (std::exchange(found->second.was_ended, false)) {
            paths_.clear();  // a GID may have come or gone unheard
          }
        } else {
          schedule_retry(found->second.registration, at);
        }
      },
      now);
  if (!asked) {
    return schedule_retry(subscription.registration, now);
  }
  subscription.registration.registration_state = RegistrationState::Requested;
  subscription.registration.query = *asked;
}

Instant SaClient::registrations_deadline() const {
  Instant next = Instant::never();
  if (!port_.can_query()) {
    return next;
  }
  const auto look_at = [&](const Registration& registration) {
    if (registration.registration_state == RegistrationState::Unregistered) {
      next = std::min(next, registration.retry_at);
    }
  };
  for (const auto& [key, group] : groups_) {
    look_at(group.registration);
  }
  for (const auto& [id, subscription] : subscriptions_) {
    look_at(subscription.registration);
  }
  return next;
}

}  // namespace weft::sa
