#include "scsi/media.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.h"

namespace weft::scsi {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;  // policy: how much is copied at a time

SenseCode code_of(ProtectionFault fault) {
  switch (fault) {
    case ProtectionFault::Guard:
      return SenseCode::GuardCheckFailed;
    case ProtectionFault::ApplicationTag:
      return SenseCode::ApplicationTagCheckFailed;
    case ProtectionFault::ReferenceTag:
      return SenseCode::ReferenceTagCheckFailed;
  }
  std::unreachable();
}

Sense sense_of(BlockStatus status) {
  switch (status) {
    case BlockStatus::Ok:
      return {};
    case BlockStatus::ReadError:
      return {.key = SenseKey::MediumError, .code = SenseCode::UnrecoveredReadError};
    case BlockStatus::WriteError:
      return {.key = SenseKey::MediumError, .code = SenseCode::WriteError};
    case BlockStatus::NoSpace:
      return {.key = SenseKey::DataProtect, .code = SenseCode::SpaceAllocationFailed};
    case BlockStatus::ReadOnly:
      return {.key = SenseKey::DataProtect, .code = SenseCode::WriteProtected};
    case BlockStatus::OutOfRange:
      return {.key = SenseKey::IllegalRequest, .code = SenseCode::LbaOutOfRange};
    case BlockStatus::NoMedium:
      return {.key = SenseKey::NotReady, .code = SenseCode::MediumNotPresent};
  }
  std::unreachable();
}

}  // namespace

Sense sense_of(const ProtectionError& error, std::uint64_t lba) {
  return {.key = SenseKey::AbortedCommand,
          .code = code_of(error.fault),
          .information = lba + error.block};
}

BlockRange MediaCommand::range() const {
  if (kind == MediaKind::Flush || !copy_targets.empty()) {  // these have locks of their own
    return {};
  }
  const bool reads = kind == MediaKind::Read || kind == MediaKind::VerifyMedium ||
                     kind == MediaKind::VerifyData || kind == MediaKind::VerifyPattern;
  if (kind != MediaKind::Unmap && kind != MediaKind::Copy) {
    return {.lba = lba, .blocks = blocks, .writes = !reads};
  }
  BlockRange all{.writes = true};
  std::uint64_t end = 0;
  const auto include = [&](std::uint64_t first, std::uint64_t count) {
    all.lba = end == 0 ? first : std::min(all.lba, first);
    end = std::max(end, first + count);
  };
  for (const BlockRange& extent : extents) {
    include(extent.lba, extent.blocks);
  }
  for (const CopySegment& segment : segments) {
    include(segment.source, segment.blocks);
    include(segment.destination, segment.blocks);
  }
  all.blocks = end - all.lba;
  return all;
}

// What each kind does to each chunk of its blocks.
constinit const std::array<MediaRun::Plan, kMediaKinds> MediaRun::kPlans = [] {
  using enum Step;
  std::array<Plan, kMediaKinds> plans{};
  const auto plan = [&plans](MediaKind kind, Plan steps) {
    plans[std::to_underlying(kind)] = steps;
  };
  plan(MediaKind::Read, {Read, CheckMedium, Deliver});
  plan(MediaKind::Write, {TakeData, Write});
  plan(MediaKind::WriteAndVerify, {TakeData, Write, Read, CheckMedium, Compare});
  plan(MediaKind::VerifyMedium, {Read, CheckMedium});
  plan(MediaKind::VerifyData, {TakeData, Read, CheckMedium, Compare});
  plan(MediaKind::VerifyPattern, {TakePattern, Read, CheckMedium, ComparePattern});
  plan(MediaKind::CompareAndWrite, {TakeData, Read, CheckMedium, Compare, TakeSecond, Write});
  plan(MediaKind::OrWrite, {TakeData, Read, CheckMedium, Combine, Write});
  plan(MediaKind::WritePattern, {TakePattern, WriteFilled});
  plan(MediaKind::WriteZeroes, {Zero});
  plan(MediaKind::Unmap, {Step::Unmap});
  plan(MediaKind::Flush, {Step::Flush});
  plan(MediaKind::Copy, {Read, CheckMedium, TakeMedium, Write});
  return plans;
}();

MediaRun::MediaRun(BlockDevice& device, MediaCommand command, const Buffers& buffers, Owner& owner)
    : device_(device), command_(std::move(command)), buffers_(buffers), owner_(owner) {
  request_.client = this;
}

MediaRun::Progress MediaRun::advance() {
  const Plan& plan = kPlans[std::to_underlying(command_.kind)];
  for (;;) {
    if (awaits_answer_) {
      awaits_answer_ = false;
      if (result_.status != BlockStatus::Ok) {
        fail_device(result_);
      }
    }
    const bool chunk_ended = chunk_ == 0 || step_ == plan.size() || plan[step_] == Step::None;
    if (failure_.has_value() || stopped_.load(std::memory_order_relaxed) ||
        (chunk_ended && !begin_chunk())) {
      return Progress::Ended;
    }
    if (!begin(plan[step_++])) {
      continue;
    }
    awaits_answer_ = true;
    handoff_.store(kIdle, std::memory_order_relaxed);
    asked_->submit(request_);
    if (handoff_.exchange(kSubmitted, std::memory_order_acq_rel) != kAnswered) {
      return Progress::Waiting;
    }
  }
}

void MediaRun::handle_block_result(BlockRequest& /*request*/, const BlockResult& result) {
  result_ = result;
  if (handoff_.exchange(kAnswered, std::memory_order_acq_rel) == kSubmitted) {
    owner_.resume_media();
  }
}

// Copies go through small buffers; what needs none goes to the device at once, and COMPARE AND
// WRITE must compare everything before it writes anything (SBC-3 §5.2).
std::size_t MediaRun::chunk_blocks() const {
  switch (command_.kind) {
    case MediaKind::CompareAndWrite:
    case MediaKind::WriteZeroes:
      return command_.blocks;
    case MediaKind::Read:
    case MediaKind::Write:
      return is_direct() ? command_.blocks : kChunkBytes / command_.check.block_bytes;
    case MediaKind::WriteAndVerify:
    case MediaKind::VerifyMedium:
    case MediaKind::VerifyData:
    case MediaKind::VerifyPattern:
    case MediaKind::OrWrite:
    case MediaKind::WritePattern:
    case MediaKind::Unmap:
    case MediaKind::Flush:
    case MediaKind::Copy:
      break;
  }
  return kChunkBytes / command_.check.block_bytes;
}

bool MediaRun::begin_chunk() {
  step_ = 0;
  done_ += chunk_;
  if (command_.kind == MediaKind::Unmap) {
    chunk_ = done_ < command_.extents.size() ? 1 : 0;
  } else if (command_.kind == MediaKind::Flush) {
    chunk_ = done_ == 0 ? 1 : 0;
  } else if (command_.kind == MediaKind::Copy) {
    copy_ = next_copy();
    chunk_ = copy_.blocks;
  } else {
    chunk_ = std::min<std::uint64_t>(command_.blocks - done_, chunk_blocks());
  }
  return chunk_ != 0;
}

// A segment whose blocks go up is copied from its end, so that none is overwritten before it is
// read.
CopySegment MediaRun::next_copy() const {
  std::uint64_t before = done_;
  for (const CopySegment& segment : command_.segments) {
    if (before >= segment.blocks) {
      before -= segment.blocks;
      continue;
    }
    const std::uint64_t count = std::min<std::uint64_t>(segment.blocks - before, chunk_blocks());
    const std::uint64_t first =
        segment.destination > segment.source ? segment.blocks - before - count : before;
    CopySegment next = segment;
    next.source += first;
    next.destination += first;
    next.blocks = count;
    return next;
  }
  return {};
}

BlockDevice* MediaRun::copy_target(std::size_t target) const {
  return command_.copy_targets.empty() ? &device_ : command_.copy_targets[target].get();
}

bool MediaRun::is_direct() const {
  return (!has_tuples() || command_.has_tuples_apart) &&
         (command_.kind != MediaKind::Read ||
          buffers_.data_in.size() >= command_.blocks * command_.check.block_bytes);
}

ProtectionCheck MediaRun::check_at(std::uint64_t blocks) const {
  ProtectionCheck check = command_.check;
  if (command_.kind == MediaKind::Copy) {
    check.expected_reference = static_cast<std::uint32_t>(copy_.source);
    return check;
  }
  check.expected_reference = static_cast<std::uint32_t>(check.expected_reference + blocks);
  return check;
}

bool MediaRun::begin(Step step) {
  const std::size_t block = command_.transfer_block_bytes();
  request_ = {.lba = command_.lba + done_, .blocks = chunk_, .client = this};
  request_.force_unit_access = command_.force_unit_access;
  asked_ = &device_;
  switch (step) {
    case Step::None:
      return false;
    case Step::TakeData:
      take_data(done_ * block, chunk_, done_);
      return false;
    case Step::TakeSecond:
      take_data(command_.blocks * block, chunk_, done_);
      return false;
    case Step::TakePattern:
      take_data(0, 1, 0);
      return false;
    case Step::Read:
      prepare_read();
      return true;
    case Step::CheckMedium:
      check_medium();
      return false;
    case Step::Deliver:
      deliver();
      return false;
    case Step::Compare:
      compare(chunk_);
      return false;
    case Step::ComparePattern:
      compare(1);
      return false;
    case Step::Combine:
      combine();
      return false;
    case Step::TakeMedium:
      take_medium();
      return false;
    case Step::WriteFilled:
      fill_pattern();
      prepare_write();
      return true;
    case Step::Write:
      prepare_write();
      return true;
    case Step::Zero:
      request_.operation = BlockOperation::WriteZeroes;
      request_.may_unmap = command_.may_unmap;
      return true;
    case Step::Unmap:
      request_.operation = BlockOperation::Unmap;
      request_.lba = command_.extents[done_].lba;
      request_.blocks = command_.extents[done_].blocks;
      return true;
    case Step::Flush:
      request_.operation = BlockOperation::Flush;
      request_.lba = 0;
      request_.blocks = 0;
      return true;
  }
  std::unreachable();
}

void MediaRun::take_data(std::size_t first_octet, std::size_t blocks, std::uint64_t block_number) {
  const std::size_t bytes = command_.check.block_bytes;
  const ByteSpan sent =
      buffers_.data_out.subspan(first_octet, blocks * command_.transfer_block_bytes());
  source_ = sent;
  if (command_.fault) {
    fail_check(*command_.fault);
  }
  if (!has_tuples() || command_.has_tuples_apart) {
    return;
  }
  source_tuples_.resize(blocks * kTupleBytes);
  if (!command_.transfers_tuples) {  // SBC-3 §4.22.2: the device server makes them
    generate_protection(check_at(block_number), source_, source_tuples_);
    return;
  }
  source_copy_.resize(blocks * bytes);
  separate_protection(command_.check.block_bytes, sent, source_copy_, source_tuples_);
  source_ = source_copy_;
  if (const auto error = check_protection(check_at(block_number), source_, source_tuples_)) {
    fail_check(*error);
  }
}

// WRITE SAME: the block again and again, with reference tags that count (SBC-3 §5.52).
void MediaRun::fill_pattern() {
  const std::size_t bytes = command_.check.block_bytes;
  const std::vector<std::byte> pattern(source_.begin(), source_.end());
  source_copy_.resize(chunk_ * bytes);
  for (std::size_t i = 0; i < chunk_; ++i) {
    copy_bytes(MutableByteSpan{source_copy_}.subspan(i * bytes), pattern);
  }
  source_ = source_copy_;
  if (!has_tuples()) {
    return;
  }
  const std::uint32_t step = command_.check.type == ProtectionType::Type3 ? 0 : 1;
  ProtectionTuple tuple = load_tuple(source_tuples_);
  tuple.reference_tag += static_cast<std::uint32_t>(done_) * step;
  source_tuples_.resize(chunk_ * kTupleBytes);
  for (std::size_t i = 0; i < chunk_; ++i) {
    store_tuple(MutableByteSpan{source_tuples_}.subspan(i * kTupleBytes), tuple);
    tuple.reference_tag += step;
  }
}

void MediaRun::prepare_read() {
  const std::size_t bytes = chunk_ * command_.check.block_bytes;
  request_.operation = BlockOperation::Read;
  if (command_.kind == MediaKind::Copy) {
    request_.lba = copy_.source;
    asked_ = copy_target(copy_.source_target);
  }
  if (command_.kind == MediaKind::Read && is_direct()) {
    request_.read_into = buffers_.data_in.first(bytes);
    request_.tuples_into = buffers_.tuples;
    request_.lend_to = buffers_.lend_to;
    return;
  }
  medium_.resize(bytes);
  request_.read_into = medium_;
  if (has_tuples()) {
    medium_tuples_.resize(chunk_ * kTupleBytes);
    request_.tuples_into = medium_tuples_;
  }
}

void MediaRun::prepare_write() {
  request_.operation = BlockOperation::Write;
  if (command_.kind == MediaKind::Copy) {
    request_.lba = copy_.destination;
    asked_ = copy_target(copy_.destination_target);
  }
  request_.write_from = source_;
  if (command_.has_tuples_apart) {
    request_.tuples_from = buffers_.tuples;
    return;
  }
  request_.tuples_from = has_tuples() ? ByteSpan{source_tuples_} : ByteSpan{};
}

void MediaRun::check_medium() {
  if (!has_tuples() || !command_.check_medium || command_.has_tuples_apart) {
    return;
  }
  if (const auto error = check_protection(check_at(done_), medium_, medium_tuples_)) {
    fail_check(*error);
  }
}

// What does not fit into data-in is read all the same: that it could be read is what GOOD says.
void MediaRun::deliver() {
  const std::size_t block = command_.transfer_block_bytes();
  if (is_direct()) {
    delivered_ = command_.blocks * block;
    return;
  }
  if (command_.transfers_tuples) {
    source_copy_.resize(chunk_ * block);
    interleave_protection(command_.check.block_bytes, medium_, medium_tuples_, source_copy_);
  }
  const ByteSpan from = command_.transfers_tuples ? ByteSpan{source_copy_} : ByteSpan{medium_};
  const MutableByteSpan room = buffers_.data_in.subspan(delivered_);
  const std::size_t bytes = std::min(room.size(), from.size());
  copy_bytes(room, from.first(bytes));
  delivered_ += bytes;
}

void MediaRun::compare(std::size_t pattern_blocks) {
  const std::size_t bytes = command_.check.block_bytes;
  const std::size_t block = command_.transfer_block_bytes();
  for (std::size_t i = 0; i < chunk_; ++i) {
    const std::size_t of_source = i % pattern_blocks;
    const ByteSpan is = ByteSpan{medium_}.subspan(i * bytes, bytes);
    const ByteSpan should = source_.subspan(of_source * bytes, bytes);
    const auto [wrong, unused] = std::ranges::mismatch(is, should);
    std::size_t offset = static_cast<std::size_t>(wrong - is.begin());
    if (offset == bytes && command_.transfers_tuples) {
      const ByteSpan is_tuple = ByteSpan{medium_tuples_}.subspan(i * kTupleBytes, kTupleBytes);
      const ByteSpan tuple = ByteSpan{source_tuples_}.subspan(of_source * kTupleBytes, kTupleBytes);
      offset +=
          static_cast<std::size_t>(std::ranges::mismatch(is_tuple, tuple).in1 - is_tuple.begin());
    }
    if (offset < block) {
      // The offset in data-out; for a pattern, which each block is compared with, within it.
      const std::uint64_t before = pattern_blocks == 1 && command_.kind == MediaKind::VerifyPattern
                                       ? 0
                                       : (done_ + i) * block;
      fail_with({.key = SenseKey::Miscompare,
                 .code = SenseCode::MiscompareDuringVerify,
                 .information = before + offset});
      return;
    }
  }
}

void MediaRun::combine() {  // SBC-3 §5.7
  std::vector<std::byte> combined(medium_.size());
  std::ranges::transform(medium_, source_, combined.begin(), std::bit_or<>{});
  source_copy_ = std::move(combined);
  source_ = source_copy_;
  if (has_tuples()) {
    generate_protection(check_at(done_), source_, source_tuples_);
  }
}

// Application tags go along; guards and reference tags are those of the destination.
void MediaRun::take_medium() {
  source_ = medium_;
  if (!has_tuples()) {
    return;
  }
  ProtectionCheck check = command_.check;
  check.expected_reference = static_cast<std::uint32_t>(copy_.destination);
  source_tuples_.resize(chunk_ * kTupleBytes);
  generate_protection(check, source_, source_tuples_);
  for (std::size_t i = 0; i < chunk_; ++i) {
    const MutableByteSpan octets = MutableByteSpan{source_tuples_}.subspan(i * kTupleBytes);
    ProtectionTuple tuple = load_tuple(octets);
    tuple.application_tag =
        load_tuple(ByteSpan{medium_tuples_}.subspan(i * kTupleBytes)).application_tag;
    store_tuple(octets, tuple);
  }
}

// What a copy manager meets on the way is a failure of a copy target (SPC-4 §5.17.7.4).
void MediaRun::fail_with(const Sense& sense) {
  failure_ = Failure{.sense = sense};
  if (command_.kind == MediaKind::Copy) {
    failure_->sense = {.key = SenseKey::CopyAborted, .code = SenseCode::ThirdPartyDeviceFailure};
  }
}

void MediaRun::fail_check(const ProtectionError& error) {
  fail_with(sense_of(error, command_.lba + done_));
}

void MediaRun::fail_device(const BlockResult& result) {
  Sense sense = sense_of(result.status);
  const bool of_block =
      result.status == BlockStatus::ReadError || result.status == BlockStatus::WriteError;
  if (of_block && request_.operation != BlockOperation::Flush) {
    sense.information = result.lba.value_or(request_.lba);
  }
  fail_with(sense);
}

}  // namespace weft::scsi
