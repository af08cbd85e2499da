// Task management, nexus and administration of a logical unit (SAM-5 §6.3, §7).

#include <algorithm>
#include <mutex>
#include <utility>

#include "scsi/task.h"

namespace weft::scsi {

void LogicalUnit::attach(NexusId id, const NexusName& name, bool joins) {
  const std::scoped_lock hold(lock_);
  std::shared_ptr<NexusMemory> joined;
  for (const auto& [other, nexus] : state_.nexuses) {
    if (joins && nexus.name == name && !nexus.is_copy_managers) {
      joined = nexus.memory;
    }
  }
  UnitNexus& nexus = state_.nexuses[id];
  nexus.name = name;
  if (joined != nullptr) {
    nexus.memory = std::move(joined);
  } else {
    nexus.memory->attentions.establish(SenseCode::PowerOnOccurred);
  }
}

void LogicalUnit::attach_copy_manager(NexusId id, const NexusName& name) {
  const std::scoped_lock hold(lock_);
  UnitNexus& nexus = state_.nexuses[id];
  nexus.name = name;
  nexus.is_copy_managers = true;
}

void LogicalUnit::detach(NexusId id, const PendingPtr& pending) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  {
    const std::scoped_lock hold(lock_);
    const auto nexus = state_.nexuses.find(id);
    if (nexus == state_.nexuses.end()) {
      return;
    }
    abort_if([&](const Task& task) { return task.command->nexus == id; }, AbortedBy::Itself,
             pending, work);
    if (aca_ == id) {
      clear_aca(work);
    }
    const bool is_last = nexus->second.memory.use_count() == 1;
    if (is_last && !nexus->second.is_copy_managers) {  // else the initiator stays
      state_.reservations.drop_legacy_of(nexus->second.name);
    }
    state_.nexuses.erase(nexus);
  }
  perform(work);
}

void LogicalUnit::add_port(const PortOptions& port) {
  const std::scoped_lock hold(lock_);
  state_.ports.push_back(port);
  state_.access.add_port(port.id, port.group);
}

void LogicalUnit::set_luns(const std::vector<Lun>& luns, bool changed) {
  const std::scoped_lock hold(lock_);
  state_.luns = luns;
  if (changed) {
    for (auto& [id, nexus] : state_.nexuses) {
      nexus.memory->attentions.establish(SenseCode::ReportedLunsDataChanged);
    }
  }
}

void LogicalUnit::announce_capacity() {
  const std::scoped_lock hold(lock_);
  for (auto& [id, nexus] : state_.nexuses) {
    nexus.memory->attentions.establish(SenseCode::CapacityDataChanged);
  }
}

Result<void> LogicalUnit::set_access_state(std::uint16_t group, AccessState state) {
  const std::scoped_lock hold(lock_);
  const Result<bool> changed = state_.access.set_state(group, state, false);
  if (!changed) {
    return std::unexpected(changed.error());
  }
  if (*changed) {
    for (auto& [id, nexus] : state_.nexuses) {
      nexus.memory->attentions.establish(SenseCode::AccessStateChanged);
    }
  }
  return {};
}

Result<void> LogicalUnit::restore_reservations(ByteSpan image) {
  const std::scoped_lock hold(lock_);
  return state_.reservations.restore(image);
}

TaskManagementResponse LogicalUnit::manage(NexusId id, TaskManagement function, std::uint64_t tag,
                                           const PendingPtr& pending) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  TaskManagementResponse response{};
  {
    const std::scoped_lock hold(lock_);
    response = manage_locked(id, function, tag, pending, work);
  }
  perform(work);
  return response;
}

TaskManagementResponse LogicalUnit::manage_locked(NexusId id, TaskManagement function,
                                                  std::uint64_t tag, const PendingPtr& pending,
                                                  Work& work) {
  using enum TaskManagementResponse;
  // Of the I_T nexus, by whichever channel; a tag is one channel's.
  const auto own = [&](const Task& task) {
    return state_.memory_of(task.command->nexus) == state_.memory_of(id);
  };
  const auto named = [&](const Task& task) {
    return task.command->nexus == id && task.command->tag == tag;
  };
  const auto any = [&](auto matches) {
    return std::ranges::any_of(tasks_, [&](const Task* task) { return matches(*task); });
  };
  if (!state_.nexuses.contains(id)) {
    return NoSuchNexus;  // closed meanwhile
  }
  switch (function) {
    case TaskManagement::AbortTask:
      if (!any(named)) {
        return TaskNotFound;
      }
      abort_if(named, AbortedBy::Itself, pending, work);
      return Complete;
    case TaskManagement::AbortTaskSet:
      abort_if(own, AbortedBy::Itself, pending, work);
      return Complete;
    case TaskManagement::ClearTaskSet:
      abort_if([&](const Task& task) { return !own(task); }, AbortedBy::Another, pending, work);
      abort_if(own, AbortedBy::Itself, pending, work);
      return Complete;
    case TaskManagement::LogicalUnitReset:
      reset(SenseCode::BusDeviceResetOccurred, pending, work);
      return Complete;
    case TaskManagement::TargetReset:
      reset(SenseCode::ScsiBusResetOccurred, pending, work);
      return Complete;
    case TaskManagement::NexusReset: {
      abort_if(own, AbortedBy::Itself, pending, work);
      if (aca_ == id) {
        clear_aca(work);
      }
      UnitNexus& nexus = state_.nexuses.at(id);
      state_.reservations.drop_legacy_of(nexus.name);
      nexus.memory->attentions.establish(SenseCode::NexusLossOccurred);
      return Complete;
    }
    case TaskManagement::ClearAca:
      if (aca_.has_value() && aca_ != id) {
        return Rejected;  // SAM-5 §7.4: only through the faulted nexus
      }
      // The command with the ACA attribute is aborted with the condition (SAM-5 §7.4).
      abort_if([&](const Task& t) { return own(t) && t.command->attribute == TaskAttribute::Aca; },
               AbortedBy::Itself, pending, work);
      clear_aca(work);
      return Complete;
    case TaskManagement::QueryTask:
      return any(named) ? Succeeded : Complete;
    case TaskManagement::QueryTaskSet:
      return any(own) ? Succeeded : Complete;
    case TaskManagement::QueryAsyncEvent:
      return state_.nexuses.at(id).memory->attentions.any() ? Succeeded : Complete;
  }
  return NotSupported;
}

// SAM-5 §6.3.3: what a reset does to a unit. Persistent reservations stay.
void LogicalUnit::reset(SenseCode code, const PendingPtr& pending, Work& work) {
  aca_.reset();
  abort_if([](const Task&) { return true; }, AbortedBy::Itself, pending, work);
  state_.reservations.drop_legacy();
  state_.pages.reset();
  state_.stopped = false;
  for (auto& [id, nexus] : state_.nexuses) {
    nexus.memory->attentions.establish(code);
    nexus.memory->copies.clear();
  }
}

void LogicalUnit::abort_all(const PendingPtr& pending) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  {
    const std::scoped_lock hold(lock_);
    aca_.reset();
    abort_if([](const Task&) { return true; }, AbortedBy::Itself, pending, work);
    state_.nexuses.clear();
    if (sanitize_ != nullptr) {
      pending->add();
      sanitize_->run.waiters.push_back(pending);
      sanitize_->is_abandoned = true;
      if (sanitize_->run.media.has_value()) {
        sanitize_->run.media->stop();
      }
    }
  }
  perform(work);
}

void LogicalUnit::perform(Work& work) {
  while (!work.media.empty() || !work.saves.empty() || work.sanitize_image.has_value() ||
         !work.completed.empty() || !work.notifications.empty()) {
    for (Task* task : std::exchange(work.media, {})) {
      if (task->media->advance() == MediaRun::Progress::Ended) {
        const std::scoped_lock hold(lock_);
        end_media(*task, work);
      }
    }
    for (Save& order : std::exchange(work.saves, {})) {
      save(order);
    }
    if (auto image = std::exchange(work.sanitize_image, std::nullopt)) {
      save_sanitize(*std::move(image));
    }
    for (Task* task : std::exchange(work.completed, {})) {
      complete(task);
    }
    for (const PendingPtr& pending : std::exchange(work.notifications, {})) {
      pending->finish();
    }
  }
}

void LogicalUnit::complete(Task* task) {
  const std::unique_ptr<Task> owned(task);
  Command& command = *task->command;
  Completion completion;
  if (task->aborted_by != AbortedBy::Nobody) {
    completion.has_status = task->sends_aborted;
    completion.status = Status::TaskAborted;
  } else {
    const bool inward = task->row != nullptr && task->row->direction == DataDirection::In;
    const bool outward = task->row != nullptr && task->row->direction == DataDirection::Out;
    const std::size_t room = inward    ? command.data_in.size()
                             : outward ? command.data_out.size()
                                       : std::max(command.data_in.size(), command.data_out.size());
    const bool failed = task->failure.has_value();
    const std::size_t used = inward && failed ? task->given_bytes : task->wanted_bytes;
    completion.data_in_bytes = task->given_bytes;
    completion.residual = static_cast<std::int64_t>(room) - static_cast<std::int64_t>(used);
    if (failed) {
      completion.status = task->failure->status;
      if (completion.status == Status::CheckCondition) {
        completion.sense = SenseData(task->failure->sense, task->sense_format);
      }
    }
  }
  command.client->handle_completion(command, completion);
}

void LogicalUnit::save(Save& order) {
  Task* const task = order.task;
  state_.options.store->save(
      order.number, std::move(order.image), [self = shared_from_this(), task](bool saved) {
        if (!saved) {
          task->failure = Failure{
              .sense = {.key = SenseKey::HardwareError, .code = SenseCode::InternalTargetFailure}
          };
        }
        if (task->deferred->drop()) {
          self->end_deferred(*task);
        }
      });
}

void LogicalUnit::end_deferred(Task& task) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  {
    const std::scoped_lock hold(lock_);
    const PendingPtr keep = std::exchange(task.deferred, nullptr);  // it holds what runs now
    finish(task, work);
  }
  perform(work);
}

void LogicalUnit::resume(Task& task) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  work.media.push_back(&task);
  perform(work);
}

}  // namespace weft::scsi
