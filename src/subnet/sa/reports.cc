// SubnetAdministration: subscriptions and reports (IBTA vol 1 §13.4.11, §15.4.3).

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "subnet/sa/administration.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/notice_details.h"

namespace weft::subnet {
namespace {

using wire::SaStatus;
using wire::Trap;

/// Traps 256 to 259 disclose keys, and are reported to trusted subscribers only (C15-0.2-1.16).
[[nodiscard]] bool is_security_trap(std::uint16_t trap) {
  return trap >= static_cast<std::uint16_t>(Trap::BadMKey) &&
         trap <= static_cast<std::uint16_t>(Trap::BadPKeyAtSwitch);
}

constexpr std::uint32_t kClassManager = 4;  // ProducerType (§13.4.8.2)

}  // namespace

void SubnetAdministration::get_inform_info_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::InformInfoRecord;
  const ComponentMatcher<Record> matcher{query.record<Record>(), query.mask()};
  std::map<Guid, std::uint16_t> enumeration;  // per subscriber, in order of subscription
  for (const auto& [id, subscription] : subscriptions_.all()) {
    answer.charge();
    const std::uint16_t number = enumeration[subscription.port]++;
    const auto port = query.subnet().find_port(subscription.port);
    if (port && query.can_see(*port) && !answer.is_over()) {
      const Record record{.subscriber_gid = subscription.subscriber,
                          .enumeration = number,
                          .inform_info = subscription.wanted};
      if (matcher.matches(record)) {
        answer.add(record);
      }
    }
  }
}

void SubnetAdministration::set_inform_info(const SaQuery& query, SaAnswer& answer) {
  auto info = query.record<wire::InformInfo>();
  const bool has_bad_range = info.gid.is_zero() && info.lid_range_begin != kPermissiveLid &&
                             info.lid_range_end != Lid{} &&
                             info.lid_range_end < info.lid_range_begin;
  if (info.subscribe > 1 || has_bad_range) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  if (!info.gid.is_zero()) {
    const auto port = directory_.find_gid(query.subnet(), info.gid);
    if (info.subscribe == 1 && (!port || !query.can_see(*port))) {
      return answer.refuse(SaStatus::RequestInvalidGid);
    }
  }
  if (!query.is_trusted && info.is_generic != 0 && is_security_trap(info.trap_number)) {
    return answer.refuse(SaStatus::RequestDenied);
  }
  const bool subscribes = info.subscribe == 1;
  info.qpn = query.source.qp;  // destination of reports (Table 120)
  const Subscription subscription{.wanted = info,
                                  .subscriber = query.subnet().gid_of(query.requester),
                                  .port = guid_of(query.requester),
                                  .report_to = query.source,
                                  .is_trusted = query.is_trusted};
  const auto before = subscriptions_.find(subscription);
  if (!subscribes && !before) {
    return answer.refuse(SaStatus::RequestInvalid);
  }
  if (before) {
    subscriptions_.remove(*before);
  }
  if (subscribes) {
    if (!subscriptions_.has_room_for(subscription.port)) {
      return answer.refuse(SaStatus::NoResources);
    }
    subscriptions_.add(subscription);
  }
  answer.add(info);
}

void SubnetAdministration::trap_received(const wire::Notice& notice, Instant now) {
  wire::SaNotice reported{.notice = notice};
  if (const auto issuer = control_.subnet().find_lid(notice.issuer_lid)) {
    reported.issuer_gid = control_.subnet().gid_of(*issuer);
  }
  report(reported, now);
}

/// Reports traps 64 to 67, which the SM issues (§14.2.5.1).
void SubnetAdministration::report_gid(Trap trap, const Gid& gid, Instant now) {
  if (subscriptions_.all().empty() || !control_.subnet().contains(control_.sm_port().node)) {
    return;
  }
  const PortId sm = control_.sm_port();
  wire::SaNotice notice{
      .notice = {.type = wire::NoticeType::SubnetManagement,
                 .producer_type = kClassManager,
                 .trap_number = static_cast<std::uint16_t>(trap),
                 .issuer_lid = control_.subnet().port(sm).info.lid},
      .issuer_gid = control_.subnet().gid_of(sm)
  };
  notice.notice.details = wire::pack(wire::GidNoticeDetails{.gid = gid});
  report(notice, now);
}

void SubnetAdministration::report(const wire::SaNotice& notice, Instant now) {
  directory_.refresh(control_.subnet());
  for (const auto& [id, subscription] : subscriptions_.all()) {
    if (matches_notice(subscription.wanted, notice) && may_see(subscription, notice)) {
      send_report(id, subscription, notice, now);
    }
  }
}

/// A subscriber receives reports only about ports and groups in its partitions (§15.4.1.2).
bool SubnetAdministration::may_see(const Subscription& subscription,
                                   const wire::SaNotice& notice) const {
  const Subnet& subnet = control_.subnet();
  const auto subscriber = subnet.find_port(subscription.port);
  if (!subscriber) {
    return false;
  }
  if (subscription.is_trusted || !notice.notice.is_generic) {
    return true;
  }
  const auto shares = [&](PortId port) {
    return directory_
        .shared_key(directory_.kind_of(subnet, *subscriber), directory_.kind_of(subnet, port))
        .has_value();
  };
  const Gid gid = wire::unpack<wire::GidNoticeDetails>(notice.notice.details).gid;
  switch (static_cast<Trap>(notice.notice.trap_number)) {
    case Trap::BadMKey:
    case Trap::BadPKey:
    case Trap::BadQKey:
    case Trap::BadPKeyAtSwitch:
      return false;
    case Trap::MulticastGroupCreated: {
      const SaGroup* const group = groups_.find(gid);
      return group != nullptr &&
             directory_.has_key(directory_.kind_of(subnet, *subscriber), group->properties.pkey);
    }
    case Trap::GidInService: {
      const auto port = directory_.find_gid(subnet, gid);
      return port && shares(*port);
    }
    case Trap::GidOutOfService:  // the port or the group's members no longer exist
    case Trap::MulticastGroupDeleted:
      return true;
    case Trap::LinkStateChange:
    case Trap::LocalLinkIntegrity:
    case Trap::ExcessiveBufferOverrun:
    case Trap::FlowControlUpdate:
    case Trap::CapabilityMaskChange:
    case Trap::SystemImageGuidChange:
      break;
  }
  const auto issuer = subnet.find_lid(notice.notice.issuer_lid);
  return issuer && shares(*issuer);
}

void SubnetAdministration::send_report(SubscriptionId id, const Subscription& subscription,
                                       const wire::SaNotice& notice, Instant now) {
  if (!is_started_) {
    return;
  }
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  mad::MadMessage message;
  wire::SaHeader header;
  header.header.method = wire::MadMethod::Report;
  header.header.attribute_id = wire::kAttributeNotice;
  wire::pack(header, std::span{message.mad}.first<kHeaderBytes>());
  wire::pack(notice, std::span{message.mad}.subspan<kHeaderBytes, wire::kSizeOf<wire::SaNotice>>());
  const auto sent = gsi_.send(
      agent_, subscription.report_to, std::move(message),
      {.timeout = options_.report_timeout, .retries = options_.report_retries},
      [this, id](const mad::Completion& completion) {
        if (completion.status == mad::TransactionStatus::TimedOut &&
            subscriptions_.find(id) != nullptr) {
          ++counters_.subscribers_lost;
          subscriptions_.remove(id);
        }
      },
      now);
  if (sent) {
    ++counters_.reports;
  } else {
    ++counters_.reports_dropped;
  }
}

}  // namespace weft::subnet
