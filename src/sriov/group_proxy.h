#pragma once

// The multicast memberships of all functions behind one port, as one. SA knows the port's: the
// union of what its functions have. It is asked only when the union changes; otherwise the
// function gets its answer here (IBTA vol 1 §15.2.5.17). One thread at a time.
//
// Of each group it is known what SA has confirmed and what it may have, which is more after a
// request without an answer. Whatever is missing is joined and whatever is too much is left, again
// and again until SA has answered, so that in the end SA has exactly the union.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/time.h"
#include "sriov/decision.h"
#include "sriov/types.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::sriov {

using JoinStates = Flags<wire::JoinState>;

/// All numbers are policy; timeout and pending requests are mlx4's.
struct GroupLimits {
  std::size_t groups{4096};
  std::size_t groups_of_function{512};
  std::size_t pending_of_function{4};
  Duration timeout{Duration::seconds(2)};  ///< of a request to SA
  unsigned retries{2};                     ///< of a request for a function; a repair goes on
  Duration backoff{Duration::seconds(1)};  ///< before a repair is tried again; doubled each time
  Duration backoff_max{Duration::seconds(60)};
};

enum class GroupState : std::uint8_t { Idle, JoinSent, LeaveSent };
[[nodiscard]] std::string_view name_of(GroupState state);

/// Who asks, and what it may ask for.
struct GroupRequester {
  FunctionId function{};
  Gid gid{};                 ///< its own
  bool has_partition{true};  ///< of the P_Key in the request
};

class GroupProxy {
 public:
  GroupProxy(const GroupLimits& limits, const Gid& port_gid)
      : limits_(limits), port_gid_(port_gid) {}

  /// What requests name from now on.
  void set_port_gid(const Gid& gid) { port_gid_ = gid; }

  /// How many groups the function may be in, instead of GroupLimits::groups_of_function; those it
  /// has beyond stay. None: that again.
  void set_limit(FunctionId function, std::optional<std::size_t> groups);
  /// A Set or Delete of MCMemberRecord, with the function's own transaction ID. The answer comes by
  /// poll_answer: Aggregated, or TooManyGroups, if it says so. MulticastRefused: too many are
  /// pending, or this one is; there is no answer.
  [[nodiscard]] OrReason<Reason> handle_request(const GroupRequester& from,
                                                const wire::SaMad& request, Instant now);
  /// An answer of SA. False if it is not to a request of this object.
  [[nodiscard]] bool handle_answer(const wire::SaMad& answer, Instant now);
  /// The function is gone: its memberships end, what it has asked for is not answered.
  void remove(FunctionId function, Instant now);
  /// SA may have forgotten everything: the manager changed, or asks for registration anew.
  void rejoin_all(Instant now);

  /// Requests to SA, with the port's GID and a transaction ID of kMulticastTag.
  [[nodiscard]] std::optional<wire::SaMad> poll_transmit();
  struct Answer {
    FunctionId function{};
    wire::SaMad mad{};
  };
  [[nodiscard]] std::optional<Answer> poll_answer();
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const;

  /// Memberships of a function, JoinState being its own: what moves to another port with it.
  [[nodiscard]] std::vector<wire::McMemberRecord> memberships_of(FunctionId function) const;
  /// Joins the groups for a function that moved here. Its memberships beyond a limit are lost.
  void adopt(FunctionId function, const std::vector<wire::McMemberRecord>& memberships,
             Instant now);

  /// How many groups the function is in, and in how many it may be.
  [[nodiscard]] std::size_t groups_of(FunctionId function) const;
  [[nodiscard]] std::size_t limit_of(FunctionId function) const;
  /// The union of what functions have; what SA has confirmed of it.
  [[nodiscard]] JoinStates wanted(const Gid& mgid) const;
  [[nodiscard]] JoinStates confirmed(const Gid& mgid) const;
  [[nodiscard]] GroupState state(const Gid& mgid) const;
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  void check_invariants() const;

 private:
  struct Request {
    FunctionId function{};
    wire::SaMad mad{};
    wire::McMemberRecord record{};
  };
  struct Flight {
    JoinStates states{};
    std::optional<Request> request;  ///< none: a repair
    unsigned retries_left{};
    wire::SaMad sent{};
    Instant due;
  };
  struct Group {
    Gid mgid{};  ///< 0 until SA has made one
    std::optional<wire::McMemberRecord> record;
    std::map<FunctionId, JoinStates> members;
    JoinStates confirmed{};
    JoinStates possible{};
    std::deque<Request> queue;
    GroupState state{GroupState::Idle};
    Flight flight;
    Duration backoff{};
    Instant repair_at{};

    [[nodiscard]] JoinStates wanted() const;
    [[nodiscard]] bool needs_repair() const;
    [[nodiscard]] bool is_empty() const;
  };
  using Key = std::uint64_t;

  [[nodiscard]] std::optional<wire::SaStatus> check(const GroupRequester& from,
                                                    const wire::SaMad& request,
                                                    const wire::McMemberRecord& record) const;
  [[nodiscard]] bool is_pending(FunctionId function, std::uint64_t transaction_id) const;
  [[nodiscard]] std::size_t pending_of(FunctionId function) const;
  [[nodiscard]] const Group* find(const Gid& mgid) const;
  [[nodiscard]] Group* find(const Gid& mgid);
  Key add_group(const Gid& mgid);

  void advance(Key key, Instant now);
  void process_join(Key key, const Request& request, Instant now);
  void process_leave(Key key, const Request& request, Instant now);
  void repair(Key key, Instant now);
  void send(Key key, bool is_join, JoinStates states, std::optional<Request> request, Instant now);
  void land(Group& group);
  void give_up(Group& group, Instant now);
  void postpone_repair(Group& group, Instant now);
  void end_join(Key key, const wire::SaMad& answer);
  void name_group(Key key, const wire::McMemberRecord& record);
  void answer(const Request& request, std::uint16_t status, wire::McMemberRecord record,
              JoinStates states);

  GroupLimits limits_;
  Gid port_gid_;
  Key last_key_{};
  std::uint64_t last_transaction_{};
  std::map<FunctionId, std::size_t> limit_of_;  ///< where it is not that of all
  std::map<Key, Group> groups_;
  std::map<Gid, Key> by_mgid_;            ///< those that have a name
  std::map<std::uint64_t, Key> flights_;  ///< by transaction ID
  std::deque<wire::SaMad> to_send_;       // at most one for each flight and retry
  std::deque<Answer> answers_;
};

}  // namespace weft::sriov
