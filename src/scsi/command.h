#pragma once

// What passes between a transport (SRP, iSER, a test) and the target core (SAM-5 §5, §7).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strong.h"
#include "scsi/block_device.h"
#include "scsi/protection.h"
#include "scsi/sense.h"

namespace weft::scsi {

/// An I_T nexus of this target; never used twice.
using NexusId = Ordered<struct NexusIdTag, std::uint64_t>;
/// RELATIVE TARGET PORT IDENTIFIER, from 1.
using PortId = Ordered<struct PortIdTag, std::uint16_t>;

enum class TaskAttribute : std::uint8_t { Simple, Ordered, HeadOfQueue, Aca };

/// How a command ended.
struct Completion {
  /// False if no status is due: aborted by its own initiator, or its nexus is gone (SAM-5 §5.6). A
  /// transport then only frees the buffers.
  bool has_status{true};
  Status status{Status::Good};
  SenseData sense{};
  std::size_t data_in_bytes{};  ///< of the buffer, from its start
  /// Octets that the buffers had too many (underflow, positive) or too few (overflow, negative) for
  /// what the CDB asked for.
  std::int64_t residual{};
};

/// Tuples of a command's blocks that lie apart from these, since the transport's adapter makes,
/// checks and takes off what is transferred (SBC-3 §4.22).
struct SeparateTuples {
  BlockProtection how{};     ///< as Target::protection_of() has said
  MutableByteSpan tuples{};  ///< 8 octets a block: of what is written, or to be filled
  /// Of what is written: the check that failed, so that the command does.
  std::optional<ProtectionError> fault{};
};

struct Command;

class CommandClient {
 public:
  /// Exactly once for each command, from inside Target::submit or later, on any thread, without a
  /// lock held. The command's memory and buffers are the client's again. A client that submits from
  /// here must bound the depth, because devices in memory answer at once.
  virtual void handle_completion(Command& command, const Completion& completion) = 0;

 protected:
  ~CommandClient() = default;
};

/// One command. Belongs to the transport and stays, with its buffers, until the completion.
/// Data-out is there as a whole before the command is submitted.
struct Command {
  NexusId nexus{};
  std::uint64_t lun{};  ///< all 8 octets, as sent
  std::uint64_t tag{};
  TaskAttribute attribute{TaskAttribute::Simple};
  ByteSpan
      cdb{};  ///< CDB, and additional CDB behind it; trailing octets of a 16-octet field are fine
  ByteSpan data_out{};
  MutableByteSpan data_in{};
  /// Blocks that are read may be lent here instead, where they are in memory: if it is not empty
  /// afterwards, its first octets are the data. Null: the transport wants them in `data_in`.
  std::vector<BlockLoan>* lend_to{};
  /// WRITE commands store the whole blocks that data-out has, if it is shorter than the CDB says,
  /// and tell the rest as a residual, as iSCSI has it (RFC 7143 §11.4.5.1); else nothing is
  /// written.
  bool stores_short_data{};
  std::optional<SeparateTuples> apart{};  ///< the buffers have blocks alone then
  CommandClient* client{};
};

/// SAM-5 §7.
enum class TaskManagement : std::uint8_t {
  AbortTask,
  AbortTaskSet,
  ClearTaskSet,
  LogicalUnitReset,
  TargetReset,  ///< all units, as TARGET WARM RESET of iSCSI
  NexusReset,
  ClearAca,
  QueryTask,
  QueryTaskSet,
  QueryAsyncEvent,
};

enum class TaskManagementResponse : std::uint8_t {
  Complete,
  Succeeded,     ///< of a query: yes
  TaskNotFound,  ///< AbortTask: FUNCTION COMPLETE for protocols that do not distinguish
  Rejected,
  NotSupported,
  IncorrectLun,
  NoSuchNexus,
};

/// Called once, when all that the function aborts has ended and no device touches its buffers any
/// more; from inside the call or later, on any thread, without a lock held.
using TaskManagementHandler = std::function<void(TaskManagementResponse)>;

/// Identifies an initiator port for good: a TransportID (SPC-4 §7.6.4), 24 octets or more.
using TransportId = std::vector<std::byte>;

/// TransportID of SRP: the 16 octets of the initiator port identifier.
[[nodiscard]] TransportId srp_transport_id(ByteSpan initiator_port_id);
/// TransportID of iSCSI: name and initiator session identifier.
[[nodiscard]] TransportId iscsi_transport_id(const std::string& name, std::uint64_t isid);

}  // namespace weft::scsi
