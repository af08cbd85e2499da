#pragma once

// Asks subnet administration (IBTA vol 1 §15) on behalf of a host's kernel side: paths, groups,
// services, subscriptions (R-SA-1..R-SA-10). One SaClient a port, on QP1 of it. Pure: MADs move by
// the port's ManagementInterface, time comes in.
//
// Handlers are called from handle_timeout() only, once for each query (exactly once in all races,
// R-SA-3), in the order in which the answers came. A handler may call everything here but destroy
// the client. One thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/strong.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "sa/local_port.h"
#include "sa/path_cache.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/notice.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/service_record.h"

namespace weft::sa {

using QueryId = Ordered<struct QueryIdTag, std::uint64_t>;
using MembershipId = Ordered<struct MembershipIdTag, std::uint64_t>;
using SubscriptionId = Ordered<struct SubscriptionIdTag, std::uint64_t>;

/// How a query ended without an answer to use (R-SA-1); `compat` maps each to one errno.
enum class QueryFailure : std::uint8_t {
  Cancelled,  ///< -EINTR: by its user
  TimedOut,   ///< -ETIMEDOUT: nobody answered in the time that it had
  NotSent,    ///< -EIO: the port went down, or the answer's segments were given up
  NoPath,     ///< -EHOSTUNREACH: SA knows no path there
  NoGroup,    ///< -EINVAL: SA knows no such multicast group, and makes none
  Refused,    ///< -EINVAL: SA answered with another status
  BadAnswer,  ///< -EIO: what came back is no answer to this query
};

struct QueryError {
  QueryFailure failure{};
  std::uint16_t status{};  ///< of the MAD when SA refused; its high byte is a wire::SaStatus
  std::string reason;

  /// There is no such record: the destination is not reachable from here, the group does not exist.
  [[nodiscard]] bool is_no_records() const {
    return status == static_cast<std::uint16_t>(wire::SaStatus::NoRecords);
  }
};

template <class T>
using Answer = std::expected<T, QueryError>;

/// Records of a query: one for get, any number for get_table.
template <wire::WireType Record>
using RecordsHandler =
    std::function<void(QueryId, const Answer<std::vector<Record>>& records, Instant now)>;

/// For resolve_path(): the first path.
using PathHandler = std::function<void(QueryId, const Answer<wire::PathRecord>& path, Instant now)>;

/// A membership was had, or changed (another MLID after SA was told again), or was lost: then it is
/// over, and the handler is not called again.
using MembershipHandler =
    std::function<void(MembershipId, const Answer<wire::McMemberRecord>& membership, Instant now)>;

using NoticeHandler =
    std::function<void(SubscriptionId, const wire::SaNotice& notice, Instant now)>;

/// How long the whole query may take, over how many requests (R-SA-4).
struct QueryOptions {
  Duration timeout{Duration::seconds(4)};  ///< policy
  unsigned tries{10};
};

/// Bounds (docs/ARCHITECTURE.md, decision 15); policy.
struct SaClientLimits {
  std::size_t queries{1024};  ///< not completed
  std::size_t memberships{1024};
  std::size_t subscriptions{64};
  std::size_t cached_paths{4096};
  Duration path_age{Duration::seconds(600)};  ///< then SA is asked again
  std::size_t waiting_notices{256};           ///< further ones are dropped
  Duration retry{Duration::seconds(1)};       ///< of joins and subscriptions that failed by time
  Duration longest_retry{Duration::seconds(16)};
};

/// What it saw; all only grow.
struct SaClientCounters {
  std::uint64_t queries{};
  std::uint64_t answered{};
  std::uint64_t refused{};
  std::uint64_t timed_out{};
  std::uint64_t cached{};     ///< paths that needed no query
  std::uint64_t coalesced{};  ///< paths that another query was about to bring
  std::uint64_t notices{};
  std::uint64_t notices_dropped{};
};

class SaClient final : private mad::MadHandler {
 public:
  /// `gsi` must outlive it. `on_work`, if any, is called when handle_timeout() is due at once.
  explicit SaClient(mad::ManagementInterface& gsi, const SaClientLimits& limits = {},
                    std::function<void()> on_work = {});
  /// Handlers that were not called until now are not called.
  ~SaClient() override;

  /// How the port is now. A new SM, LID, P_Key or GID, or being asked to register again, makes
  /// cached paths invalid and tells SA of memberships and subscriptions again (R-SA-5). A port that
  /// goes down ends its queries with NotSent.
  void set_port(const LocalPort& port, Instant now);
  [[nodiscard]] const LocalPort& port() const { return port_; }

  /// --- queries. Refused with TryAgain while SA cannot be asked (R-SA-4).

  /// The path for a wish: from the cache, from a query that another has started, or from SA.
  [[nodiscard]] Result<QueryId> resolve_path(const PathWish& wish, const QueryOptions& options,
                                             PathHandler handler, Instant now);

  /// Records with a component mask (wire/mad/component_mask.h): the one that SA chooses, or all.
  enum class Kind : std::uint8_t { Get, GetTable };
  [[nodiscard]] Result<QueryId> get_paths(Kind kind, const wire::PathRecord& wanted,
                                          std::uint64_t mask, const QueryOptions& options,
                                          RecordsHandler<wire::PathRecord> handler, Instant now);
  [[nodiscard]] Result<QueryId> get_members(Kind kind, const wire::McMemberRecord& wanted,
                                            std::uint64_t mask, const QueryOptions& options,
                                            RecordsHandler<wire::McMemberRecord> handler,
                                            Instant now);
  [[nodiscard]] Result<QueryId> get_services(Kind kind, const wire::ServiceRecord& wanted,
                                             std::uint64_t mask, const QueryOptions& options,
                                             RecordsHandler<wire::ServiceRecord> handler,
                                             Instant now);
  /// Get, Set (register) or Delete of a ServiceRecord; InvalidArgument for other methods (R-SA-2).
  [[nodiscard]] Result<QueryId> query_service(wire::MadMethod method,
                                              const wire::ServiceRecord& record, std::uint64_t mask,
                                              const QueryOptions& options,
                                              RecordsHandler<wire::ServiceRecord> handler,
                                              Instant now);

  /// Ends a query with Cancelled; nothing happens when it is complete or never was (R-SA-3).
  void cancel(QueryId query, Instant now);

  /// --- groups (R-SA-10)

  /// Makes the port a member of the group, and keeps it one: SA is told again when it asks for
  /// that. `mask` names what `wanted` says besides MGID and join state; with Q_Key, TClass, P_Key,
  /// SL and FlowLabel in it, a group that does not exist is made. Users of the same group and join
  /// state share a membership. While the port is down the join waits.
  [[nodiscard]] Result<MembershipId> join(const wire::McMemberRecord& wanted, std::uint64_t mask,
                                          MembershipHandler handler, Instant now);
  /// The port leaves with its last user. The handler is not called any more.
  void leave(MembershipId membership, Instant now);
  /// How the port is, or is to be, a member of the group for users here.
  [[nodiscard]] Flags<wire::JoinState> join_states_of(const Gid& mgid) const;
  /// Who else tells SA of this port's memberships: what is held there stays when the last user here
  /// leaves. SA knows ports only, not who asked for them (IBTA vol 1 §15.2.5.17).
  using OtherHolder = std::function<Flags<wire::JoinState>(const Gid& mgid)>;
  void share_memberships_with(OtherHolder other) { other_holder_ = std::move(other); }

  /// --- notices

  /// SA reports what the subscription names (IBTA vol 1 §13.4.8.3) from when it has confirmed it;
  /// kept as memberships are. Refused with Busy if somebody else at the port has the reports.
  [[nodiscard]] Result<SubscriptionId> subscribe(const wire::InformInfo& wanted,
                                                 NoticeHandler handler, Instant now);
  void unsubscribe(SubscriptionId subscription, Instant now);

  /// Forgets cached paths: all, or those to one port.
  void forget_paths() { paths_.clear(); }
  void forget_paths_to(const Gid& dgid) { paths_.erase_to(dgid); }

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] const SaClientCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t queries() const { return queries_.size(); }
  [[nodiscard]] std::size_t memberships() const { return group_of_.size(); }

 private:
  /// Records as they came, one behind the other; copied out of the MAD.
  struct RawRecords {
    std::vector<std::byte> data;
    std::size_t record_bytes{};  // from one to the next
  };
  using RawAnswer = Answer<RawRecords>;
  using RawHandler = std::function<void(QueryId, const RawAnswer& answer, Instant now)>;
  struct Request {
    wire::MadMethod method{};
    wire::SaAttribute attribute{};
    std::uint64_t mask{};
    std::vector<std::byte> record{};
  };
  /// A query that SA is asked, or one that waits for the path of another.
  struct Query {
    Request request{};
    QueryOptions options{};
    Instant end{};
    std::optional<mad::TransactionId> transaction{};  // none: it waits for another, or is answered
    std::optional<PathWish> waits_for{};
    RawHandler handler{};
  };
  /// Users of one path that SA is being asked for.
  struct PathQuestion {
    QueryId query;
    std::map<QueryId, PathHandler> users;
  };

  using GroupKey = std::pair<Gid, std::uint8_t>;  // and the join state
  /// A membership of the port, or a subscription of it: SA is told, and told again.
  enum class Standing : std::uint8_t {
    ToTell,  // from `retry_at` on, as soon as SA can be asked
    Asked,
    Held,
  };
  struct Registration {
    Standing standing{Standing::ToTell};
    QueryId query{};
    Instant retry_at{};
    Duration backoff{};
  };
  struct Group {
    wire::McMemberRecord wanted{};
    std::uint64_t mask{};
    Registration registration{};
    std::optional<wire::McMemberRecord> record{};
    std::map<MembershipId, MembershipHandler> users{};
  };
  struct Subscription {
    wire::InformInfo wanted{};
    Registration registration{};
    NoticeHandler handler{};
  };

  const mad::MadMessage* handle(mad::MadRequest& request) override;

  // sa_client.cc
  [[nodiscard]] Result<void> check_can_ask(std::size_t queries = 1) const;
  [[nodiscard]] mad::MadAddress subnet_manager() const;
  [[nodiscard]] Result<QueryId> start(Request request, const QueryOptions& options,
                                      RawHandler handler, Instant now);
  [[nodiscard]] Result<void> ask(QueryId id, Query& query, Instant now);
  void complete(QueryId id, const mad::Completion& completion);
  void finish(QueryId id, RawAnswer answer);
  void post(std::function<void(Instant)> call);
  void fail_all(QueryFailure failure, std::string_view reason, Instant now);
  void restart_all(Instant now);
  template <wire::WireType Record>
  [[nodiscard]] Result<QueryId> query(wire::MadMethod method, wire::SaAttribute attribute,
                                      const Record& record, std::uint64_t mask,
                                      const QueryOptions& options, RecordsHandler<Record> handler,
                                      Instant now);
  template <wire::WireType Record>
  [[nodiscard]] static Answer<std::vector<Record>> records_of(const RawRecords& raw);
  [[nodiscard]] Result<QueryId> ask_for_path(const PathWish& wish, const QueryOptions& options,
                                             Instant now);
  void take_path(QueryId query, const PathWish& wish,
                 const Answer<std::vector<wire::PathRecord>>& paths, Instant now);
  void leave_question(QueryId id, const PathWish& wish, Instant now);

  // sa_client_registrations.cc
  void tell_all_again(Instant now);
  void tell_due(Instant now);
  void note_failure(Registration& registration, Instant now) const;
  void tell_group(const GroupKey& key, Group& group, Instant now);
  void take_membership(QueryId id, const GroupKey& key,
                       const Answer<std::vector<wire::McMemberRecord>>& told, Instant now);
  void tell_user(MembershipId user, const wire::McMemberRecord& record);
  void tell_subscription(SubscriptionId id, Subscription& subscription, Instant now);
  [[nodiscard]] Instant registrations_deadline() const;

  mad::ManagementInterface& gsi_;
  SaClientLimits limits_;
  std::function<void()> on_work_;
  LocalPort port_;
  mad::AgentId agent_{};
  std::optional<mad::AgentId> report_agent_;
  std::map<QueryId, Query> queries_;
  std::set<std::pair<Instant, QueryId>> ends_;  // of those in queries_ that are not answered
  std::map<PathWish, PathQuestion> questions_;
  PathCache paths_;
  std::map<GroupKey, Group> groups_;
  std::map<MembershipId, GroupKey> group_of_;
  OtherHolder other_holder_;
  std::map<SubscriptionId, Subscription> subscriptions_;
  std::deque<std::function<void(Instant)>> calls_;  // of handlers, in order
  std::size_t notices_waiting_{};
  std::uint64_t last_query_{};
  std::uint64_t last_membership_{};
  std::uint64_t last_subscription_{};
  SaClientCounters counters_;
};

/// The records as one vector of their type.
template <wire::WireType Record>
Answer<std::vector<Record>> SaClient::records_of(const RawRecords& raw) {
  std::vector<Record> records;
  ByteSpan data = raw.data;
  if (!data.empty() && raw.record_bytes < wire::kSizeOf<Record>) {
    return std::unexpected(
        QueryError{.failure = QueryFailure::BadAnswer,
                   .status = 0,
                   .reason = fmt::format("records of {} bytes; a {} has {}", raw.record_bytes,
                                         Record::kName, wire::kSizeOf<Record>)});
  }
  while (data.size() >= wire::kSizeOf<Record>) {
    records.push_back(wire::unpack<Record>(data.template first<wire::kSizeOf<Record>>()));
    data = data.subspan(std::min(raw.record_bytes, data.size()));
  }
  return records;
}

template <wire::WireType Record>
Result<QueryId> SaClient::query(wire::MadMethod method, wire::SaAttribute attribute,
                                const Record& record, std::uint64_t mask,
                                const QueryOptions& options, RecordsHandler<Record> handler,
                                Instant now) {
  static_assert(wire::kSizeOf<Record> <= wire::kSaDataBytes);
  const auto packed = wire::pack(record);
  const bool is_table = method == wire::MadMethod::GetTable;
  return start(
      {
          .method = method,
          .attribute = attribute,
          .mask = mask,
          .record = {packed.begin(), packed.end()}
  },
      options,
      [is_table, handler = std::move(handler)](QueryId id, const RawAnswer& raw, Instant at) {
        if (!handler) {
          return;
        }
        if (!raw) {
          return handler(id, std::unexpected(raw.error()), at);
        }
        auto records = records_of<Record>(*raw);
        if (records && !is_table) {
          records->resize(1);  // behind it is padding
        }
        handler(id, records, at);
      },
      now);
}

}  // namespace weft::sa
