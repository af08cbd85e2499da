#pragma once

#include <array>
#include <cstdint>

#include "hca/types.h"
#include "wire/aeth.h"

namespace weft::hca {

/// What can be wrong with a request to the RC responder, in the order of its checks (IBTA vol 1
/// §9.7.4.1).
enum class RcFault : std::uint8_t {
  None,
  OpcodeSequence,     ///< First/Middle/Last do not follow each other
  OpcodeUnsupported,  ///< reserved or unknown operation
  InvalidXrceth,      ///< no XRC SRQ of the target QP's domain has that number (annex A14)
  NotPermitted,       ///< the QP's access flags lack the operation
  TooManyReads,       ///< more READs and atomics outstanding than responder resources
  MisalignedAtomic,   ///< address not a multiple of 8
  Length,             ///< packet or message length breaks a rule, or exceeds the receive buffer
  ReceiverNotReady,   ///< no receive WQE
  RKeyViolation,      ///< key, range or region access refused
  Invalidation,       ///< the key that a SEND names cannot be invalidated
  LocalQpOperation,   ///< the receive WQE itself is bad (its scatter list)
};

struct RcFaultRow {
  RcFault fault;
  wire::NakCode nak;            ///< meaningless for ReceiverNotReady, which answers with an RNR NAK
  WcStatus receive_completion;  ///< of a receive WQE in use; Success for none
  bool is_fatal;                ///< the responder's QP goes to the error state
  AsyncEventType
      event;  ///< raised when no receive completion tells of it (affiliated asynchronous error)
};

/// Responder error behaviour (IBTA vol 1 §9.9.3, Table 59; R-RVT-20). Choice of the event
/// (§11.6.3.2): "invalid request" for opcodes, "local access violation" for their parameters.
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
      // Same answer as for an R_Key of another PD: the object exists, but must not be accessible.
      {InvalidXrceth,     Nak::RemoteAccessError,      LocalQpOperationError, true,  QpAccessError},
      {NotPermitted,      Nak::InvalidRequest,         LocalQpOperationError, true,  QpRequestError},
      {TooManyReads,      Nak::InvalidRequest,         LocalQpOperationError, true,  QpAccessError},
      {MisalignedAtomic,  Nak::InvalidRequest,         LocalQpOperationError, true,  QpAccessError},
      {Length,            Nak::InvalidRequest,         LocalLengthError,      true,  QpAccessError},
      {ReceiverNotReady,  Nak::PsnSequenceError,       Success,               false, QpRequestError},
      {RKeyViolation,     Nak::RemoteAccessError,      LocalAccessError,      true,  QpAccessError},
      // Class J (IBTA vol 1 §9.9.6.3): no NAK to the peer. The code, which RC and XRC do not have, is
      // how an XRC target's proxy QP reports it to the target (hca/xrc_relay.h).
      {Invalidation,      Nak::InvalidRdRequest,       LocalAccessError,      true,  QpAccessError},
      {LocalQpOperation,  Nak::RemoteOperationalError, LocalProtectionError,  true,  QpFatal},
  });
  // clang-format on
}();

/// Whether the fault is answered by a NAK.
[[nodiscard]] constexpr bool is_answered(RcFault fault) { return fault != RcFault::Invalidation; }

[[nodiscard]] constexpr const RcFaultRow& rc_fault_row(RcFault fault) {
  for (const RcFaultRow& row : kRcFaultTable) {
    if (row.fault == fault) {
      return row;
    }
  }
  return kRcFaultTable.front();
}

}  // namespace weft::hca
