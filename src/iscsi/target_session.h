#pragma once

// A session of an initiator with a target node (RFC 7143 §4.2.3), as the target has it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "iscsi/command_window.h"
#include "iscsi/parameters.h"
#include "iscsi/target_task.h"
#include "scsi/command.h"
#include "scsi/target.h"

namespace weft::iscsi {

class TargetServer;

/// A request that waits for its turn: a task, or a copy of a PDU.
struct HeldRequest {
  TargetConnection* connection{};
  std::shared_ptr<TargetTask> task;
  HeaderOctets header{};
  std::vector<std::byte> data;
};

/// What a session is from the first login on.
struct SessionIdentity {
  std::string initiator{};
  std::uint64_t isid{};
  std::uint16_t tsih{};
  std::string target;    ///< empty in a discovery session
  scsi::Target* scsi{};  ///< nothing in a discovery session
  scsi::NexusId nexus{};
  bool is_discovery{};
};

/// The server's thread.
class TargetSession {
 public:
  TargetSession(TargetServer& server, const SessionIdentity& identity, const Parameters& agreed,
                std::uint32_t first_cmd_sn, std::uint32_t command_window);

  [[nodiscard]] const SessionIdentity& identity() const { return identity_; }
  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  [[nodiscard]] std::uint32_t exp_cmd_sn() const { return window_.expected(); }
  [[nodiscard]] std::uint32_t max_cmd_sn() const { return window_.maximum(); }
  [[nodiscard]] const std::map<std::uint16_t, TargetConnection*>& connections() const {
    return connections_;
  }
  void attach(std::uint16_t cid, TargetConnection& connection);
  /// A connection is gone. `recovers`: its tasks wait for another allegiance (RFC 7143 §7.2.2).
  void detach(std::uint16_t cid, bool recovers, Instant now);
  /// Tasks without allegiance, or the session itself without connections, end then.
  [[nodiscard]] Instant retain_deadline() const { return retain_deadline_; }
  /// Tasks of a lost connection with StatSN before this one need no other allegiance: the initiator
  /// knows how they ended.
  void acknowledge_lost(std::uint16_t cid, std::uint32_t exp_stat_sn);
  /// Ends tasks that got no other allegiance in time.
  void end_overdue(Instant now);
  [[nodiscard]] bool is_recovering(std::uint16_t cid) const { return lost_.contains(cid); }
  /// While true the session stays without connections, because one is about to come.
  void hold_open(bool held) { held_open_ = held; }
  [[nodiscard]] bool is_held_open() const { return held_open_; }

  [[nodiscard]] std::shared_ptr<TargetTask> find_task(std::uint32_t tag) const;
  [[nodiscard]] const std::map<std::uint32_t, std::shared_ptr<TargetTask>>& tasks() const {
    return tasks_;
  }
  /// True if a non-immediate request with this number would be taken.
  [[nodiscard]] bool is_welcome(std::uint32_t cmd_sn) const { return window_.is_welcome(cmd_sn); }
  /// Performs the request in its turn.
  void take(std::uint32_t cmd_sn, HeldRequest request, Instant now);
  /// An immediate command, too: its turn is now.
  void begin_turn(const std::shared_ptr<TargetTask>& task, Instant now);
  /// A task with its answer, which the SCSI target does not get; it is answered in its turn, so
  /// that its CmdSN counts as received whatever becomes of the connection.
  void refuse(const std::shared_ptr<TargetTask>& task, const scsi::Completion& completion,
              Instant now);
  void add_task(const std::shared_ptr<TargetTask>& task);
  /// Gives tasks that have their turn and data to the SCSI target.
  void deliver();
  /// Ends a task that was not delivered, or whose status was acknowledged.
  void remove_task(std::uint32_t tag);
  /// Tasks that match and that the SCSI target does not have, since they are undelivered or their
  /// data is still on its way to the initiator, are gone, without status.
  template <class Predicate>
  void drop_undelivered(Predicate matches) {
    std::vector<std::uint32_t> tags;
    for (const auto& [tag, task] : tasks_) {
      if ((task->state == TargetTask::State::Collecting || task->awaits_put) && matches(*task)) {
        tags.push_back(tag);
      }
    }
    for (const std::uint32_t tag : tags) {
      remove_task(tag);
    }
  }
  /// The command with RefCmdSN counts as received (RFC 7143 §11.5.5); false if it cannot be still
  /// under way.
  [[nodiscard]] bool forget_command(std::uint32_t cmd_sn, std::uint32_t own_cmd_sn, Instant now);
  /// An immediate function over several tasks, which waits until all commands before it have come
  /// (RFC 7143 §4.2.3.3); over several connections they may come later. False: they have.
  [[nodiscard]] bool hold_management(std::uint32_t cmd_sn, HeldRequest request);
  [[nodiscard]] std::size_t held_managements() const { return held_managements_.size(); }
  /// A task of the SCSI target has ended.
  void finish(const std::shared_ptr<TargetTask>& task, Instant now);
  /// Aborts all; the session is not used any more.
  void close();

  [[nodiscard]] std::uint32_t next_transfer_tag();
  [[nodiscard]] std::size_t immediate_tasks() const;

 private:
  void perform(HeldRequest& request, Instant now);
  void answer_refused(const std::shared_ptr<TargetTask>& task, Instant now);
  void perform_held_managements(Instant now);
  void abandon(const std::shared_ptr<TargetTask>& task);
  [[nodiscard]] Instant soonest_overdue() const;
  void count(TargetTask& task);
  void open_window();

  TargetServer& server_;
  SessionIdentity identity_;
  Parameters parameters_;
  CommandWindow<HeldRequest> window_;
  std::map<std::uint16_t, TargetConnection*> connections_;  // by CID
  std::map<std::uint16_t, Instant> lost_;                   // CIDs whose tasks wait, until when
  std::map<std::uint32_t, std::shared_ptr<TargetTask>> tasks_;
  std::vector<std::shared_ptr<TargetTask>> undelivered_;                 // in turn, in order
  std::vector<std::pair<std::uint32_t, HeldRequest>> held_managements_;  // with their CmdSN
  Instant retain_deadline_{Instant::never()};
  std::uint32_t next_transfer_tag_{1};
  std::uint32_t under_way_{};  // tasks whose takes_window is set
  bool held_open_{};
};

}  // namespace weft::iscsi
