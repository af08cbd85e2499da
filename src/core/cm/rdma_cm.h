#pragma once

// RDMA-CM as kernel users see it: identifiers that listen, resolve, connect and end, whose events a
// handler takes (IBTA vol 1 annex A11). An interface: a live one stands over librdmacm
// (verbs_driver/rdma_cm.h), tests have one without a network.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "core/qp.h"
#include "verbs/async_event.h"
#include "verbs/connection_parameters.h"
#include "verbs/rdma_cm.h"

namespace weft::core {

class Device;
class RdmaCmId;

/// Where an id without IP addresses listens or connects (AF_IB): nothing of RDMA-CM stands before
/// the private data, as in logins by IB CM itself.
struct NativeAddress {
  Gid gid{};  ///< zero: any port of this host
  PKey pkey{};
  std::uint64_t service_id{};
  friend bool operator==(const NativeAddress&, const NativeAddress&) = default;
};

/// Where an id listens or connects; ports are those of the RDMA port space TCP.
struct RdmaCmAddress {
  IpAddress address{};
  std::uint16_t port{};
  std::optional<NativeAddress> native{};  ///< of ids of create_native_id(), instead of the others
  friend bool operator==(const RdmaCmAddress&, const RdmaCmAddress&) = default;
};

struct RdmaCmEvent {
  verbs::RdmaCmEventType type{};
  /// Of Rejected the reason of the REJ (28: the peer's user), else 0 or a negative error number.
  int status{};
  /// ConnectRequest, Established: what the peer asked for; Rejected: its private data.
  verbs::ConnectionParameters parameters{};
};

/// What happens to an id. One event of an id at a time, in order, while those of other ids go on
/// in other threads; those of a request's id follow when the handler that took it has returned. May
/// sleep, and may call everything of any id, and destroy any id, its own too; who destroys another
/// waits for that one's handler.
class RdmaCmHandler {
 public:
  /// `request` is there with ConnectRequest only, the new id, without a handler's choice the
  /// listener's own; who does not keep it rejects it. With Disconnected the QP is in error.
  virtual void handle_cm_event(RdmaCmId& id, const RdmaCmEvent& event,
                               std::unique_ptr<RdmaCmId> request) = 0;

 protected:
  ~RdmaCmHandler() = default;
};

/// An id (`struct rdma_cm_id`), from which a connection is made; its destruction ends that
/// (`rdma_destroy_id`), and afterwards no event of it is handled any more, unless it is destroyed
/// inside its own handler. The QP belongs to it, unless it was given by use_qp().
class RdmaCmId {
 public:
  virtual ~RdmaCmId() = default;

  /// Null until an address is bound to a device: a resolved one, or that of a request.
  [[nodiscard]] virtual Device* device() const = 0;
  [[nodiscard]] virtual PortNumber port() const = 0;
  [[nodiscard]] virtual Qp* qp() const = 0;
  /// Of a request, or once the address is resolved (`rdma_get_peer_addr`, and the path's DGID).
  [[nodiscard]] virtual std::optional<RdmaCmAddress> peer_address() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<Gid> peer_gid() const { return std::nullopt; }
  /// By then: the GID of this end's port (the path's SGID).
  [[nodiscard]] virtual std::optional<Gid> source_gid() const { return std::nullopt; }
  /// What the events are for from now on; before it returns an event may still go to the other,
  /// unless a listener's handler calls this of the request that it takes.
  virtual void set_handler(RdmaCmHandler& handler) = 0;

  /// Port 0: any that is free. AddressInUse, AddressNotAvailable.
  virtual Result<void> bind(const RdmaCmAddress& address) = 0;
  virtual Result<void> listen(int backlog) = 0;
  /// After listen() or bind(): the port that it has.
  [[nodiscard]] virtual std::uint16_t source_port() const = 0;

  /// Ends with AddressResolved or AddressError; then the route with RouteResolved or RouteError.
  virtual Result<void> resolve_address(const RdmaCmAddress& destination, Duration timeout) = 0;
  virtual Result<void> resolve_route(Duration timeout) = 0;

  /// A QP of the id's device, in INIT; the id makes the further transitions (`rdma_create_qp`).
  virtual Result<Qp*> create_qp(Pd& pd, QpInit& init) = 0;
  /// The user's own QP, in RESET, of the id's device: to INIT now, and further with the connection.
  /// It outlives the id, or destroy_qp(), which then destroys nothing.
  virtual Result<void> use_qp(Qp& qp) = 0;
  /// The QP's requests have ended, or it is in error.
  virtual void destroy_qp() = 0;

  /// Of the packets of its connection, before its route is resolved. NotSupported: none may be
  /// said.
  virtual Result<void> set_type_of_service(std::uint8_t /*type*/) {
    return fail(ErrorCode::NotSupported, "ids have no type of service here");
  }

  /// Ends with Established, Rejected, Unreachable or ConnectError. Sizes of `parameters` that the
  /// QP knows are its own.
  virtual Result<void> connect(const verbs::ConnectionParameters& parameters) = 0;
  /// Of a request, whose QP is made: REP, then Established.
  virtual Result<void> accept(const verbs::ConnectionParameters& parameters) = 0;
  /// REJ by the user, with private data of at most 148 bytes.
  virtual Result<void> reject(ByteSpan private_data) = 0;
  /// DREQ, or DREP where one has come; the QP goes to error. Ends with Disconnected. May be
  /// repeated.
  virtual Result<void> disconnect() = 0;
  /// For events of the QP: CommunicationEstablished before the RTU (`rdma_notify`).
  virtual Result<void> notify(verbs::AsyncEventType event) = 0;
};

/// The service ID by which native ids listen on a port number: that of the port space IB (annex
/// A11), which librdmacm lets anybody have.
[[nodiscard]] constexpr std::uint64_t native_service_id(std::uint16_t port) {
  return 0x0000'0000'013F'0000 | std::uint64_t{port};
}

/// Makes ids: the RDMA-CM of a host.
class RdmaCm {
 public:
  virtual ~RdmaCm() = default;
  virtual Result<std::unique_ptr<RdmaCmId>> create_id(RdmaCmHandler& handler) = 0;
  /// For native addresses. NotSupported: there are none here.
  virtual Result<std::unique_ptr<RdmaCmId>> create_native_id(RdmaCmHandler& /*handler*/) {
    return fail(ErrorCode::NotSupported, "ids have IP addresses only here");
  }
};

/// Whether a Rejected came from the peer's user, whose private data then count
/// (`rdma_consumer_reject_data`, IBTA vol 1 §12.6.7.2).
[[nodiscard]] constexpr bool is_consumer_reject(const RdmaCmEvent& event) {
  constexpr int kConsumerReject = 28;
  return event.type == verbs::RdmaCmEventType::Rejected && event.status == kConsumerReject;
}

/// Of an event (`rdma_event_msg`), for logs.
[[nodiscard]] std::string_view name_of(verbs::RdmaCmEventType type);

}  // namespace weft::core
