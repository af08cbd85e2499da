#pragma once

// Client of subnet administration (IBTA vol 1 §15) for one port of a host: path queries, multicast
// memberships, service records, event subscriptions (R-SA-1..R-SA-10). Pure: MADs are exchanged
// through the ManagementInterface of the port's QP1; time is a parameter.
//
// Handlers are called from handle_timeout() only, in the order in which the answers arrived, and
// exactly once for each query, also when cancel, timeout and answer race (R-SA-3). A handler may
// call any member, but must not destroy the client. Not thread-safe.

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
#include "sa/path_source.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/notice.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/service_record.h"

namespace weft::sa {

/// Identifies a query. Never reused.
using QueryId = Ordered<struct QueryIdTag, std::uint64_t>;
/// Identifies one user's multicast membership. Never reused.
using MembershipId = Ordered<struct MembershipIdTag, std::uint64_t>;
/// Identifies an event subscription. Never reused.
using SubscriptionId = Ordered<struct SubscriptionIdTag, std::uint64_t>;

/// Reason why a query failed (R-SA-1); `compat` maps each to one errno.
enum class QueryFailure : std::uint8_t {
  Cancelled,  ///< -EINTR: by cancel()
  TimedOut,   ///< -ETIMEDOUT: no answer within the query's timeout
  NotSent,    ///< -EIO: the port went down, or RMPP reassembly failed
  NoPath,     ///< -EHOSTUNREACH: SA has no such path record
  NoGroup,    ///< -EINVAL: the multicast group does not exist and SA does not create it
  Refused,    ///< -EINVAL: any other error status of SA
  BadAnswer,  ///< -EIO: the response does not fit the query
};

/// A failed query: its reason, and the status that SA returned.
struct QueryError {
  QueryFailure failure{};
  std::uint16_t status{};  ///< MAD status if SA refused; its upper byte is a wire::SaStatus
  std::string reason;

  /// SA found no record: the destination is unreachable or the group does not exist.
  [[nodiscard]] bool is_no_records() const {
    return status == static_cast<std::uint16_t>(wire::SaStatus::NoRecords);
  }
};

/// Result of a query.
template <class T>
using Answer = std::expected<T, QueryError>;

/// Completion of a query: one record for Get, any number for GetTable.
template <wire::WireType Record>
using RecordsHandler =
    std::function<void(QueryId, const Answer<std::vector<Record>>& records, Instant now)>;

/// Completion of resolve_path(), with the first path.
using PathHandler = std::function<void(QueryId, const Answer<wire::PathRecord>& path, Instant now)>;

/// Called when a membership is established, changes (for example to another MLID after
/// reregistration) or is lost. After a loss it is not called again.
using MembershipHandler =
    std::function<void(MembershipId, const Answer<wire::McMemberRecord>& membership, Instant now)>;

/// Hears of a GID that has come into service at SA, or has gone out of it.
using GidHandler = std::function<void(const Gid& gid, bool is_in_service, Instant now)>;

/// Receives the notices of a subscription.
using NoticeHandler =
    std::function<void(SubscriptionId, const wire::SaNotice& notice, Instant now)>;

/// Time limit of a whole query, and the number of requests sent within it (R-SA-4).
struct QueryOptions {
  Duration timeout{Duration::seconds(4)};  ///< policy
  unsigned tries{10};
  bool asks_source{true};  ///< of a path: the path source first, if there is one
};

/// Upper bounds (docs/ARCHITECTURE.md, decision 15); policy, not from the specification.
struct SaClientLimits {
  std::size_t queries{1024};  ///< pending
  std::size_t memberships{1024};
  std::size_t subscriptions{64};
  std::size_t cached_paths{4096};
  Duration path_age{Duration::seconds(600)};  ///< lifetime of a cached path
  std::size_t waiting_notices{256};  ///< notices queued for handlers; further ones are dropped
  /// first retry interval of joins and subscriptions that timed out; doubled up to max_retry
  Duration retry{Duration::seconds(1)};
  Duration max_retry{Duration::seconds(16)};
};

/// Statistics since construction; counters never decrease.
struct SaClientCounters {
  std::uint64_t queries{};
  std::uint64_t answered{};
  std::uint64_t refused{};
  std::uint64_t timed_out{};
  std::uint64_t cached{};     ///< paths served from the cache
  std::uint64_t local{};      ///< paths that the path source told
  std::uint64_t coalesced{};  ///< path queries that joined one already in progress
  std::uint64_t notices{};
  std::uint64_t notices_dropped{};
  std::uint64_t gids{};  ///< that came or went, by which cached paths were forgotten
};

/// Queries SA and keeps a port's registrations with SA alive.
class SaClient final : private mad::MadHandler {
 public:
  /// `gsi` must outlive it. `on_due`, if any, is called when handle_timeout() is due at once.
  explicit SaClient(mad::ManagementInterface& gsi, const SaClientLimits& limits = {},
                    std::function<void()> on_due = {});
  /// Drops pending completions without calling their handlers.
  ~SaClient() override;

  /// Updates the port's attributes. A new SM, LID, P_Key or GID, or a client reregistration
  /// request, invalidates the path cache and repeats all memberships and subscriptions at SA
  /// (R-SA-5). If the port goes down, pending queries fail with NotSent.
  void set_port(const LocalPort& port, Instant now);
  [[nodiscard]] const LocalPort& port() const { return port_; }

  /// A source that is asked for single paths before SA is (R-SA-8); null: none. It must outlive the
  /// client or be taken away before. While it is asked the query's own time does not run.
  void set_path_source(PathSource* source, NamedPort name);

  /// --- queries. Fail with TryAgain while SA cannot be queried (R-SA-4).

  /// Finds a path: in the cache, by a query already in progress, or by a new one.
  [[nodiscard]] Result<QueryId> resolve_path(const PathQuery& path_query,
                                             const QueryOptions& options, PathHandler handler,
                                             Instant now);

  /// Queries records by component mask (wire/mad/component_mask.h): one that SA selects (Get), or
  /// all (GetTable).
  enum class Kind : std::uint8_t { Get, GetTable };
  [[nodiscard]] Result<QueryId> get_paths(Kind kind, const wire::PathRecord& wanted,
                                          std::uint64_t mask, const QueryOptions& options,
                                          RecordsHandler<wire::PathRecord> handler, Instant now);
  [[nodiscard]] Result<QueryId> get_members(Kind kind, const wire::McMemberRecord& wanted,
                                            std::uint64_t mask, const QueryOptions& options,
                                            RecordsHandler<wire::McMemberRecord> handler,
                                            Instant now);
  [[nodiscard]] Result<QueryId> get_nodes(Kind kind, const wire::NodeRecord& wanted,
                                          std::uint64_t mask, const QueryOptions& options,
                                          RecordsHandler<wire::NodeRecord> handler, Instant now);
  [[nodiscard]] Result<QueryId> get_services(Kind kind, const wire::ServiceRecord& wanted,
                                             std::uint64_t mask, const QueryOptions& options,
                                             RecordsHandler<wire::ServiceRecord> handler,
                                             Instant now);
  /// Get, Set (register) or Delete of a ServiceRecord; other methods fail with InvalidArgument
  /// (R-SA-2).
  [[nodiscard]] Result<QueryId> query_service(wire::MadMethod method,
                                              const wire::ServiceRecord& record, std::uint64_t mask,
                                              const QueryOptions& options,
                                              RecordsHandler<wire::ServiceRecord> handler,
                                              Instant now);

  /// Get, Set or Delete of the GUIDs of a port's alias block, as query_service (IBTA vol 1
  /// §15.2.5.18).
  [[nodiscard]] Result<QueryId> query_guid_info(wire::MadMethod method,
                                                const wire::GuidInfoRecord& record,
                                                std::uint64_t mask, const QueryOptions& options,
                                                RecordsHandler<wire::GuidInfoRecord> handler,
                                                Instant now);

  /// Completes the query with Cancelled; does nothing if it is complete or unknown (R-SA-3).
  void cancel(QueryId query, Instant now);

  /// --- multicast groups (R-SA-10)

  /// Joins the port to the group and keeps it a member across reregistrations. `mask` names the
  /// components of `wanted` in use besides MGID and join state; with Q_Key, TClass, P_Key, SL and
  /// FlowLabel, SA creates the group if it does not exist. Users of the same group and join state
  /// share one membership. While the port is down, the join is deferred.
  [[nodiscard]] Result<MembershipId> join(const wire::McMemberRecord& wanted, std::uint64_t mask,
                                          MembershipHandler handler, Instant now);
  /// Releases one user's membership; the last one makes the port leave. The handler is not called
  /// again.
  void leave(MembershipId membership, Instant now);
  /// Join states of the port in the group, established or pending.
  [[nodiscard]] Flags<wire::JoinState> join_states_of(const Gid& mgid) const;
  /// Registers another owner of memberships of this port. SA knows memberships by port only (IBTA
  /// vol 1 §15.2.5.17), so join states that the other owner holds are kept when the last user here
  /// leaves.
  using OtherOwner = std::function<Flags<wire::JoinState>(const Gid& mgid)>;
  void set_other_owner(OtherOwner other) { other_owner_ = std::move(other); }

  /// --- event forwarding

  /// Subscribes to notices (IBTA vol 1 §13.4.8.3); reports start when SA has confirmed. Kept across
  /// reregistrations, and when another agent of the port, of a program for instance, takes back the
  /// same, since SA knows subscriptions by the port. Other agents may receive the reports as well.
  [[nodiscard]] Result<SubscriptionId> subscribe(const wire::InformInfo& wanted,
                                                 NoticeHandler handler, Instant now);
  void unsubscribe(SubscriptionId subscription, Instant now);

  /// From its first path on the client subscribes to notices of GIDs that come and go (traps 64 and
  /// 65, IBTA vol 1 §14.2.5.1), and forgets the cached paths to each. `handler`, if any, hears of
  /// it afterwards.
  void watch_gids(GidHandler handler = {});

  /// Invalidates cached paths: all, or those to one GID.
  void clear_paths() { paths_.clear(); }
  void clear_paths_to(const Gid& dgid) { paths_.erase_to(dgid); }

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] const SaClientCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t queries() const { return queries_.size(); }
  [[nodiscard]] std::size_t memberships() const { return group_of_.size(); }

 private:
  /// Records copied out of the response MAD, each at a multiple of record_bytes.
  struct RawRecords {
    std::vector<std::byte> data;
    std::size_t record_bytes{};  // distance between records
  };
  using RawAnswer = Answer<RawRecords>;
  using RawHandler = std::function<void(QueryId, const RawAnswer& answer, Instant now)>;
  struct Request {
    wire::MadMethod method{};
    wire::SaAttribute attribute{};
    std::uint64_t mask{};
    std::vector<std::byte> record{};
  };
  /// A query sent to SA, or one that waits for the same path as another query.
  struct Query {
    Request request{};
    QueryOptions options{};
    Instant end{};
    // none: waits for another query, or is answered
    std::optional<mad::TransactionId> transaction{};
    std::optional<PathQuery> waits_for{};
    std::optional<PathSource::QuestionId> question{};  // asked of the path source instead
    std::optional<PathQuery> asks_for{};               // on behalf of those that wait for it
    RawHandler handler{};
  };
  /// A path query in progress, and all callers that wait for it.
  struct PendingPathQuery {
    QueryId query;
    std::map<QueryId, PathHandler> users;
  };

  using GroupKey = std::pair<Gid, std::uint8_t>;  // MGID and join state
  /// State of a registration (membership or subscription) at SA, which is repeated when SA asks for
  /// it.
  enum class RegistrationState : std::uint8_t {
    Unregistered,  // to be sent at `retry_at`, as soon as SA can be queried
    Requested,
    Registered,
  };
  struct Registration {
    RegistrationState registration_state{RegistrationState::Unregistered};
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
    bool was_ended{};  // by another agent of the port: notices may have been missed since
    NoticeHandler handler{};
  };

  const mad::MadMessage* handle(mad::MadRequest& request) override;

  // sa_client.cc
  [[nodiscard]] Result<void> check_can_query(std::size_t queries = 1) const;
  [[nodiscard]] mad::MadAddress subnet_manager() const;
  [[nodiscard]] Result<QueryId> start(Request request, const QueryOptions& options,
                                      RawHandler handler, Instant now);
  [[nodiscard]] Result<void> send_query(QueryId id, Query& query, Instant now);
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
  [[nodiscard]] Result<QueryId> start_path_query(const PathQuery& path_query,
                                                 const QueryOptions& options, Instant now);
  void take_path(QueryId query, const PathQuery& path_query,
                 const Answer<std::vector<wire::PathRecord>>& paths, Instant now);
  void leave_path_query(QueryId id, const PathQuery& path_query, Instant now);

  // sa_client_source.cc
  [[nodiscard]] bool is_for_source(const Query& query) const;
  [[nodiscard]] std::optional<wire::PathRecord> known_to_source(const Query& query, Instant now);
  [[nodiscard]] bool ask_source(QueryId id, Query& query, Instant now);
  void take_from_source(QueryId id, const std::optional<wire::PathRecord>& path, Instant now);
  void end_question(QueryId id, QueryError error);
  [[nodiscard]] bool is_asking_source(QueryId id) const;

  // sa_client_registrations.cc
  void reregister_all(Instant now);
  void register_due(Instant now);
  void schedule_retry(Registration& registration, Instant now) const;
  void register_group(const GroupKey& key, Group& group, Instant now);
  void take_membership(QueryId id, const GroupKey& key,
                       const Answer<std::vector<wire::McMemberRecord>>& reported, Instant now);
  void notify_user(MembershipId user, const wire::McMemberRecord& record);
  void register_subscription(SubscriptionId id, Subscription& subscription, Instant now);
  void note_received(const mad::MadAddress& source, ByteSpan mad);
  void subscribe_to_gids(Instant now);
  void take_gid(const wire::SaNotice& notice, Instant now);
  [[nodiscard]] Instant registrations_deadline() const;

  mad::ManagementInterface& gsi_;
  SaClientLimits limits_;
  std::function<void()> on_due_;
  LocalPort port_;
  PathSource* path_source_{};
  NamedPort name_;
  std::uint32_t snooper_{};  // for what SA answers to other agents of the port
  mad::AgentId agent_{};
  std::optional<mad::AgentId> report_agent_;
  std::map<QueryId, Query> queries_;
  std::set<std::pair<Instant, QueryId>> ends_;  // of unanswered queries
  std::map<PathQuery, PendingPathQuery> path_queries_;
  PathCache paths_;
  std::map<GroupKey, Group> groups_;
  std::map<MembershipId, GroupKey> group_of_;
  OtherOwner other_owner_;
  std::map<SubscriptionId, Subscription> subscriptions_;
  std::deque<std::function<void(Instant)>> calls_;  // pending calls of handlers, in order
  std::size_t notices_waiting_{};
  bool watches_gids_{};
  bool is_subscribed_to_gids_{};
  GidHandler gid_handler_;
  std::uint64_t last_query_{};
  std::uint64_t last_membership_{};
  std::uint64_t last_subscription_{};
  SaClientCounters counters_;
};

/// Converts raw records to their type.
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
          records->resize(1);  // the rest of the MAD is padding
        }
        handler(id, records, at);
      },
      now);
}

}  // namespace weft::sa
