#pragma once

// One SCSI command of a session, from its PDU to the acknowledgement of its status.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "iscsi/pdu.h"
#include "iscsi/write_sequences.h"
#include "scsi/command.h"
#include "wire/iscsi/scsi_command.h"

namespace weft::iscsi {

class CompletionQueue;
class TargetConnection;
class TargetSession;

/// Owned by its session while that knows it, and by itself while the SCSI target does.
class TargetTask final : public scsi::CommandClient,
                         public std::enable_shared_from_this<TargetTask> {
 public:
  enum class State : std::uint8_t {
    Collecting,  ///< its data, or its turn by CmdSN, is awaited
    Submitted,   ///< the SCSI target has it
    Answered,    ///< level 1 and up: its status is not acknowledged yet
  };

  void handle_completion(scsi::Command& command, const scsi::Completion& ended) override;
  /// What it has read becomes one piece, of which parts are sent.
  void collect_read_data();

  [[nodiscard]] std::uint32_t tag() const { return header.initiator_task_tag; }
  [[nodiscard]] std::uint64_t lun() const { return header.lun; }
  [[nodiscard]] bool has_data() const { return !writes || writes->is_complete(); }
  /// ORDERED: what came before is delivered before it, and what comes after, after it (SAM-5 §8.5).
  [[nodiscard]] bool is_ordered() const {
    return header.attribute == wire::iscsi::TaskAttributeCode::Ordered;
  }

  TargetSession* session{};        // nothing: the session is gone
  TargetConnection* connection{};  // of its allegiance; nothing: that connection is gone
  std::uint16_t cid{};             // of that
  std::shared_ptr<CompletionQueue> completions;
  std::shared_ptr<const void> hold;  // Datamover::command_hold()
  wire::iscsi::ScsiCommand header;
  State state{State::Collecting};
  bool in_turn{};              // by CmdSN
  bool takes_window{};         // of its session's commands under way, which are counted
  bool aborted{};              // no status is due, whatever the SCSI target says
  std::vector<std::byte> cdb;  // whole
  SharedBuffer data_out;
  SharedBuffer data_in;
  std::vector<scsi::BlockLoan> lent{};                // by a disk in memory, in place of data_in
  HeldOctets read_data{};                             // of either
  std::optional<scsi::BlockProtection> protection{};  // the adapter's; buffers have blocks alone
  SharedBuffer tuples;                                // of these
  std::optional<scsi::ProtectionError> protection_error{};
  bool awaits_put{};            // answered when its blocks are at the initiator
  std::uint32_t read_length{};  // expected
  std::uint32_t write_length{};
  std::optional<WriteSequences> writes;
  Instant data_deadline{Instant::never()};  // level 1 and up
  scsi::Command command;
  scsi::Completion completion;
  bool was_answered{};                     // on the connection of its allegiance, or another
  std::uint32_t data_in_count{};           // Data-In PDUs
  std::optional<std::uint32_t> stat_sn{};  // when it is answered

 private:
  friend class TargetSession;
  std::shared_ptr<TargetTask> self_;  // while the SCSI target has it
};

}  // namespace weft::iscsi
