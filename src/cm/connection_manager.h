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
#include "cm/qp_attributes.h"
#include "cm/types.h"
#include "mad/management_interface.h"

namespace weft::cm {

struct Options {
  Limits limits{};
  std::uint64_t seed{1};  ///< of communication ids: give each manager one that nobody can guess
  TimeScale time_scale{};
  /// A new connection is stale as long as one with the same QP or communication id is in time-wait
  /// (R-CM-11). Without, it may begin at once, as Linux has it.
  bool holds_time_wait{true};
  /// How long a REQ or SIDR_REQ waits for a listener that went away so lately, or is expected since
  /// then; zero: it is rejected at once.
  Duration listener_grace{};
};

/// What is known of an id, for people and for its user.
struct IdStatus {
  CmId id{};
  State state{};
  std::uint64_t context{};
  bool is_detached{};  ///< destroyed, and only what the protocol still owes is left of it
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

/// The InfiniBand communication manager of one host (IBTA vol 1 chapter 12; R-CM, R-CML): it makes,
/// rejects, moves and ends connections between QPs by messages on QP1, and resolves service ids
/// to datagram QPs. It formats messages and keeps states; the QPs are their users' (R-CM-3,
/// R-CM-4).
///
/// Calls are refused in a wrong state, with nothing sent (InvalidArgument); for private data that
/// is too long; for a port that is not there (NoSuchDevice); above a limit (OutOfMemory). An id
/// that does not exist is NotFound.
///
/// Pure and of one thread: calls, MADs (by the management interfaces of its ports) and time go in,
/// MADs (likewise) and events come out. Events are told at the end of whatever MAD or timeout
/// caused them, and those of calls by `run` or the next `handle_timeout`: `deadline` is then in
/// the past.
class ConnectionManager {
 public:
  explicit ConnectionManager(const Options& options = {});
  /// Says nothing to anybody: hosts that vanish do not.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // --- ports
  /// Registers for the class ComMgt. The interface (QP1's) must live until remove_port, or the end
  /// of the manager.
  [[nodiscard]] Result<void> add_port(PortKey port, mad::ManagementInterface& gsi,
                                      const PortAddress& address);
  [[nodiscard]] Result<void> update_port(PortKey port, const PortAddress& address);
  /// Its connections stay as they are and can send no more; what waits for answers times out.
  [[nodiscard]] Result<void> remove_port(PortKey port, Instant now);

  // --- identifiers
  /// In Idle. `observer` must outlive the id and those that are made for it as a listener.
  [[nodiscard]] Result<CmId> create(CmObserver& observer, std::uint64_t context = 0);
  /// Who is told from now on, of events too that were not told yet.
  [[nodiscard]] Result<void> set_observer(CmId id, CmObserver& observer, std::uint64_t context);
  /// In any state, from inside its own handler too (R-CM-5). The peer is told what
  /// its state asks for; nothing is told about the id any more, and connections that a
  /// listener's user does not know of yet go with it.
  Result<void> destroy(CmId id, Instant now);

  // --- listening
  /// The service id, which is chosen for kAssignServiceId (R-CML-1, R-CML-2). Busy when another
  /// listener would take the same requests.
  [[nodiscard]] Result<std::uint64_t> listen(CmId id, const ListenParameters& parameters);
  /// One will come: a REQ for this service waits for it as for one that went away just now.
  void expect_listener(std::uint64_t service_id, Instant now);
  /// A listener that several users share, each of whom destroys it once (R-CML-3).
  [[nodiscard]] Result<CmId> insert_listen(CmObserver& observer, std::uint64_t service_id,
                                           std::optional<Guid> ca_guid = std::nullopt);

  // --- connecting
  [[nodiscard]] Result<void> send_req(CmId id, const RequestParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rep(CmId id, const ReplyParameters& parameters, Instant now);
  [[nodiscard]] Result<void> send_rtu(CmId id, ByteSpan private_data, Instant now);
  [[nodiscard]] Result<void> send_rej(CmId id, const RejectParameters& parameters, Instant now);
  /// The peer shall wait 4.096 us times 2^service_timeout for the answer to its REQ, REP or LAP.
  [[nodiscard]] Result<void> send_mra(CmId id, std::uint8_t service_timeout, ByteSpan private_data,
                                      Instant now, MraTime time = MraTime::Now);
  /// CommunicationEstablished stands for an RTU that is late; when it had come already, the error
  /// is AlreadyConnected. PathMigrated: the alternate path is the primary one now.
  [[nodiscard]] Result<void> notify(CmId id, QpEvent event, Instant now);
  [[nodiscard]] Result<void> establish(CmId id, Instant now) {
    return notify(id, QpEvent::CommunicationEstablished, now);
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
  /// What the transition to `target` needs. After an alternate path was loaded, RTS means: that
  /// path, and REARM.
  [[nodiscard]] Result<QpAttributes> init_qp_attributes(CmId id, QpState target) const;

  // --- time
  /// Tells what there is to tell. Does nothing from inside a handler.
  void run(Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  // --- to look at
  [[nodiscard]] std::optional<IdStatus> status(CmId id) const;
  /// Of all, detached ones too, in the order of their making.
  [[nodiscard]] std::vector<IdStatus> ids() const;
  [[nodiscard]] const Counters& counters() const;
  [[nodiscard]] const Limits& limits() const;
  /// Aborts when its parts contradict each other.
  void check_invariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cm
