#pragma once

#include <cstdint>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::verbs {

/// Operation that a completion reports (IBTA vol 1 §11.4.2.1), with the verbs API's numbers.
enum class WcOpcode : std::uint8_t {
  Send = 0,
  RdmaWrite = 1,
  RdmaRead = 2,
  CompareSwap = 3,
  FetchAdd = 4,
  BindMemoryWindow = 5,
  LocalInvalidate = 6,
  Flush = 8,
  AtomicWrite,
  RegisterMemory = 32,  // of the kernel's API; no program's
  Receive = 128,
  ReceiveRdmaWithImmediate = 129,
};

/// Completion status (IBTA vol 1 §11.6.2), with the verbs API's numbers.
/// hca/completion_status_test.cc has a cause for each, or why there is none.
enum class WcStatus : std::uint8_t {
  Success = 0,
  LocalLengthError = 1,
  LocalQpOperationError = 2,
  LocalEecOperationError = 3,
  LocalProtectionError = 4,
  WorkRequestFlushed = 5,
  MemoryWindowBindError = 6,
  BadResponse = 7,
  LocalAccessError = 8,
  RemoteInvalidRequest = 9,
  RemoteAccessError = 10,
  RemoteOperationError = 11,
  RetryExceeded = 12,
  RnrRetryExceeded = 13,
  LocalRddViolation = 14,
  RemoteInvalidReadRequest = 15,
  RemoteAborted = 16,
  InvalidEecn = 17,
  InvalidEecState = 18,
  Fatal = 19,
  ResponseTimeout = 20,
  GeneralError = 21,
};

/// Flags of a completion, with the verbs API's bits.
enum class Completion : std::uint32_t {
  Grh = 1U << 0,
  WithImmediate = 1U << 1,
  WithInvalidate = 1U << 3
};
using CompletionFlags = Flags<Completion>;

/// A completion (IBTA vol 1 §11.4.2.1). With a status other than Success only wr_id, status,
/// vendor_error and qpn are valid.
struct Wc {
  std::uint64_t wr_id{};
  WcStatus status{WcStatus::Success};
  WcOpcode opcode{WcOpcode::Send};
  CompletionFlags flags{};
  std::uint32_t vendor_error{};
  std::uint32_t byte_length{};
  std::uint32_t immediate{};  // as a number
  RKey invalidated_rkey{};
  Qpn qpn{};
  Qpn src_qpn{};
  std::uint16_t pkey_index{};
  Lid slid{};
  ServiceLevel sl{};
  std::uint8_t dlid_path_bits{};
};

}  // namespace weft::verbs
