#pragma once

// Parts of LogicalUnit that its sources share; for nobody else.

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scsi/logical_unit.h"

namespace weft::scsi {

struct LogicalUnit::Task final : MediaRun::Owner {
  enum class State : std::uint8_t {
    Dormant,  // waits for older tasks, or for the end of an ACA condition
    Blocked,  // enabled; waits for blocks that others use
    Running,  // the device, or the store of reservations, is at work
    Held,     // has ended during an ACA condition of another nexus
    Finished,
  };

  void resume_media() override { unit->resume(*this); }

  Command* command{};  // none: of a SANITIZE, which outlives its command
  std::shared_ptr<LogicalUnit> unit;
  State state{State::Dormant};
  AbortedBy aborted_by{AbortedBy::Nobody};
  bool passes_aca{};     // has the ACA attribute, or ends the condition: PREEMPT AND ABORT
  bool sends_aborted{};  // TASK ABORTED is due
  const CommandRow* row{};
  std::optional<MediaRun> media;
  std::optional<Failure> failure;
  std::size_t wanted_bytes{};
  std::size_t given_bytes{};
  std::vector<PendingPtr> waiters;  // for the end of this task
  PendingPtr deferred;              // what this task waits for, beside the device
  std::optional<std::uint8_t> copy_list;
  SenseData::Format sense_format{SenseData::Format::Fixed};
};

// A SANITIZE that runs: it ends by itself, whatever becomes of the command (SBC-3 §4.11.2).
struct LogicalUnit::Sanitize {
  SanitizeOrder order;
  Task run;        // its passes over the medium, in no task set
  Task* waiter{};  // the command, if its status waits and it is not aborted
  unsigned passes_done{};
  bool has_begun{};   // its passes have; before, and when they are over, it is in the store's hands
  bool has_ended{};   // they are over
  bool has_failed{};  // and not well
  bool is_abandoned{};  // the unit goes: what is kept of it stays, for who opens the disk again
};

struct LogicalUnit::Work {
  std::vector<Task*> media;      // to be advanced
  std::vector<Task*> completed;  // to be reported, then freed
  std::vector<Save> saves;
  std::optional<std::vector<std::byte>> sanitize_image;  // to be kept
  std::vector<PendingPtr> notifications;

  void drop(const PendingPtr& pending) {
    if (pending != nullptr && pending->drop()) {
      notifications.push_back(pending);
    }
  }
};

// Marks first and ends then, so that nothing that is to be aborted is enabled by the end of
// another.
template <class Predicate>
void LogicalUnit::abort_if(Predicate matches, AbortedBy by, const PendingPtr& pending, Work& work) {
  std::vector<Task*> found;
  for (Task* task : tasks_) {
    if (!matches(*task)) {
      continue;
    }
    if (pending != nullptr) {
      pending->add();
      task->waiters.push_back(pending);
    }
    if (task->aborted_by == AbortedBy::Nobody) {
      task->aborted_by = by;
      found.push_back(task);
    }
  }
  const bool tells = by == AbortedBy::Another && !state_.pages.values().task_aborted_status;
  for (Task* task : found) {
    const auto nexus = state_.nexuses.find(task->command->nexus);
    if (tells && nexus != state_.nexuses.end()) {  // SAM-5 §5.6.2
      nexus->second.memory->attentions.establish(SenseCode::CommandsClearedByAnotherInitiator);
    }
    switch (task->state) {
      case Task::State::Running:
        if (task->media.has_value()) {
          task->media->stop();
        } else if (sanitize_ != nullptr && sanitize_->waiter == task) {
          sanitize_->waiter = nullptr;
          finish(*task, work);
        }
        break;
      case Task::State::Dormant:
        --dormant_;
        finish(*task, work);
        break;
      case Task::State::Blocked:
        ranges_.release(task);
        ranges_.grant([&work](Task* next) {
          next->state = Task::State::Running;
          work.media.push_back(next);
        });
        finish(*task, work);
        break;
      case Task::State::Held:
        finish(*task, work);
        break;
      case Task::State::Finished:
        break;
    }
  }
}

}  // namespace weft::scsi
