#pragma once

// Asks subnet administration (IBTA vol 1 §15) on behalf of a host's kernel side: paths, groups,
// services, subscriptions (R-SA-1..R-SA-10). One SaClient a port, on QP1 of it. Pure: MADs move by
// the port's ManagementInterface, time comes in.
//
// Handlers are called from handle_timeout() only, once for each query (exactly once in all races,
// R-SA-3), in the order in which the answers came. A handler may call everything here but destroy
// the client. One thread.

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
  Refused,    ///< -EINVAL: SA answered with a status
  BadAnswer,  ///< -EIO: what came back is no answer to this query
};

struct QueryError {
  QueryFailure failure{};
  std::uint16_t status{};  ///< of the MAD when Refused; its high byte is a wire::SaStatus
  std::string reason;

  /// There is no such record: the destination is not reachable from here, the group does not exist.
  [[nodiscard]] bool is_no_records() const {
    return failure == QueryFailure::Refused &&
           status == static_cast<std::uint16_t>(wire::SaStatus::NoRecords);
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

/// Bounds (DESIGN.md, decision 15); policy.
struct SaClientLimits {
  std::size_t queries{1024};  ///< not completed
  std::size_t memberships{1024};
  std::size_t subscriptions{64};
  std::size_t cached_paths{4096};
  Duration path_age{Duration::seconds(600)};  ///< then SA is asked again
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
};

/// What a path is asked for by. Zero is no wish.
struct PathWish {
  Gid sgid{};
  Gid dgid{};
  PKey pkey{};  ///< zero: any that both have
  std::uint64_t service_id{};
  std::uint8_t tclass{};
  bool is_reversible{true};
  friend constexpr auto operator<=>(const PathWish& a, const PathWish& b) {
    return a.key() <=> b.key();
  }
  friend constexpr bool operator==(const PathWish& a, const PathWish& b) {
    return a.key() == b.key();
  }

 private:
  [[nodiscard]] constexpr auto key() const {
    return std::tuple{sgid, dgid, pkey.value(), service_id, tclass, is_reversible};
  }
};

class SaClient final : private mad::MadHandler {
 public:
  /// `gsi` must outlive it. `on_work`, if any, is called when handle_timeout() is due at once.
  explicit SaClient(mad::ManagementInterface& gsi, const SaClientLimits& limits = {},
                    std::function<void()> on_work = {});
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
};

}  // namespace weft::sa
