#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "core/dma.h"
#include "core/signature.h"
#include "ulp/iser/protection.h"
#include "ulp/iser/registration.h"
#include "ulp/iser/transmit_descriptor.h"
#include "ulp/iser/unsolicited_plan.h"
#include "wire/iscsi/scsi_command.h"

namespace weft::iser {

/// A SCSI command with its memory, or a management PDU (the seed's iscsi_iser_task). From its first
/// transmission it is the connection's, until its response, handle_lost(), or the connection's
/// destructor. One thread: that of the connection.
struct Task {
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// The place of the PDU's headers, as long as they may be; zeroes, but for the opcode. Cannot
  /// fail (R-ISER-13). What the iSCSI layer writes there is taken when the task is initialised,
  /// and is then in `command` if it is one. Who sets `command` himself does without.
  MutableByteSpan allocate_pdu(wire::iscsi::Opcode opcode);
  /// Headers of an allocated PDU: the basic header segment, and as much more as that says.
  [[nodiscard]] ByteSpan allocated_headers() const;

  wire::iscsi::ScsiCommand command;  ///< F and the lengths are set when it is sent
  std::vector<std::byte> additional_headers;
  std::vector<std::byte> management_data;  ///< of a PDU that is no command
  std::vector<core::ScatterEntry> data_out;
  std::vector<core::ScatterEntry> data_in;
  std::optional<TaskProtection> protection;  ///< of the data; one way only

  // --- the connection's own
  std::shared_ptr<TransmitDescriptor> descriptor;            // once it is needed
  std::array<std::optional<Registration>, 2> registrations;  // out, in
  UnsolicitedPlan plan;
  std::uint32_t sent_unsolicited{};
  std::uint32_t data_sn{};
  unsigned pending{};                       // requests that use its memory
  bool has_allocated_pdu{};                 // the headers are in its descriptor
  bool is_sent{};                           // R-ISER-17: once
  bool is_answered{};                       // its response has come
  core::SignatureStatus protection_status;  // of its region, once its memory is its owner's again
};

/// Which tag of the task's tuples was wrong, when it has been answered; 0: none, or it has no
/// protection. The first such block in `block` (R-ISER-21).
[[nodiscard]] ProtectionVerdict check_protection(const Task& task, std::uint64_t& block);

}  // namespace weft::iser
