#pragma once

// What a target does about asynchronous events (R-SRPT-3: srpt_event_handler, srpt_srq_event and
// srpt_qp_event), as one table. Pure.

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbs/async_event.h"

namespace weft::programs::srp {

enum class TargetEventAction : std::uint8_t {
  Ignore,
  RefreshPort,  ///< the port's management agent, if it could not be had before
  Establish,    ///< a packet came before the RTU: RDMA-CM is told (IBTA vol 1 §12.9.6)
  Close,        ///< the channel of that QP
  LastReceive,  ///< the channel of that QP, which receives from an SRQ, can be drained
  Report,       ///< in the log: nothing here mends it
  Leave,  ///< the device has gone: sessions end, and the program, or it waits (srpt_remove_one)
};

/// By verbs::AsyncEventType. That a port is down needs nothing: connections go on when it is back.
/// A device that has gone and comes again is another one, which is opened anew. Of an SRQ's own
/// events, iser::SharedReceives is told (srpt_srq_event).
inline constexpr auto kTargetEventActions = std::to_array<TargetEventAction>({
    TargetEventAction::Report,       // CqError
    TargetEventAction::Close,        // QpFatal
    TargetEventAction::Close,        // QpRequestError
    TargetEventAction::Close,        // QpAccessError
    TargetEventAction::Establish,    // CommunicationEstablished
    TargetEventAction::Ignore,       // SqDrained
    TargetEventAction::Ignore,       // PathMigrated
    TargetEventAction::Ignore,       // PathMigrationError
    TargetEventAction::Leave,        // DeviceFatal
    TargetEventAction::RefreshPort,  // PortActive
    TargetEventAction::Ignore,       // PortError
    TargetEventAction::RefreshPort,  // LidChange
    TargetEventAction::RefreshPort,  // PKeyChange
    TargetEventAction::RefreshPort,  // SmChange
    TargetEventAction::Report,       // SrqError
    TargetEventAction::Ignore,       // SrqLimitReached
    TargetEventAction::LastReceive,  // QpLastWqeReached
    TargetEventAction::RefreshPort,  // ClientReregister
    TargetEventAction::RefreshPort,  // GidChange
    TargetEventAction::Ignore,       // WqFatal: a target has no work queues
});

[[nodiscard]] constexpr TargetEventAction action_of(verbs::AsyncEventType event) {
  return kTargetEventActions[static_cast<std::size_t>(event)];
}

}  // namespace weft::programs::srp
