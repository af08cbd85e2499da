#pragma once

// What iSER needs of RDMA-CM, below both ends of a connection (src/cm/rdma is a body, a test has
// another). An id belongs to one connection.

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "core/qp.h"
#include "verbs/connection_parameters.h"

namespace weft::iser {

/// What RDMA-CM reports of an id, as far as it differs for iSER (the seed's rdma_cm_event_type).
enum class CmEvent : std::uint8_t {
  AddressResolved,
  RouteResolved,
  Established,
  AddressError,
  RouteError,
  ConnectError,
  Unreachable,
  Rejected,
  Disconnected,
  AddressChange,
  TimewaitExit,
  DeviceRemoval,
};

/// The private data is the peer's: of Established what the accept said. Valid during the call.
struct CmReport {
  CmEvent event{};
  ByteSpan private_data{};
};

/// Told of an id's events, never from inside one of its calls. May make any call of the id.
class CmHandler {
 public:
  virtual void handle_cm(const CmReport& report) = 0;

 protected:
  ~CmHandler() = default;
};

/// Destroying it ends its events. After DeviceRemoval the CM has taken it back: no call any more
/// but the destructor.
class CmId {
 public:
  virtual ~CmId() = default;
  /// Then AddressResolved, or AddressError after the timeout at the latest; `address` is the
  /// manager's to read.
  virtual Result<void> resolve_address(std::string_view address, Duration timeout) = 0;
  virtual Result<void> resolve_route(Duration timeout) = 0;
  /// Of the resolved address, or of the request that came: null before.
  [[nodiscard]] virtual core::Device* device() const = 0;
  /// The manager takes the QP from RESET to INIT now, and to RTS with the connection; the QP is
  /// its user's, and outlives the id's events.
  virtual Result<void> set_qp(core::Qp& qp) = 0;
  /// REQ; then Established, or what says why not.
  virtual Result<void> connect(const verbs::ConnectionParameters& parameters) = 0;
  /// REP to the request that this id came with; then Established.
  virtual Result<void> accept(const verbs::ConnectionParameters& parameters) = 0;
  /// DREQ; nothing if there is no connection. Disconnected may follow.
  virtual void disconnect() = 0;
};

}  // namespace weft::iser
