#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "core/mad/mad_port.h"
#include "core/sa/sa_service.h"
#include "sa/sa_client.h"

namespace weft::core {

class SaPort;

/// Identifies a query of one user (`ib_sa_path_rec_get`'s return value). Never reused.
using SaQueryId = Ordered<struct SaQueryIdTag, std::uint64_t>;

/// How a query ended: the record, or why there is none. Interrupted: it was cancelled; TimedOut;
/// Io: it could not be sent, or the answer made no sense; InvalidArgument: SA refused it. Where SA
/// has no such record the error is the asker's own (R-SA-7): NetworkUnreachable for a path,
/// NotFound for a multicast group.
template <class Record>
using SaHandler = std::function<void(const Result<Record>& record)>;

/// Where a query goes, and how long it may take; the time is divided into up to ten tries.
struct SaAsk {
  Device& device;
  PortNumber port{};
  Duration timeout{Duration::seconds(4)};
};

/// A port's membership in a multicast group, as one user has it (`struct ib_sa_multicast`).
class SaMulticast final : private MadUser {
 public:
  using Handler = std::function<void(SaMulticast&, const Result<wire::McMemberRecord>& record)>;
  SaMulticast(SaPort& port, Handler handler) : port_(&port), handler_(std::move(handler)) {}

 private:
  friend class SaPort;
  friend class SaUser;
  void lose_port();  // with the port locked
  void tell(const Result<wire::McMemberRecord>& record);

  SaPort* port_;  // null: the port has gone
  Handler handler_;
  std::uint64_t number_{};  // of the port
  sa::MembershipId id_{};
  std::atomic<bool> is_left_{};
};

/// A user of subnet administration, as an upper-layer protocol is (`struct ib_sa_client`): made is
/// ib_sa_register_client, destroyed ib_sa_unregister_client. Any thread. Handlers are called one
/// after the other for each port, without locks, each once for each query, whatever raced; they may
/// ask and cancel, but not destroy the user.
class SaUser final : private MadUser {
 public:
  explicit SaUser(SaService& service) : service_(service) {}
  /// Waits until all its queries are done and their handlers have returned (a fence, R-SA-6): who
  /// does not want to wait that long cancels them first. Its memberships are free before.
  ~SaUser();

  // --- queries (R-SA-1, R-SA-2). A call that fails calls no handler: NoSuchDevice where the port
  // has no SA client, TryAgain while it knows no subnet manager, OutOfMemory, InvalidArgument.
  Result<SaQueryId> get_path(const SaAsk& ask, const wire::PathRecord& wanted, std::uint64_t mask,
                             SaHandler<wire::PathRecord> handler);
  /// The same by a key, from the port's cache where it is there.
  Result<SaQueryId> resolve_path(const SaAsk& ask, const sa::PathQuery& wanted,
                                 SaHandler<wire::PathRecord> handler);
  /// Get, Set or Delete.
  Result<SaQueryId> query_service(const SaAsk& ask, wire::MadMethod method,
                                  const wire::ServiceRecord& record, std::uint64_t mask,
                                  SaHandler<wire::ServiceRecord> handler);
  /// The alias GUIDs of a port, as query_service().
  Result<SaQueryId> query_guid_info(const SaAsk& ask, wire::MadMethod method,
                                    const wire::GuidInfoRecord& record, std::uint64_t mask,
                                    SaHandler<wire::GuidInfoRecord> handler);
  Result<SaQueryId> get_member(const SaAsk& ask, const wire::McMemberRecord& wanted,
                               std::uint64_t mask, SaHandler<wire::McMemberRecord> handler);

  /// The query's handler is called with Interrupted; of one that is done nothing happens (R-SA-3).
  void cancel(SaQueryId query);

  // --- multicast (R-SA-10)
  /// Joins the port to a group (`ib_sa_join_multicast`); all users of a port share one membership
  /// at SA. `handler` is called when it stands, when it changes since SA was told again, and at
  /// last when it is lost.
  Result<SaMulticast*> join(Device& device, PortNumber port, const wire::McMemberRecord& wanted,
                            std::uint64_t mask, SaMulticast::Handler handler);
  /// The last user's makes the port leave (`ib_sa_free_multicast`). On return the membership's
  /// handler neither runs nor will, so that this is not to be called from inside it.
  void free(SaMulticast& membership);

  [[nodiscard]] std::size_t queries() const;

 private:
  struct Pending {
    SaPort* port{};
    sa::QueryId query{};
  };
  /// Starts by `start(client, options, done, now)`, where `done` takes sa::Answer of what
  /// `record_of` makes a record.
  template <class Record, class Start>
  Result<SaQueryId> begin(const SaAsk& ask, SaHandler<Record> handler, Start start);
  template <class Record>
  void finish(SaQueryId id, SaPort& port, const SaHandler<Record>& handler, Result<Record> record);

  SaService& service_;
  std::uint64_t last_query_{};  // under the lock of the MadService, as what follows
  std::map<SaQueryId, Pending> pending_;
};

}  // namespace weft::core
