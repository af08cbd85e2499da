#pragma once

// Messages between processes of one host about verbs objects that they share: target QPs of a
// shared XRC domain (ibv_open_qp(3)), and devices, PDs and MRs imported from another process
// (ibv_import_device(3)). The daemon relays them. It verifies that both processes have the domain
// or device open, and replaces `peer`, the destination, by the source. An answer repeats the serial
// number of its request.

#include <cstdint>
#include <string>

#include "base/identifiers.h"
#include "uabi/process_address.h"
#include "verbs/async_event.h"
#include "verbs/qp_attributes.h"

namespace weft::uabi {

// --- target QPs

/// Operation on a target QP.
enum class TargetVerb : std::uint8_t { Open = 1, Close, Modify, Query };

/// Request to the process that owns the target's responder. Close is not answered.
struct XrcTargetRequest {
  ProcessAddress peer;
  std::uint32_t domain{};
  std::uint32_t serial{};
  TargetVerb verb{TargetVerb::Open};
  Qpn target;
  verbs::QpModification modification;  // of Modify
};

/// Answer to XrcTargetRequest. `error` is 0 for success, otherwise 1 + ErrorCode.
struct XrcTargetAnswer {
  ProcessAddress peer;
  std::uint32_t domain{};
  std::uint32_t serial{};
  std::uint8_t error{};
  std::string reason;
  verbs::QpAttributes attributes;  // of Query
};

/// An asynchronous event of the target, for all processes that have it open.
struct XrcTargetEvent {
  ProcessAddress peer;
  std::uint32_t domain{};
  Qpn target;
  verbs::AsyncEventType event{};
};

// --- imported devices, PDs and regions

/// Offers an open device of this process for import, or withdraws it (`is_over`). Descriptor: the
/// command descriptor, whose file identifies the device.
struct ShareDevice {
  std::uint32_t hca{};
  bool is_over{};
};

/// Imports the device behind a command descriptor; answered by DeviceImported with the same
/// `request`. Descriptor: the command descriptor.
struct ImportDevice {
  std::uint32_t request{};
};

/// Result of ImportDevice. `device` identifies the device in further messages; 0 on failure.
struct DeviceImported {
  std::uint32_t request{};
  std::uint32_t device{};
  ProcessAddress owner;
  std::uint32_t hca{};
  bool may_retry{};  // not shared yet
  std::string reason;
};

/// Ends the import of a device.
struct LeaveDevice {
  std::uint32_t device{};
};

/// From the daemon: `peer`, the owner or an importer, has closed the device.
struct DeviceGone {
  ProcessAddress peer;
  std::uint32_t device{};
};

/// Operation on an object of an imported device.
enum class ImportVerb : std::uint8_t {
  Pd = 1,            // does the PD with this handle exist?
  Region,            // attributes of the MR with this handle
  HoldPd,            // the sender has objects in the PD, which must not be deallocated
  ReleasePd,         // reverts one HoldPd
  DeallocatePd,      // unconditionally
  DeregisterRegion,  // unconditionally
};

/// Request to the owner of an imported device. The daemon sets `inode`, that of the command
/// descriptor.
struct ObjectRequest {
  ProcessAddress peer;
  std::uint32_t device{};
  std::uint64_t inode{};
  std::uint32_t serial{};
  ImportVerb verb{ImportVerb::Pd};
  std::uint32_t handle{};
};

/// Answer to ObjectRequest; `error` as in XrcTargetAnswer. The remaining fields describe an MR: if
/// its memory is a file that other processes can map, it starts at `file_offset`.
struct ObjectAnswer {
  ProcessAddress peer;
  std::uint32_t device{};
  std::uint32_t serial{};
  std::uint8_t error{};
  std::string reason;
  std::uint32_t pd{};  // handle
  std::uint32_t key{};
  std::uint32_t access{};
  std::uint64_t iova{};
  std::uint64_t length{};
  bool is_shared{};
  std::uint64_t file_device{};
  std::uint64_t file_inode{};
  std::uint64_t file_offset{};
};

}  // namespace weft::uabi
