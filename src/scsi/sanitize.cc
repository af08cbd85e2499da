// SANITIZE (SBC-3 §4.11, §5.26): OVERWRITE and BLOCK ERASE. CRYPTOGRAPHIC ERASE is for media that
// are encrypted, and no device here is.

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "scsi/sanitize_mark.h"
#include "scsi/task.h"

namespace weft::scsi {
namespace {

enum class Action : std::uint8_t { Overwrite = 0x01, BlockErase = 0x02, ExitFailureMode = 0x1F };

// The pattern as often as a block has room for it, and INVERT and OVERWRITE COUNT.
Outcome<void> parse_overwrite(CommandContext& context, std::size_t length, SanitizeOrder& order) {
  constexpr std::size_t kHeader = 4;
  const std::uint32_t block = context.unit.device->geometry().block_bytes;
  if (length <= kHeader || length > block + kHeader) {
    return invalid_field_in_cdb(7, 7);
  }
  const auto list = context.parameters(length);
  if (!list) {
    return std::unexpected(list.error());
  }
  order.passes = load8(*list, 0) & 0x1Fu;
  order.inverts = (load8(*list, 0) & 0x80) != 0;
  const std::size_t bytes = load16(*list, 2);
  if (order.passes == 0 || (load8(*list, 0) & 0x60) != 0) {
    return invalid_field_in_parameters(0);  // TEST: vendor specific
  }
  if (bytes == 0 || bytes > length - kHeader) {
    return invalid_field_in_parameters(2);
  }
  order.pattern.resize(block);
  for (std::size_t i = 0; i < block; ++i) {
    order.pattern[i] = (*list)[kHeader + i % bytes];
  }
  return {};
}

// A pass over all blocks.
void set_media(const UnitState& unit, SanitizeOrder& order) {
  const BlockGeometry geometry = unit.device->geometry();
  order.media = {.kind = order.erases ? MediaKind::WriteZeroes : MediaKind::WritePattern,
                 .blocks = geometry.blocks,
                 .force_unit_access = geometry.has_write_cache,
                 .may_unmap = order.erases};
  order.media.check.type = unit.options.protection;
  order.media.check.block_bytes = geometry.block_bytes;
}

[[nodiscard]] std::vector<std::byte> image_of(const SanitizeOrder& order, bool failed) {
  return SanitizeMark{.failed = failed,
                      .erases = order.erases,
                      .inverts = order.inverts,
                      .may_exit = order.may_exit,
                      .passes = static_cast<std::uint8_t>(order.passes),
                      .pattern = order.pattern}
      .image();
}

}  // namespace

Outcome<void> sanitize(CommandContext& context) {
  const std::uint8_t flags = load8(context.cdb, 1);
  const auto action = static_cast<Action>(flags & 0x1F);
  const std::size_t length = load16(context.cdb, 7);
  const BlockGeometry geometry = context.unit.device->geometry();
  SanitizeOrder order{.immediate = (flags & 0x80) != 0, .may_exit = (flags & 0x20) != 0};
  if (action == Action::Overwrite) {
    if (const auto outcome = parse_overwrite(context, length, order); !outcome) {
      return outcome;
    }
  } else if (length != 0) {
    return invalid_field_in_cdb(7, 7);
  } else if (action == Action::ExitFailureMode) {
    if (context.unit.sanitize == SanitizeState::Failed && !context.unit.sanitize_may_exit) {
      return invalid_field_in_cdb(1, 4);
    }
    order.exits = true;
    context.sanitize = std::move(order);
    return {};
  } else if (!geometry.can_discard) {
    return invalid_field_in_cdb(1, 4);  // BLOCK ERASE leaves blocks without space
  }
  if (context.unit.is_write_protected()) {
    return check_condition({.key = SenseKey::DataProtect, .code = SenseCode::WriteProtected});
  }
  order.erases = action == Action::BlockErase;
  set_media(context.unit, order);
  context.sanitize = std::move(order);
  return {};
}

// SBC-3 §4.11.2 and §4.11.3: what a unit still does.
Outcome<void> LogicalUnit::check_sanitize(const CommandContext& context) const {
  constexpr std::uint8_t kSanitize = 0x48;
  const bool always = context.row.reservation == ReservationClass::Always;
  if (sanitize_ != nullptr && sanitize_->order.exits && context.row.opcode == kSanitize) {
    return end_with(Status::Busy);  // EXIT FAILURE MODE is not over yet
  }
  switch (state_.sanitize) {
    case SanitizeState::None:
      return {};
    case SanitizeState::Running:
      if (always) {
        return {};
      }
      return check_condition({.key = SenseKey::NotReady,
                              .code = SenseCode::SanitizeInProgress,
                              .progress = state_.sanitize_progress});
    case SanitizeState::Failed:
      if (!context.row.needs_medium || context.row.opcode == kSanitize) {
        return {};
      }
      return check_condition(
          {.key = SenseKey::MediumError, .code = SenseCode::SanitizeCommandFailed});
  }
  std::unreachable();
}

void LogicalUnit::start_sanitize(Task& task, SanitizeOrder order, Work& work) {
  sanitize_ = std::make_unique<Sanitize>();
  sanitize_->order = std::move(order);
  sanitize_->run.unit = shared_from_this();
  sanitize_->waiter = &task;
  if (sanitize_->order.exits) {
    sanitize_->has_ended = true;
    keep_sanitize({}, work);
    return;
  }
  state_.sanitize = SanitizeState::Running;
  state_.sanitize_may_exit = sanitize_->order.may_exit;
  state_.sanitize_progress = 0;
  keep_sanitize(image_of(sanitize_->order, false), work);
}

// What a loss of power is not to undo is durable before the first block changes; and before anybody
// hears of the end, since what was written after that would be overwritten by another beginning.
void LogicalUnit::keep_sanitize(std::vector<std::byte> image, Work& work) {
  if (state_.options.sanitize_store == nullptr) {
    go_on_with_sanitize(true, work);
  } else {
    work.sanitize_image = std::move(image);
  }
}

void LogicalUnit::save_sanitize(std::vector<std::byte> image) {
  state_.options.sanitize_store->save(std::move(image), [self = shared_from_this()](bool is_kept) {
    Work work;
    {
      const std::scoped_lock hold(self->lock_);
      self->go_on_with_sanitize(is_kept, work);
    }
    self->perform(work);
  });
}

void LogicalUnit::go_on_with_sanitize(bool is_kept, Work& work) {
  if (is_kept && !sanitize_->has_ended && !sanitize_->is_abandoned) {
    begin_sanitize(work);
  } else {
    finish_sanitize(is_kept, work);
  }
}

void LogicalUnit::begin_sanitize(Work& work) {
  sanitize_->has_begun = true;
  begin_sanitize_pass();
  // After the commands that were there before it; of those that come, none needs blocks.
  if (ranges_.request(&sanitize_->run, sanitize_->order.media.range())) {
    work.media.push_back(&sanitize_->run);
  }
  if (sanitize_->order.immediate && sanitize_->waiter != nullptr) {
    finish(*std::exchange(sanitize_->waiter, nullptr), work);
  }
}

void LogicalUnit::begin_sanitize_pass() {
  sanitize_->run.media.emplace(
      *state_.device, sanitize_->order.media,
      MediaRun::Buffers{.data_out = sanitize_->order.pattern, .data_in = {}}, sanitize_->run);
}

void LogicalUnit::end_sanitize_pass(Work& work) {
  constexpr unsigned kWhole = 65536;
  SanitizeOrder& order = sanitize_->order;
  const std::optional<Failure> failure = sanitize_->run.media->failure();
  const bool is_cut_off = failure.has_value() || sanitize_->is_abandoned;
  if (!is_cut_off && ++sanitize_->passes_done < order.passes) {
    state_.sanitize_progress =
        static_cast<std::uint16_t>(kWhole * sanitize_->passes_done / order.passes);
    if (order.inverts) {
      std::ranges::transform(order.pattern, order.pattern.begin(), std::bit_not<>{});
    }
    begin_sanitize_pass();
    work.media.push_back(&sanitize_->run);
    return;
  }
  sanitize_->has_ended = true;
  sanitize_->has_failed = failure.has_value();
  if (sanitize_->is_abandoned) {
    finish_sanitize(true, work);
  } else {
    keep_sanitize(failure.has_value() ? image_of(order, true) : std::vector<std::byte>{}, work);
  }
}

void LogicalUnit::finish_sanitize(bool is_kept, Work& work) {
  const std::unique_ptr<Sanitize> ended = std::move(sanitize_);
  if (ended->has_begun) {
    state_.sanitize = ended->has_failed || !is_kept ? SanitizeState::Failed : SanitizeState::None;
    ranges_.release(&ended->run);
    ranges_.grant([&work](Task* next) {
      next->state = Task::State::Running;
      work.media.push_back(next);
    });
  } else if (is_kept || !ended->order.exits) {
    state_.sanitize = SanitizeState::None;  // no block has changed; or the failure is forgotten
  }
  for (const PendingPtr& waiter : ended->run.waiters) {
    work.drop(waiter);
  }
  if (ended->waiter == nullptr) {
    return;
  }
  if (ended->has_failed) {
    ended->waiter->failure = Failure{
        .sense = {.key = SenseKey::MediumError, .code = SenseCode::SanitizeCommandFailed}
    };
  } else if (!is_kept) {
    ended->waiter->failure = Failure{
        .sense = {.key = SenseKey::HardwareError, .code = SenseCode::InternalTargetFailure}
    };
  }
  finish(*ended->waiter, work);
}

Result<void> LogicalUnit::restore_sanitize(ByteSpan image) {
  const auto mark = SanitizeMark::parse(image);
  if (!mark) {
    return std::unexpected(mark.error());
  }
  const BlockGeometry geometry = state_.device->geometry();
  const std::size_t wanted = mark->erases ? 0 : geometry.block_bytes;
  if (geometry.read_only || mark->pattern.size() != wanted || mark->passes == 0) {
    return fail(ErrorCode::Io, "what is kept of a SANITIZE is of another disk than this one");
  }
  Work work;
  {
    const std::scoped_lock hold(lock_);
    state_.sanitize_may_exit = mark->may_exit;
    state_.sanitize = mark->failed ? SanitizeState::Failed : SanitizeState::Running;
    if (!mark->failed) {
      sanitize_ = std::make_unique<Sanitize>();
      sanitize_->run.unit = shared_from_this();
      sanitize_->order = {.erases = mark->erases,
                          .pattern = mark->pattern,
                          .passes = mark->passes,
                          .inverts = mark->inverts,
                          .may_exit = mark->may_exit};
      set_media(state_, sanitize_->order);
      begin_sanitize(work);
    }
  }
  perform(work);
  return {};
}

// What RECEIVE COPY RESULTS tells of a copy that has ended.
void LogicalUnit::keep_copy_result(const Task& task) {
  const auto nexus = state_.nexuses.find(task.command->nexus);
  if (!task.copy_list.has_value() || nexus == state_.nexuses.end()) {
    return;
  }
  const auto found = nexus->second.memory->copies.find(*task.copy_list);
  if (found == nexus->second.memory->copies.end()) {
    return;
  }
  CopyResult& result = found->second;
  const bool failed = task.media->failure().has_value() || task.aborted_by != AbortedBy::Nobody;
  result.status = failed ? CopyResult::Status::Failed : CopyResult::Status::Completed;
  result.bytes_copied = task.media->done() * state_.device->geometry().block_bytes;
  result.segments = failed ? 0 : result.segments;
}

}  // namespace weft::scsi
