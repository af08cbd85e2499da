#pragma once

#include <array>
#include <cstdint>

#include "hca/types.h"
#include "wire/aeth.h"

namespace weft::hca {

/// Faults of a request at the RC responder, in the order in which they are checked (IBTA vol 1
/// §9.7.4.1).
enum class RcFault : std::uint8_t {
  None,
  OpcodeSequence,     ///< First/Middle/Last do not follow each other
  OpcodeUnsupported,  ///< reserved or unknown operation
  InvalidXrceth,      ///< no XRC SRQ of the target QP's domain has that number (annex A14)
  NotPermitted,       ///< the QP's access flags lack the operation
  TooManyReads,       ///< more outstanding READs and atomics than responder resources
  MisalignedAtomic,   ///< address not a multiple of 8
  Length,             ///< packet or message length breaks a rule, or exceeds the receive buffer
  ReceiverNotReady,   ///< no receive WQE
  RKeyViolation,      ///< key, range or region access refused
  Invalidation,       ///< the key that SEND with Invalidate names cannot be invalidated
  LocalQpOperation,   ///< the receive WQE itself is bad (its scatter list)
};

/// What the responder does about one fault.
struct RcFaultRow {
  RcFault fault;
  wire::NakCode nak;            ///< meaningless for ReceiverNotReady, which answers with an RNR NAK
  WcStatus receive_completion;  ///< of the receive WQE in use; Success: none
  bool is_fatal;                ///< the responder's QP goes to the error state
  AsyncEventType
      event;  ///< raised if no receive completion reports the fault (affiliated asynchronous error)
};

/// The responder's behaviour on errors (IBTA vol 1 §9.9.3, Table 59; R-RVT-20). The events
/// (§11.6.3.2) are "invalid request" for opcodes and "local access violation" for their parameters.
inline constexpr auto kRcFaultTable = [] {
  using enum RcFault;
  using enum WcStatus;
  using enum AsyncEventType;
  using Nak = wire::NakCode;
  // clang-format off
  return std::to_array<RcFaultRow>({
      // fault            NAK                          receive completion     fatal  event
      {OpcodeSequence,    Nak::InvalidRequest,         LocalQpOperationError, true,  QpRequestError},
      {OpcodeUnsupported, Nak::InvalidRequest,         LocalQpOperationError, true,  QpRequestError},
      // The same NAK as for an R_Key of another PD: the SRQ exists, but the peer has no access to
      // it.
      {InvalidXrceth,     Nak::RemoteAccessError,      LocalQpOperationError, true,  QpAccessError},
      {NotPermitted,      Nak::InvalidRequest,         LocalQpOperationError, true,  QpRequestError},
      {TooManyReads,      Nak::InvalidRequest,         LocalQpOperationError, true,  QpAccessError},
      {MisalignedAtomic,  Nak::InvalidRequest,         LocalQpOperationError, true,  QpAccessError},
      {Length,            Nak::InvalidRequest,         LocalLengthError,      true,  QpAccessError},
      {ReceiverNotReady,  Nak::PsnSequenceError,       Success,               false, QpRequestError},
      {RKeyViolation,     Nak::RemoteAccessError,      LocalAccessError,      true,  QpAccessError},
      // Class J (IBTA vol 1 §9.9.6.3): no NAK goes to the peer. The NAK code, which RC and XRC do
      // not use, is how a proxy QP reports the fault to its XRC target (hca/xrc_relay.h).
      {Invalidation,      Nak::InvalidRdRequest,       LocalAccessError,      true,  QpAccessError},
      {LocalQpOperation,  Nak::RemoteOperationalError, LocalProtectionError,  true,  QpFatal},
  });
  // clang-format on
}();

/// True if the responder sends a NAK.
[[nodiscard]] constexpr bool is_answered(RcFault fault) { return fault != RcFault::Invalidation; }

/// The row of a fault other than None.
[[nodiscard]] constexpr const RcFaultRow& rc_fault_row(RcFault fault) {
  for (const RcFaultRow& row : kRcFaultTable) {
    if (row.fault == fault) {
      return row;
    }
  }
  return kRcFaultTable.front();
}

}  // namespace weft::hca
