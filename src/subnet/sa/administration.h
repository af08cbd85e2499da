#pragma once

// The subnet administration server (IBTA vol 1 §15): answers queries about the subnet, and keeps
// the multicast groups, services and subscriptions that clients register. Pure: it exchanges MADs
// through the management interface of the SM's port and reaches the SM through SubnetControl. Not
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "subnet/sa/budget.h"
#include "subnet/sa/directory.h"
#include "subnet/sa/groups.h"
#include "subnet/sa/query.h"
#include "subnet/sa/services.h"
#include "subnet/sa/subscriptions.h"
#include "subnet/subnet_control.h"
#include "verbs/mtu.h"
#include "wire/mad/notice.h"

namespace weft::subnet {

/// Configuration of the SA: upper bounds (docs/ARCHITECTURE.md, decision 15) and choices that the
/// specification leaves open. All numbers are policy, not from the specification.
struct SaOptions {
  SaGroups::Limits groups{};
  Services::Limits services{};
  Subscriptions::Limits subscriptions{};
  SaBudget::Limits budget{};
  std::size_t answer_bytes{std::size_t{12} << 20};  ///< a longer response becomes TooManyRecords

  /// Create the IPoIB broadcast group of the default partition (RFC 4391 §4) at start, with all HCA
  /// ports as members.
  bool makes_broadcast_group{true};
  verbs::Mtu broadcast_mtu{verbs::Mtu::Mtu2048};
  std::uint8_t broadcast_rate{3};  ///< 10 Gb/s
  QKey broadcast_qkey{0x0B1B};

  std::uint8_t group_life_time{18};  ///< PacketLifeTime of groups created without one; exponent
  Duration report_timeout{Duration::milliseconds(500)};
  unsigned report_retries{3};  ///< then the subscription is dropped
};

/// Statistics since construction; counters never decrease.
struct SaCounters {
  std::uint64_t requests{};
  std::uint64_t wrong_sm_key{};       ///< dropped (§15.4.1.1)
  std::uint64_t unknown_requester{};  ///< dropped: the source LID belongs to no known port
  std::uint64_t refused{};            ///< answered with an error status
  std::uint64_t over_budget{};        ///< answered with BUSY
  std::uint64_t reports{};
  std::uint64_t reports_dropped{};  ///< the management interface was full
  std::uint64_t subscribers_lost{};
  std::uint64_t tree_failures{};  ///< set_multicast_members failed
};

/// MGID of a partition's IPoIB broadcast group, with link-local scope (RFC 4391 §4).
[[nodiscard]] Gid ipoib_broadcast_mgid(PKey pkey);

/// SA server of one subnet. Answers only while its SM is master.
class SubnetAdministration final : public mad::MadHandler, public SubnetObserver {
 public:
  /// `control` and `gsi` must outlive it.
  SubnetAdministration(SubnetControl& control, mad::ManagementInterface& gsi,
                       const SaOptions& options = {});
  ~SubnetAdministration() override;

  /// Registers the SubnAdm agent; fails if the class is already registered.
  [[nodiscard]] Result<void> start();

  const mad::MadMessage* handle(mad::MadRequest& request) override;
  void subnet_changed(const Change& change, Instant now) override;
  void trap_received(const wire::Notice& notice, Instant now) override;
  void state_changed(wire::SmState state, Instant now) override;

  void handle_timeout(Instant now) { services_.handle_timeout(now); }
  [[nodiscard]] Instant deadline() const { return services_.deadline(); }

  [[nodiscard]] const SaGroups& groups() const { return groups_; }
  [[nodiscard]] const Services& services() const { return services_; }
  [[nodiscard]] const Subscriptions& subscriptions() const { return subscriptions_; }
  [[nodiscard]] const SaCounters& counters() const { return counters_; }

 private:
  struct Row;
  using Method = void (SubnetAdministration::*)(const SaQuery&, SaAnswer&);

  // sa_administration.cc
  void answer(const SaQuery& query, SaAnswer& answer);
  [[nodiscard]] static const Row* row_for(std::uint16_t attribute);
  [[nodiscard]] const mad::MadMessage* respond(const mad::MadMessage& request, const SaQuery& query,
                                               const SaAnswer& answer);
  void get_class_port_info(const SaQuery& query, SaAnswer& answer);
  void get_path_records(const SaQuery& query, SaAnswer& answer);
  void forget_registrations();
  [[nodiscard]] Guid guid_of(PortId port) const { return control_.subnet().port(port).guid; }

  // sa_member_records.cc
  void get_member_records(const SaQuery& query, SaAnswer& answer);
  void join_group(const SaQuery& query, SaAnswer& answer);
  void leave_group(const SaQuery& query, SaAnswer& answer);
  [[nodiscard]] SaStatusCode make_group(const SaQuery& query, const wire::McMemberRecord& wanted,
                                        PortId port, wire::McMemberRecord& made);
  void make_broadcast_group();
  void join_broadcast_group();
  std::size_t write_trees(Instant now);

  // sa_service_records.cc
  void get_service_records(const SaQuery& query, SaAnswer& answer);
  void set_service_record(const SaQuery& query, SaAnswer& answer);
  void delete_service_record(const SaQuery& query, SaAnswer& answer);

  // sa_guid_records.cc
  void change_guids(const SaQuery& query, SaAnswer& answer);

  // sa_reports.cc
  void get_inform_info_records(const SaQuery& query, SaAnswer& answer);
  void set_inform_info(const SaQuery& query, SaAnswer& answer);
  void report_gid(wire::Trap trap, const Gid& gid, Instant now);
  void report(const wire::SaNotice& notice, Instant now);
  [[nodiscard]] bool may_see(const Subscription& subscription, const wire::SaNotice& notice) const;
  void send_report(SubscriptionId id, const Subscription& subscription,
                   const wire::SaNotice& notice, Instant now);

  SubnetControl& control_;
  mad::ManagementInterface& gsi_;
  SaOptions options_;
  mad::AgentId agent_{};
  bool is_started_{};
  SaDirectory directory_;
  SaGroups groups_;
  Services services_;
  Subscriptions subscriptions_;
  SaBudget budget_;
  /// Members as last set at the SM. By GUID: a port that comes may have the PortId of one that
  /// went.
  std::map<Lid, std::vector<SaGroups::TreeMember>> trees_;
  SaCounters counters_;
  mad::MadMessage response_;
};

}  // namespace weft::subnet
