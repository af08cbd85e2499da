#pragma once

#include <array>
#include <cstdint>

#include "hca/types.h"
#include "wire/aeth.h"

namespace weft::hca {

/// What the RC responder can find wrong with a request, in the order of its checks (IBTA vol 1
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

/// What each means (IBTA vol 1 §9.9.3, Table 59: responder error behaviour; R-RVT-20). Which event:
/// §11.6.3.2, "invalid request" is about opcodes, "local access violation" about what they ask for.
inline constexpr auto kRcFaultTable = std::to_array<RcFaultRow>({
    {RcFault::OpcodeSequence,    wire::NakCode::InvalidRequest,         WcStatus::LocalQpOperationError, true,
     AsyncEventType::QpRequestError                                                                                                           },
    {RcFault::OpcodeUnsupported, wire::NakCode::InvalidRequest,         WcStatus::LocalQpOperationError,
     true,                                                                                                      AsyncEventType::QpRequestError},
    // As an R_Key that is not the PD's: something that exists may not be reached from here.
    {RcFault::InvalidXrceth,     wire::NakCode::RemoteAccessError,      WcStatus::LocalQpOperationError,
     true,                                                                                                      AsyncEventType::QpAccessError },
    {RcFault::NotPermitted,      wire::NakCode::InvalidRequest,         WcStatus::LocalQpOperationError, true,
     AsyncEventType::QpRequestError                                                                                                           },
    {RcFault::TooManyReads,      wire::NakCode::InvalidRequest,         WcStatus::LocalQpOperationError, true,
     AsyncEventType::QpAccessError                                                                                                            },
    {RcFault::MisalignedAtomic,  wire::NakCode::InvalidRequest,         WcStatus::LocalQpOperationError,
     true,                                                                                                      AsyncEventType::QpAccessError },
    {RcFault::Length,            wire::NakCode::InvalidRequest,         WcStatus::LocalLengthError,      true,
     AsyncEventType::QpAccessError                                                                                                            },
    {RcFault::ReceiverNotReady,  wire::NakCode::PsnSequenceError,       WcStatus::Success,               false,
     AsyncEventType::QpRequestError                                                                                                           },
    {RcFault::RKeyViolation,     wire::NakCode::RemoteAccessError,      WcStatus::LocalAccessError,      true,
     AsyncEventType::QpAccessError                                                                                                            },
    // Class J (IBTA vol 1 §9.9.6.3): the peer hears nothing. An XRC target's deputy says it so to
    // the target (hca/xrc_relay.h), by a code that RC and XRC do not have.
    {RcFault::Invalidation,      wire::NakCode::InvalidRdRequest,       WcStatus::LocalAccessError,      true,
     AsyncEventType::QpAccessError                                                                                                            },
    {RcFault::LocalQpOperation,  wire::NakCode::RemoteOperationalError,
     WcStatus::LocalProtectionError,                                                                     true,  AsyncEventType::QpFatal       },
});

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
