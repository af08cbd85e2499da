#include "scsi/logical_unit.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "scsi/task.h"

namespace weft::scsi {
namespace {

constexpr std::uint8_t kNaca = 0x04;  // of CONTROL
constexpr std::uint8_t kPersistentReserveOut = 0x5F;

bool is_ordering(TaskAttribute attribute) {
  return attribute == TaskAttribute::Ordered || attribute == TaskAttribute::HeadOfQueue;
}

bool has_naca(ByteSpan cdb) {
  const auto row = find_command(cdb);
  return row && (control_octet(**row, cdb) & kNaca) != 0;
}

}  // namespace

LogicalUnit::LogicalUnit(const UnitOptions& options, BlockDevice& device, LockPolicy locks,
                         std::shared_ptr<UnitDirectory> directory)
    : lock_(locks) {
  state_.directory = std::move(directory);
  state_.options = options;
  state_.device = &device;
  ModeValues modes = options.modes;
  const BlockGeometry geometry = device.geometry();
  modes.write_cache = modes.write_cache && geometry.has_write_cache;
  state_.pages = ModePages(modes);
  WEFT_ASSERT(options.protection == ProtectionType::None || geometry.keeps_protection,
              "whoever configures protection gives a device that keeps it");
}

LogicalUnit::~LogicalUnit() {
  WEFT_ASSERT(tasks_.empty(), "every task holds a reference to its unit");
}

void LogicalUnit::submit(Command& command) {
  const std::shared_ptr<LogicalUnit> self = shared_from_this();
  Work work;
  {
    const std::scoped_lock hold(lock_);
    accept(command, work);
  }
  perform(work);
}

std::size_t LogicalUnit::tasks() const {
  const std::scoped_lock hold(lock_);
  return tasks_.size();
}

// What is read is checked after the command has left the task set. If a CHECK CONDITION has to stop
// others of the set, by ACA or QERR, it is the unit's to check before that.
std::optional<BlockProtection> LogicalUnit::protection_of(ByteSpan cdb) const {
  const std::scoped_lock hold(lock_);
  const auto row = find_command(cdb);
  if (!row) {
    return std::nullopt;
  }
  const bool stops_others = has_naca(cdb) || state_.pages.values().queue_error != 0;
  auto made = scsi::protection_of(state_, **row, cdb.first((*row)->cdb_bytes));
  return made && !made->writes && stops_others ? std::nullopt : made;
}

SenseData::Format LogicalUnit::sense_format() const {
  const std::scoped_lock hold(lock_);
  return state_.pages.values().descriptor_sense ? SenseData::Format::Descriptor
                                                : SenseData::Format::Fixed;
}

void LogicalUnit::accept(Command& command, Work& work) {
  auto owned = std::make_unique<Task>();
  Task& task = *owned.release();  // perform() deletes it when it has completed it
  task.command = &command;
  task.unit = shared_from_this();
  const auto nexus = state_.nexuses.find(command.nexus);
  if (nexus == state_.nexuses.end()) {
    task.aborted_by = AbortedBy::Itself;
    task.state = Task::State::Finished;
    work.completed.push_back(&task);
    return;
  }
  const bool overlaps = std::ranges::any_of(tasks_, [&](const Task* other) {
    return other->command->nexus == command.nexus && other->command->tag == command.tag &&
           other->aborted_by == AbortedBy::Nobody;
  });
  Outcome<void> admitted = admit(command, nexus->second);
  if (overlaps) {  // SAM-5 §5.11: both sides have lost count
    abort_if([&](const Task& other) { return other.command->nexus == command.nexus; },
             AbortedBy::Itself, nullptr, work);
    admitted = check_condition(
        {.key = SenseKey::AbortedCommand, .code = SenseCode::OverlappedCommandsAttempted});
  }
  task.passes_aca = command.attribute == TaskAttribute::Aca || passes_aca(command);
  tasks_.push_back(&task);
  ordering_ += is_ordering(command.attribute) ? 1 : 0;
  ++dormant_;
  ++nexus->second.tasks;
  if (!admitted) {
    task.failure = admitted.error();
    task.passes_aca = true;
    --dormant_;
    task.state = Task::State::Running;
    finish(task, work);
  } else if (may_enable(task)) {
    enable(task, work);
  }
}

// Whether the task set takes a command at all (SAM-5 §5.3.1, §5.9.3, §8.8).
Outcome<void> LogicalUnit::admit(const Command& command, const UnitNexus& nexus) const {
  if (aca_.has_value()) {
    const bool faulted = *aca_ == command.nexus;
    const bool aca_in_set = std::ranges::any_of(
        tasks_, [](const Task* other) { return other->command->attribute == TaskAttribute::Aca; });
    if (faulted && (command.attribute != TaskAttribute::Aca || aca_in_set)) {
      return end_with(Status::AcaActive);
    }
    if (!faulted && !passes_aca(command)) {
      const bool aca_aware = command.attribute == TaskAttribute::Aca || has_naca(command.cdb);
      return end_with(aca_aware ? Status::AcaActive : Status::Busy);
    }
  } else if (command.attribute == TaskAttribute::Aca) {
    return illegal_request(SenseCode::InvalidMessage);
  }
  if (nexus.is_copy_managers) {
    return {};  // one at a time of a command that was admitted
  }
  if (nexus.tasks >= state_.options.max_tasks_of_nexus) {
    return end_with(Status::TaskSetFull);
  }
  if (tasks_.size() >= state_.options.max_tasks) {
    return end_with(nexus.tasks > 0 ? Status::TaskSetFull : Status::Busy);
  }
  return {};
}

// Another nexus may end the condition by PREEMPT AND ABORT (SAM-5 §5.9.3).
bool LogicalUnit::passes_aca(const Command& command) const {
  return aca_.has_value() && command.cdb.size() >= 2 &&
         load8(command.cdb, 0) == kPersistentReserveOut &&
         (load8(command.cdb, 1) & 0x1F) == std::to_underlying(ReserveAction::PreemptAndAbort);
}

// SAM-5 §8.6: SIMPLE waits for older ORDERED and all HEAD OF QUEUE, ORDERED for everything older.
bool LogicalUnit::may_enable(const Task& task) const {
  if (task.passes_aca) {
    return true;
  }
  if (aca_.has_value()) {
    return false;
  }
  const TaskAttribute attribute = task.command->attribute;
  if (attribute == TaskAttribute::HeadOfQueue) {
    return true;
  }
  if (attribute == TaskAttribute::Simple && ordering_ == 0) {
    return true;
  }
  bool older = true;
  for (const Task* other : tasks_) {
    if (other == &task) {
      older = false;
      continue;
    }
    const TaskAttribute its = other->command->attribute;
    if (its == TaskAttribute::HeadOfQueue ||
        (older && (attribute == TaskAttribute::Ordered || its == TaskAttribute::Ordered))) {
      return false;
    }
  }
  return true;
}

// Enables what may be enabled now. A task that ends at once may enable others: the loop begins
// again instead of a call within the call.
void LogicalUnit::enable_tasks(Work& work) {
  if (enabling_) {
    return;
  }
  enabling_ = true;
  for (std::size_t i = 0; dormant_ > 0 && i < tasks_.size();) {
    Task& task = *tasks_[i];
    const bool enables = task.state == Task::State::Dormant &&
                         task.aborted_by == AbortedBy::Nobody && may_enable(task);
    if (enables) {
      enable(task, work);
    }
    i = enables ? 0 : i + 1;
  }
  enabling_ = false;
}

void LogicalUnit::enable(Task& task, Work& work) {
  --dormant_;
  task.state = Task::State::Running;
  static constexpr CommandRow kNoRow{};
  const auto row = find_command(task.command->cdb);
  task.row = row ? *row : nullptr;
  const CommandRow& used = row ? **row : kNoRow;
  CommandContext context{.unit = state_,
                         .nexus_id = task.command->nexus,
                         .nexus = state_.nexuses.at(task.command->nexus).name,
                         .row = used,
                         .cdb = task.command->cdb.first(used.cdb_bytes),
                         .data_out = task.command->data_out,
                         .data_in = task.command->data_in,
                         .stores_short_data = task.command->stores_short_data,
                         .apart = task.command->apart ? &*task.command->apart : nullptr};
  const Outcome<void> outcome = prepare(task, context);
  task.wanted_bytes = context.wanted_bytes;
  task.given_bytes = context.given_bytes;
  if (!outcome) {
    task.failure = outcome.error();
    finish(task, work);
    return;
  }
  start(task, context, work);
}

Outcome<void> LogicalUnit::prepare(Task& task, CommandContext& context) {
  UnitNexus& nexus = state_.nexuses.at(context.nexus_id);
  const ByteSpan cdb = task.command->cdb;
  const std::uint8_t opcode = cdb.empty() ? 0xFF : load8(cdb, 0);
  const bool reports_none = opcode == 0x12 || opcode == 0xA0 || opcode == 0x03;
  if (!reports_none &&
      !nexus.is_copy_managers) {  // SAM-5 §5.14.1: not INQUIRY, REPORT LUNS, REQUEST SENSE
    if (const auto code = nexus.memory->attentions.take()) {
      return check_condition({.key = SenseKey::UnitAttention, .code = *code});
    }
  }
  if (const auto row = find_command(cdb); !row) {
    return std::unexpected(row.error());
  }
  if (const auto outcome = check_reserved_bits(context.row, context.cdb); !outcome) {
    return outcome;
  }
  ReservationClass reservation = context.row.reservation;
  if (opcode == 0x1B && (load8(cdb, 4) & 0xF1) == 0x01) {
    reservation = ReservationClass::Harmless;  // to start the unit (SBC-3 Table 13)
  }
  if (state_.reservations.conflicts(context.nexus, reservation)) {
    return end_with(Status::ReservationConflict);
  }
  if (const auto outcome = check_sanitize(context); !outcome) {
    return outcome;
  }
  if (const auto outcome = check_access_state(context); !outcome) {
    return outcome;
  }
  if (context.row.needs_medium && state_.stopped) {
    return check_condition(
        {.key = SenseKey::NotReady, .code = SenseCode::InitializingCommandRequired});
  }
  return context.row.handler(context);
}

Outcome<void> LogicalUnit::check_access_state(const CommandContext& context) const {
  const AccessState state = state_.access.state(context.nexus.port);
  SenseCode code{};
  switch (state) {
    case AccessState::ActiveOptimized:
    case AccessState::ActiveNonOptimized:
      return {};
    case AccessState::Standby:
      code = SenseCode::StandbyAccessState;
      break;
    case AccessState::Unavailable:
      code = SenseCode::UnavailableAccessState;
      break;
    case AccessState::Transitioning:
      code = SenseCode::TransitioningAccessState;
      break;
  }
  const bool allowed =
      context.row.access == AccessClass::Any ||
      (context.row.access == AccessClass::Standby && state == AccessState::Standby);
  return allowed ? Outcome<void>{}
                 : Outcome<void>{check_condition({.key = SenseKey::NotReady, .code = code})};
}

void LogicalUnit::start(Task& task, CommandContext& context, Work& work) {
  if (!context.aborts.empty() || context.saves.has_value()) {
    defer(task, context, work);
  } else if (context.sanitize.has_value()) {
    start_sanitize(task, *std::move(context.sanitize), work);
  } else if (context.media.has_value()) {
    task.copy_list = context.copy_list;
    start_media(task, *std::move(context.media), work);
  } else {
    finish(task, work);
  }
}

void LogicalUnit::start_media(Task& task, MediaCommand media, Work& work) {
  const BlockRange range = media.range();
  task.media.emplace(*state_.device, std::move(media),
                     MediaRun::Buffers{.data_out = task.command->data_out,
                                       .data_in = task.command->data_in,
                                       .tuples = task.command->apart ? task.command->apart->tuples
                                                                     : MutableByteSpan{},
                                       .lend_to = task.command->lend_to},
                     task);
  const bool granted = ranges_.request(&task, range);
  task.state = granted ? Task::State::Running : Task::State::Blocked;
  if (granted) {
    work.media.push_back(&task);
  }
}

// A PERSISTENT RESERVE OUT ends when what it aborts has ended, and its image is durable.
void LogicalUnit::defer(Task& task, CommandContext& context, Work& work) {
  task.deferred = std::make_shared<Pending>([&task] { task.unit->end_deferred(task); });
  const std::vector<NexusName> victims = context.aborts;
  const auto is_victim = [&](NexusId id) {
    const auto nexus = state_.nexuses.find(id);
    return nexus != state_.nexuses.end() &&
           std::ranges::find(victims, nexus->second.name) != victims.end();
  };
  if (!victims.empty()) {
    abort_if([&](const Task& other) { return &other != &task && is_victim(other.command->nexus); },
             AbortedBy::Another, task.deferred, work);
    if (aca_.has_value() && is_victim(*aca_)) {
      clear_aca(work);
    }
  }
  if (context.saves.has_value()) {
    task.deferred->add();
    work.saves.push_back({.number = ++saves_, .image = *std::move(context.saves), .task = &task});
  }
  work.drop(task.deferred);
}

void LogicalUnit::end_media(Task& task, Work& work) {
  if (task.command == nullptr) {
    end_sanitize_pass(work);
    return;
  }
  keep_copy_result(task);
  task.failure = task.media->failure();
  if (task.row->direction == DataDirection::In) {
    task.given_bytes = task.media->bytes_delivered();
  }
  ranges_.release(&task);
  ranges_.grant([&work](Task* next) {
    next->state = Task::State::Running;
    work.media.push_back(next);
  });
  finish(task, work);
}

// The command leaves the task set, unless an ACA condition blocks it (SAM-5 §5.9.2).
void LogicalUnit::finish(Task& task, Work& work) {
  WEFT_ASSERT(task.state != Task::State::Finished, "a task ends once");
  const bool aborted = task.aborted_by != AbortedBy::Nobody;
  if (aca_.has_value() && !task.passes_aca && !aborted) {
    task.state = Task::State::Held;
    return;
  }
  task.state = Task::State::Finished;
  std::erase(tasks_, &task);
  ordering_ -= is_ordering(task.command->attribute) ? 1 : 0;
  const auto nexus = state_.nexuses.find(task.command->nexus);
  if (nexus != state_.nexuses.end()) {
    --nexus->second.tasks;
  }
  task.sends_aborted =
      task.aborted_by == AbortedBy::Another && state_.pages.values().task_aborted_status;
  task.sense_format = state_.pages.values().descriptor_sense ? SenseData::Format::Descriptor
                                                             : SenseData::Format::Fixed;
  for (const PendingPtr& waiter : task.waiters) {
    work.drop(waiter);
  }
  work.completed.push_back(&task);
  if (!aborted && task.failure.has_value() && task.failure->status == Status::CheckCondition) {
    apply_check_condition(task, work);
  }
  enable_tasks(work);
}

// ACA (SAM-5 §5.9) and QERR (SPC-4 §7.5.7).
void LogicalUnit::apply_check_condition(const Task& task, Work& work) {
  const NexusId nexus = task.command->nexus;
  const bool naca =
      task.row != nullptr && (control_octet(*task.row, task.command->cdb) & kNaca) != 0;
  const std::uint8_t queue_error = state_.pages.values().queue_error;
  if (queue_error != 0) {
    abort_if(
        [&](const Task& other) { return queue_error == 1 ? other.command->nexus != nexus : false; },
        AbortedBy::Another, nullptr, work);
    abort_if([&](const Task& other) { return other.command->nexus == nexus; }, AbortedBy::Itself,
             nullptr, work);
  }
  if (naca) {
    aca_ = nexus;
  } else if (task.command->attribute == TaskAttribute::Aca) {
    clear_aca(work);
  }
}

void LogicalUnit::clear_aca(Work& work) {
  if (!aca_.has_value()) {
    return;
  }
  aca_.reset();
  std::vector<Task*> held;
  std::ranges::copy_if(tasks_, std::back_inserter(held),
                       [](const Task* task) { return task->state == Task::State::Held; });
  for (Task* task : held) {
    if (task->state == Task::State::Held) {  // and not aborted by the end of one before
      finish(*task, work);  // holds it again if one before has caused another ACA condition
    }
  }
  enable_tasks(work);
}

}  // namespace weft::scsi
