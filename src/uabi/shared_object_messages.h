#pragma once

// What processes of one host say to each other, through the daemon, about verbs objects that both
// use: target QPs of a shared XRC domain (ibv_open_qp(3)), and devices, PDs and regions that one
// has imported from another (ibv_import_device(3)). The daemon knows who has a domain or a device
// open, vouches for that and for the sender, and carries the words; `peer` is to whom, of which it
// makes from whom. A question has a serial of its sender's, and its answer the same.

#include <cstdint>
#include <string>

#include "base/identifiers.h"
#include "uabi/process_address.h"
#include "uabi/rdma_cm_messages.h"

namespace weft::uabi {

// --- target QPs

enum class TargetVerb : std::uint8_t { Open = 1, Close, Modify, Query };

/// To the process where the target's responder lives. Close has no answer.
struct AskXrcTarget {
  ProcessAddress peer;
  std::uint32_t domain{};
  std::uint32_t serial{};
  TargetVerb verb{TargetVerb::Open};
  Qpn target;
  std::uint8_t current_state{};
  RdmaCmQpAttributes attributes;  // of Modify, with their mask
};

/// `error` 0: done. Else 1 + the ErrorCode, for the reason in words.
struct XrcTargetAnswer {
  ProcessAddress peer;
  std::uint32_t domain{};
  std::uint32_t serial{};
  std::uint8_t error{};
  std::string reason;
  RdmaCmQpAttributes attributes;  // of Query
};

/// An asynchronous event of the target, by the number of its hca::AsyncEventType, to all who have
/// it open.
struct XrcTargetEvent {
  ProcessAddress peer;
  std::uint32_t domain{};
  Qpn target;
  std::uint8_t event{};
};

// --- imported devices, PDs and regions

/// An open device of this process that others may import, or that is closed (`is_over`).
/// Descriptor: its command descriptor, by the file of which the daemon knows it.
struct ShareDevice {
  std::uint32_t hca{};
  bool is_over{};
};

/// Asks whose device is behind a command descriptor; answered by DeviceImported with the same
/// `request`. Descriptor: it.
struct ImportDevice {
  std::uint32_t request{};
};

/// `device`, by which both name it from now on; 0: refused, for the reason in words.
struct DeviceImported {
  std::uint32_t request{};
  std::uint32_t device{};
  ProcessAddress owner;
  std::uint32_t hca{};
  bool may_come{};  // nobody has shared it, yet
  std::string reason;
};

/// Closed by who has imported it.
struct LeaveDevice {
  std::uint32_t device{};
};

/// The daemon's: `peer`, the owner or an importer, has the device open no more.
struct DeviceGone {
  ProcessAddress peer;
  std::uint32_t device{};
};

enum class ImportVerb : std::uint8_t {
  Pd = 1,            // is there a PD with this handle?
  Region,            // what is the region with this handle?
  HoldPd,            // objects of the sender are in the PD, or none any more
  ReleasePd,         // as often as HoldPd
  DeallocatePd,      // for good
  DeregisterRegion,  // for good
};

/// To the owner of an imported device. `inode` is the daemon's: of the command descriptor.
struct AskForObject {
  ProcessAddress peer;
  std::uint32_t device{};
  std::uint64_t inode{};
  std::uint32_t serial{};
  ImportVerb verb{ImportVerb::Pd};
  std::uint32_t handle{};
};

/// `error` as in XrcTargetAnswer. The rest is of a region: what it lies in, if that is a file that
/// several processes may map, begins at `file_offset`.
struct ObjectAnswer {
  ProcessAddress peer;
  std::uint32_t device{};
  std::uint32_t serial{};
  std::uint8_t error{};
  std::string reason;
  std::uint32_t pd{};  // its handle
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
