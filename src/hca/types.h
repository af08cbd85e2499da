#pragma once

#include <cstdint>
#include <span>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "base/time.h"
#include "wire/encodings.h"
#include "wire/feth.h"

/// The vocabulary of verbs (IBTA vol 1 chapter 11). Numbers equal those of the verbs API where it
/// has one, so that a C front end translates by value.
namespace weft::hca {

enum class QpType : std::uint8_t { Rc = 2, Uc = 3, Ud = 4, XrcInitiator = 9, XrcTarget = 10 };

/// XRC (IBTA vol 1 annex A14) is RC with halves in QPs of their own: an initiator has but a send
/// queue, a target none at all; what a target receives goes to the SRQ that each request names.
[[nodiscard]] constexpr bool is_xrc(QpType type) {
  return type == QpType::XrcInitiator || type == QpType::XrcTarget;
}

enum class QpState : std::uint8_t { Reset, Init, Rtr, Rts, Sqd, Sqe, Err };

enum class MigrationState : std::uint8_t { Migrated, Rearm, Armed };

enum class WrOpcode : std::uint8_t {
  RdmaWrite,
  RdmaWriteWithImmediate,
  Send,
  SendWithImmediate,
  RdmaRead,
  CompareSwap,
  FetchAdd,
  LocalInvalidate,
  BindMemoryWindow,
  SendWithInvalidate,
  Flush = 14,  // what lies between is not offered
  AtomicWrite,
};

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
  Receive = 128,
  ReceiveRdmaWithImmediate = 129,
};

/// Completion status (IBTA vol 1 §11.6.2). completion_status_test.cc has a cause for each, or why
/// there is none.
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

enum class Access : std::uint32_t {
  LocalWrite = 1U << 0,
  RemoteWrite = 1U << 1,
  RemoteRead = 1U << 2,
  RemoteAtomic = 1U << 3,
  MemoryWindowBind = 1U << 4,
  ZeroBased = 1U << 5,
  OnDemand = 1U << 6,
  HugeTlb = 1U << 7,
  FlushGlobal = 1U << 8,      // a peer may ask that data be seen by all of the host,
  FlushPersistent = 1U << 9,  // or outlive the power (annex A19)
  RelaxedOrdering = 1U << 20,
};
using AccessFlags = Flags<Access>;

enum class Send : std::uint32_t {
  Fence = 1U << 0,
  Signaled = 1U << 1,
  Solicited = 1U << 2,
  Inline = 1U << 3
};
using SendFlags = Flags<Send>;

enum class Completion : std::uint32_t {
  Grh = 1U << 0,
  WithImmediate = 1U << 1,
  WithInvalidate = 1U << 3
};
using CompletionFlags = Flags<Completion>;

/// Attributes of modify QP (IBTA vol 1 Table 92..; bits as in the verbs API).
enum class QpAttribute : std::uint32_t {
  State = 1U << 0,
  CurrentState = 1U << 1,
  EnableSqdAsyncNotify = 1U << 2,
  RemoteAccess = 1U << 3,
  PKeyIndex = 1U << 4,
  Port = 1U << 5,
  QKey = 1U << 6,
  AddressVector = 1U << 7,
  PathMtu = 1U << 8,
  Timeout = 1U << 9,
  RetryCount = 1U << 10,
  RnrRetry = 1U << 11,
  RqPsn = 1U << 12,
  MaxQpRdAtomic = 1U << 13,
  AlternatePath = 1U << 14,
  MinRnrTimer = 1U << 15,
  SqPsn = 1U << 16,
  MaxDestRdAtomic = 1U << 17,
  PathMigrationState = 1U << 18,
  Capabilities = 1U << 19,
  DestQpn = 1U << 20,
  RateLimit = 1U << 25,
};
using QpAttributeMask = Flags<QpAttribute>;

/// One element of a scatter/gather list: `length` bytes at virtual address `address` (in the MR's
/// own address space).
struct Sge {
  std::uint64_t address{};
  std::uint32_t length{};
  LKey lkey{};
};

/// Global part of an address (becomes the GRH).
struct GlobalRoute {
  Gid dgid;
  std::uint32_t flow_label{};  // 20 bits
  std::uint8_t sgid_index{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  bool operator==(const GlobalRoute&) const = default;
};

/// Address of a destination as seen from a port: what an address handle or a connected QP's address
/// vector holds.
struct AhAttributes {
  Lid dlid;
  ServiceLevel sl;
  std::uint8_t source_path_bits{};
  std::uint8_t static_rate{};
  PortNumber port;
  bool is_global{};
  GlobalRoute grh;
  bool operator==(const AhAttributes&) const = default;
};

class AddressHandle;

/// What a memory window shall show: `length` bytes at `address` of the region with `lkey`, to peers
/// that have `access`. The upper 24 bits of `rkey` are the window's, the key part is the
/// consumer's.
struct WindowBinding {
  RKey rkey{};
  LKey lkey{};
  std::uint64_t address{};
  std::uint64_t length{};  // 0: a window of type 1 shows nothing any more
  AccessFlags access;
};

/// What a FLUSH asks of the peer's memory (IBTA vol 1 annex A19): `length` bytes, or all of the
/// region, in the places that `placement` names (wire::kPlacement bits).
struct FlushScope {
  std::uint32_t length{};  // of a range
  std::uint8_t placement{};
  wire::FlushSelectivity selectivity{};
};

/// A send-queue work request. Spans and the binding are read during the posting call only.
struct SendWr {
  std::uint64_t wr_id{};
  WrOpcode opcode{WrOpcode::Send};
  SendFlags flags;
  std::span<const Sge> sges;       // with Send::Inline: local addresses, lkeys ignored
  std::uint32_t immediate{};       // as a number, i.e. after conversion from network order
  std::uint64_t remote_address{};  // RDMA and atomics
  RKey rkey{};  // RDMA, atomics; the key to invalidate for SendWithInvalidate, LocalInvalidate
  std::uint32_t xrc_srqn{};     // XRC: the peer's SRQ, 24 bits
  std::uint64_t compare_add{};  // atomics
  std::uint64_t swap{};         // CompareSwap; AtomicWrite: the eight bytes as they lie in memory
  FlushScope flush;             // Flush
  const WindowBinding* binding{};  // BindMemoryWindow
  const AddressHandle* ah{};       // UD
  Qpn remote_qpn{};                // UD
  QKey remote_qkey{};              // UD; the QP's own when bit 31 is set (IBTA vol 1 §10.2.5)
};

struct RecvWr {
  std::uint64_t wr_id{};
  std::span<const Sge> sges;
};

/// A completion (IBTA vol 1 §11.4.2.1). With a status other than Success only wr_id, status,
/// vendor_error and qpn count.
struct Wc {
  std::uint64_t wr_id{};
  WcStatus status{WcStatus::Success};
  WcOpcode opcode{WcOpcode::Send};
  CompletionFlags flags;
  std::uint32_t vendor_error{};
  std::uint32_t byte_length{};
  std::uint32_t immediate{};  // as a number
  RKey invalidated_rkey{};
  Qpn qpn;
  Qpn src_qpn;
  std::uint16_t pkey_index{};
  Lid slid;
  ServiceLevel sl;
  std::uint8_t dlid_path_bits{};
};

struct QpCapabilities {
  std::uint32_t max_send_wr{};
  std::uint32_t max_recv_wr{};
  std::uint32_t max_send_sge{};
  std::uint32_t max_recv_sge{};
  std::uint32_t max_inline_data{};  // bytes
  bool operator==(const QpCapabilities&) const = default;
};

/// All attributes of a QP that modify sets and query returns.
struct QpAttributes {
  QpState state{QpState::Reset};
  QpState current_state{QpState::Reset};
  wire::Mtu path_mtu{wire::Mtu::Mtu256};
  MigrationState migration{MigrationState::Migrated};
  QKey qkey{};
  Psn rq_psn;
  Psn sq_psn;
  Qpn dest_qpn;
  AccessFlags access;
  QpCapabilities capabilities;
  AhAttributes address;
  AhAttributes alternate_address;
  std::uint16_t pkey_index{};
  std::uint16_t alternate_pkey_index{};
  bool enable_sqd_async_notify{};
  bool sq_draining{};
  std::uint8_t max_rd_atomic{};       // READs and atomics outstanding as requester
  std::uint8_t max_dest_rd_atomic{};  // as responder: the responder resources
  std::uint8_t min_rnr_timer{};       // code 0..31
  PortNumber port;
  TimeoutExponent timeout;
  std::uint8_t retry_count{};  // 0..7
  std::uint8_t rnr_retry{};    // 0..7, 7 is without end
  PortNumber alternate_port;
  TimeoutExponent alternate_timeout;
};

enum class AsyncEventType : std::uint8_t {
  CqError,
  QpFatal,
  QpRequestError,
  QpAccessError,
  CommunicationEstablished,
  SqDrained,
  PathMigrated,
  PathMigrationError,
  DeviceFatal,
  PortActive,
  PortError,
  LidChange,
  PKeyChange,
  SmChange,
  SrqError,
  SrqLimitReached,
  QpLastWqeReached,
  ClientReregister,
  GidChange,
};

}  // namespace weft::hca
