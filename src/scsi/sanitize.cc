// SANITIZE (SBC-3 §4.11, §5.26): OVERWRITE and BLOCK ERASE. CRYPTOGRAPHIC ERASE is for media that
// are encrypted, and no device here is.

#include <algorithm>
#include <functional>
#include <utility>

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
    context.unit.sanitize = SanitizeState::None;
    return {};
  } else if (!geometry.can_discard) {
    return invalid_field_in_cdb(1, 4);  // BLOCK ERASE leaves blocks without space
  }
  if (context.unit.is_write_protected()) {
    return check_condition({.key = SenseKey::DataProtect, .code = SenseCode::WriteProtected});
  }
  order.media = {
      .kind = action == Action::Overwrite ? MediaKind::WritePattern : MediaKind::WriteZeroes,
      .blocks = geometry.blocks,
      .force_unit_access = geometry.has_write_cache,
      .may_unmap = action == Action::BlockErase};
  order.media.check.type = context.unit.options.protection;
  order.media.check.block_bytes = geometry.block_bytes;
  context.sanitize = std::move(order);
  return {};
}

// SBC-3 §4.11.2 and §4.11.3: what a unit still does.
Outcome<void> LogicalUnit::check_sanitize(const CommandContext& context) const {
  constexpr std::uint8_t kSanitize = 0x48;
  const bool always = context.row.reservation == ReservationClass::Always;
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
  state_.sanitize = SanitizeState::Running;
  state_.sanitize_may_exit = order.may_exit;
  state_.sanitize_progress = 0;
  sanitize_ = std::make_unique<Sanitize>();
  sanitize_->order = std::move(order);
  sanitize_->run.unit = shared_from_this();
  begin_sanitize_pass();
  // After the commands that were there before it; of those that come, none needs blocks.
  if (ranges_.request(&sanitize_->run, sanitize_->order.media.range())) {
    work.media.push_back(&sanitize_->run);
  }
  if (sanitize_->order.immediate) {
    finish(task, work);
  } else {
    sanitize_->waiter = &task;
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
  if (!failure.has_value() && ++sanitize_->passes_done < order.passes) {
    state_.sanitize_progress =
        static_cast<std::uint16_t>(kWhole * sanitize_->passes_done / order.passes);
    if (order.inverts) {
      std::ranges::transform(order.pattern, order.pattern.begin(), std::bit_not<>{});
    }
    begin_sanitize_pass();
    work.media.push_back(&sanitize_->run);
    return;
  }
  const std::unique_ptr<Sanitize> ended = std::move(sanitize_);
  state_.sanitize = failure.has_value() ? SanitizeState::Failed : SanitizeState::None;
  ranges_.release(&ended->run);
  ranges_.grant([&work](Task* next) {
    next->state = Task::State::Running;
    work.media.push_back(next);
  });
  for (const PendingPtr& waiter : ended->run.waiters) {
    work.drop(waiter);
  }
  if (ended->waiter != nullptr) {
    if (failure.has_value()) {
      ended->waiter->failure = Failure{
          .sense = {.key = SenseKey::MediumError, .code = SenseCode::SanitizeCommandFailed}
      };
    }
    finish(*ended->waiter, work);
  }
}

// What RECEIVE COPY RESULTS tells of a copy that has ended.
void LogicalUnit::keep_copy_result(const Task& task) {
  const auto nexus = state_.nexuses.find(task.command->nexus);
  if (!task.copy_list.has_value() || nexus == state_.nexuses.end()) {
    return;
  }
  const auto found = nexus->second.copies.find(*task.copy_list);
  if (found == nexus->second.copies.end()) {
    return;
  }
  CopyResult& result = found->second;
  const bool failed = task.media->failure().has_value() || task.aborted_by != AbortedBy::Nobody;
  result.status = failed ? CopyResult::Status::Failed : CopyResult::Status::Completed;
  result.bytes_copied = task.media->done() * state_.device->geometry().block_bytes;
  result.segments = failed ? 0 : result.segments;
}

}  // namespace weft::scsi
