#pragma once

#include <cstdint>
#include <span>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/access_flags.h"
#include "verbs/address_vector.h"
#include "verbs/async_event.h"
#include "verbs/completion.h"
#include "verbs/port_attributes.h"
#include "verbs/port_state.h"
#include "verbs/qp_attributes.h"
#include "verbs/qp_state.h"
#include "verbs/qp_type.h"
#include "verbs/work_request.h"
#include "wire/feth.h"

/// The arguments of posting calls (IBTA vol 1 §11.4), and the nouns of src/verbs by their short
/// names.
namespace weft::hca {

using verbs::Access;
using verbs::AccessFlags;
using verbs::AddressVector;
using verbs::AsyncEventType;
using verbs::Completion;
using verbs::CompletionFlags;
using verbs::GlobalRoute;
using verbs::is_xrc;
using verbs::MigrationState;
using verbs::PortAttributes;
using verbs::PortState;
using verbs::QpAttribute;
using verbs::QpAttributeMask;
using verbs::QpAttributes;
using verbs::QpCapabilities;
using verbs::QpState;
using verbs::QpType;
using verbs::Send;
using verbs::SendFlags;
using verbs::Sge;
using verbs::Wc;
using verbs::WcOpcode;
using verbs::WcStatus;
using verbs::WrOpcode;

class AddressHandle;

/// The binding of a memory window: peers may use `length` bytes at `address`, an address of the
/// region that `lkey` names, with the rights `access`. The upper 24 bits of `rkey` identify the
/// window; the consumer chooses the low 8.
struct WindowBinding {
  RKey rkey{};
  LKey lkey{};
  std::uint64_t address{};
  std::uint64_t length{};  // 0 unbinds a window of type 1
  AccessFlags access;
};

/// The scope of a FLUSH (IBTA vol 1 annex A19): `length` bytes or the whole region, made visible or
/// persistent as `placement` says (wire::kPlacement bits).
struct FlushScope {
  std::uint32_t length{};  // only for a range
  std::uint8_t placement{};
  wire::FlushSelectivity selectivity{};
};

/// A send-queue work request. `sges` and `binding` need to be valid only during the posting call.
struct SendWr {
  std::uint64_t wr_id{};
  WrOpcode opcode{WrOpcode::Send};
  SendFlags flags;
  std::span<const Sge> sges;       // with Send::Inline: local addresses, lkeys ignored
  std::uint32_t immediate{};       // in host byte order
  std::uint64_t remote_address{};  // RDMA and atomics
  RKey rkey{};  // RDMA, atomics; for SendWithInvalidate and LocalInvalidate the key to invalidate
  std::uint32_t xrc_srqn{};        // XRC: the peer's SRQ, 24 bits
  std::uint64_t compare_add{};     // atomics
  std::uint64_t swap{};            // CompareSwap; AtomicWrite: the eight bytes in memory order
  FlushScope flush;                // Flush
  const WindowBinding* binding{};  // BindMemoryWindow
  bool registers{};  // RegisterMemory, and no other: `rkey` is the key, `swap` the access flags
  const AddressHandle* ah{};  // UD
  Qpn remote_qpn{};           // UD
  QKey remote_qkey{};         // UD; the QP's own when bit 31 is set (IBTA vol 1 §10.2.5)
};

/// A receive work request. `sges` needs to be valid only during the posting call.
struct RecvWr {
  std::uint64_t wr_id{};
  std::span<const Sge> sges;
};

}  // namespace weft::hca
