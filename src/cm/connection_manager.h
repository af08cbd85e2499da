#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/events.h"
#include "cm/limits.h"
#include "cm/parameters.h"
#include "cm/types.h"
#include "mad/management_interface.h"

namespace weft::cm {

/// Configuration of a ConnectionManager, fixed at construction.
struct Options {
  Limits limits{};
  std::uint64_t seed{1};  ///< of the communication IDs; use one that nobody can guess
  TimeScale time_scale{};
  /// Treat a REQ as stale while a connection with the same QP or communication ID is in TimeWait
  /// (R-CM-11). If false, a new connection may start at once, as on Linux.
  bool holds_time_wait{true};
  /// How long a REQ or SIDR_REQ is held for a listener that closed recently or that was announced
  /// by `expect_listener`. Zero: reject at once.
  Duration listener_grace{};
};

/// Snapshot of one identifier, for diagnostics and for its user.
struct IdStatus {
  CmId id{};
  State state{};
  std::uint64_t context{};
  bool is_detached{};  ///< destroyed by its user; only protocol obligations remain
  std::optional<PortKey> port{};
  std::uint64_t service_id{};
  std::uint64_t service_mask{};
  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  Guid remote_ca{};
  QpType qp_type{};
  Qpn local_qpn{};
  Qpn remote_qpn{};
  Path primary{};
  std::optional<Path> alternate{};
  Instant deadline{Instant::never()};
};

/// The InfiniBand communication manager of one host (IBTA vol 1 chapter 12; R-CM, R-CML). It
/// establishes, rejects, migrates and releases connections between QPs by exchanging MADs on QP1,
/// and resolves service IDs to UD QPs (SIDR). It formats messages and tracks states; QPs belong to
/// the users (R-CM-3, R-CM-4).
///
/// A call fails, with nothing sent, in a state that does not allow it or with private data that is
/// too long (InvalidArgument), for a port that does not exist (NoSuchDevice), above a limit
/// (OutOfMemory), and for an unknown id (NotFound).
///
/// Pure and single-threaded: calls, MADs (through the management interfaces of its ports) and time
/// go in; MADs and events come out. Events are delivered at the end of the MAD or timeout that
/// caused them. Events caused by a call are delivered by `run` or the next `handle_timeout`; until
/// then `deadline` lies in the past.
class ConnectionManager {
 public:
  explicit ConnectionManager(const Options& options = {});
  /// Sends nothing: a host that vanishes does not notify its peers either.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // --- ports
  /// Registers an agent of class ComMgt at `gsi`, the interface of QP1, which must live until
  /// remove_port or the manager's destruction.
  [[nodiscard]] Result<void> add_port(PortKey port, mad::ManagementInterface& gsi,
                                      const PortAddress& address);
  [[nodiscard]] Result<void> update_port(PortKey port, const PortAddress& address);
  /// Connections of the port keep their state but cannot send any more; their pending messages time
  /// out.
  [[nodiscard]] Result<void> remove_port(PortKey port, Instant now);

  // --- identifiers
  /// Creates an id in state Idle. `observer` must outlive it and all ids created for it as a
  /// listener.
  [[nodiscard]] Result<CmId> create(CmObserver& observer, std::uint64_t context = 0);
  /// Redirects the id's events to `observer`, including those that are not delivered yet.
  [[nodiscard]] Result<void> set_observer(CmId id, CmObserver& observer, std::uint64_t context);
  /// Destroys an id in any state, also from inside its own handler (R-CM-5). The peer is notified
  /// as the state requires (DREQ, DREP or REJ). No further event of the id is delivered. Destroying
  /// a listener also destroys connections that were not yet reported to its user.
  Result<void> destroy(CmId id, Instant now);

  // --- listening
  /// Returns the service ID, allocated if kAssignServiceId was given (R-CML-1, R-CML-2). Fails with
  /// Busy if another listener would match the same requests.
  [[nodiscard]] Result<std::uint64_t> listen(CmId id, const ListenParameters& parameters);
  /// Announces a listener: REQs for this service are held as if its listener had closed just now.
  void expect_listener(std::uint64_t service_id, Instant now);
  /// Whether a SIDR_REQ with these would find a listener.
  [[nodiscard]] bool offers_datagram_service(std::uint64_t service_id, Guid ca_guid,
                                             ByteSpan private_data) const;
  /// Creates or joins a listener that several users share; each of them destroys it once (R-CML-3).
  [[nodiscard]] Result<CmId> insert_listen(CmObserver& observer, std::uint64_t service_id,
                                           std::optional<Guid> ca_guid = std::nullopt);

  // --- connecting
  [[nodiscard]] Result<void> send_req(CmId id, const RequestParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rep(CmId id, const ReplyParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rtu(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_rej(CmId id, const RejectParameters& parameters, Instant now);
  /// Asks the peer to wait 4.096 us * 2^service_timeout for the answer to its REQ, REP or LAP.
  [[nodiscard]] Result<void> send_mra(CmId id, std::uint8_t service_timeout, ByteSpan private_data,
                                      Instant now, MraTime time = MraTime::Now);
  /// Reports an event of the connection's QP. CommunicationEstablished replaces a late RTU; it
  /// fails with AlreadyConnected if the RTU arrived first. PathMigrated: the alternate path became
  /// the primary.
  [[nodiscard]] Result<void> notify(CmId id, AsyncEventType event, Instant now);
  [[nodiscard]] Result<void> establish(CmId id, Instant now) {
    return notify(id, AsyncEventType::CommunicationEstablished, now);
  }
  [[nodiscard]] Result<void> send_dreq(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_drep(CmId id, ByteSpan private_data, Instant now);

  // --- alternate paths
  [[nodiscard]] Result<void> send_lap(CmId id, const Path& alternate, ByteSpan private_data,
                                      Instant now);
  [[nodiscard]] Result<void> send_apr(CmId id, const AprParameters& parameters, Instant now);

  // --- service id resolution
  [[nodiscard]] Result<void> send_sidr_req(CmId id, const SidrRequestParameters& parameters,
                                           Instant now);
  [[nodiscard]] Result<void> send_sidr_rep(CmId id, const SidrReplyParameters& parameters,
                                           Instant now);

  // --- for the QP
  /// Attributes for the QP's transition to `target`. After an alternate path was loaded, Rts yields
  /// that path and a migration state of Rearm.
  [[nodiscard]] Result<QpModification> init_qp_attributes(CmId id, QpState target) const;

  // --- time
  /// Delivers pending events. Does nothing when called from a handler.
  void run(Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  // --- diagnostics
  [[nodiscard]] std::optional<IdStatus> status(CmId id) const;
  /// All ids, including detached ones, in order of creation.
  [[nodiscard]] std::vector<IdStatus> ids() const;
  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] const Limits& limits() const;
  /// Aborts if internal tables contradict each other.
  void check_invariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cm
