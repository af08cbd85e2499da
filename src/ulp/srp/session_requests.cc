// Requests of a session: credits, descriptors, responses, task management.

#include <algorithm>
#include <tuple>
#include <utility>

#include "ulp/srp/planted_bug.h"
#include "ulp/srp/session.h"

namespace weft::srp {
namespace {

constexpr std::uint64_t kTaskTag = 1ULL << 63;  // marks task management (R-SRPI-5)
constexpr std::size_t kFixedCdb = 16;
constexpr std::size_t kMaxCdb = kFixedCdb + std::size_t{63} * 4;

[[nodiscard]] std::uint64_t bytes_of(std::span<const LocalPiece> pieces) {
  std::uint64_t sum = 0;
  for (const LocalPiece& piece : pieces) {
    sum += piece.length;
  }
  return sum;
}

[[nodiscard]] std::int64_t residual_of(const wire::SrpRsp& header) {
  using Flag = wire::SrpResponseFlag;
  if (header.flags.has(Flag::DataInUnder)) {
    return header.data_in_residual;
  }
  if (header.flags.has(Flag::DataOutUnder)) {
    return header.data_out_residual;
  }
  if (header.flags.has(Flag::DataInOver)) {
    return -std::int64_t{header.data_in_residual};
  }
  return header.flags.has(Flag::DataOutOver) ? -std::int64_t{header.data_out_residual} : 0;
}

}  // namespace

Result<void> Session::submit(Request request, Instant now) {
  if (request.cdb.size() < 6 || request.cdb.size() > kMaxCdb || request.cdb.size() % 2 != 0 ||
      (request.cdb.size() > kFixedCdb && request.cdb.size() % 4 != 0)) {
    return fail(ErrorCode::InvalidArgument, "a CDB of {} octets", request.cdb.size());
  }
  if (state_ == PathState::Lost || state_ == PathState::FailFast || state_ == PathState::Idle) {
    return fail(ErrorCode::ShutDown, "the path is {}", name_of(state_));
  }
  if (queue_.size() >= options_.max_queued) {
    return fail(ErrorCode::OutOfMemory, "{} requests wait already", queue_.size());
  }
  queue_.push_back(std::move(request));
  send_queued(now);
  return {};
}

void Session::send_queued(Instant now) {
  while (state_ == PathState::Live && !queue_.empty()) {
    const std::int64_t kept = planted(PlantedBug::TaskCreditSpent) ? 0 : 1;
    if (credits_ <= kept) {
      return;
    }
    Request next = std::move(queue_.front());
    queue_.pop_front();
    if (!send(next, now)) {
      return;
    }
  }
}

/// False: the channel is lost.
bool Session::send(Request& request, Instant now) {
  Sent sent{.request = std::move(request)};
  const auto command = build(sent.request, sent);
  const std::uint64_t tag = next_tag_++;
  const auto place = remember(tag, std::move(sent));
  if (!command) {
    end(place, {.kind = Outcome::Kind::PathFailed});
    return true;
  }
  wire::SrpCommandUnit unit = *command;
  unit.header.tag = tag;
  --credits_;
  wire::put_unit(unit, wire::kSrpDefaultImmediateOffset, unit_);
  if (!connection_.post_send(unit_)) {
    lose_channel(now);
    return false;
  }
  return true;
}

std::map<std::uint64_t, Session::Sent>::iterator Session::remember(std::uint64_t tag, Sent sent) {
  if (spare_.empty()) {
    return sent_.emplace(tag, std::move(sent)).first;
  }
  spare_.key() = tag;
  spare_.mapped() = std::move(sent);
  return sent_.insert(std::move(spare_)).position;
}

bool Session::fits_immediate(const Request& request) const {
  return immediate_data_ && request.direction == Request::Direction::Out &&
         !request.immediate.empty() && request.cdb.size() <= 2 * kFixedCdb &&
         wire::kSrpDefaultImmediateOffset + request.immediate.size() <= max_request_iu_;
}

Result<wire::SrpCommandUnit> Session::build(const Request& request, Sent& sent) {
  wire::SrpCommandUnit unit{
      .header = {.lun = request.lun, .attribute = request.attribute}
  };
  const std::size_t fixed = std::min(request.cdb.size(), kFixedCdb);
  std::copy_n(request.cdb.begin(), fixed, unit.header.cdb.begin());
  unit.additional_cdb.assign(request.cdb.begin() + static_cast<std::ptrdiff_t>(fixed),
                             request.cdb.end());
  if (fits_immediate(request)) {
    unit.data_out = {.format = wire::SrpBufferFormat::Immediate,
                     .length = request.immediate.size()};
    unit.immediate_data = request.immediate;
    return unit;
  }
  if (request.direction == Request::Direction::None || request.memory.empty()) {
    return unit;
  }
  auto buffer = describe(request, sent);
  if (!buffer) {
    return std::unexpected(buffer.error());
  }
  (request.direction == Request::Direction::Out ? unit.data_out : unit.data_in) =
      *std::move(buffer);
  return unit;
}

/// One piece: direct. More: indirect, with as many descriptors in the unit as fit, and all of them
/// in memory (R-SRPI-6).
Result<wire::SrpDataBuffer> Session::describe(const Request& request, Sent& sent) {
  auto mapping = memory_.map(request.memory);
  if (!mapping) {
    return std::unexpected(mapping.error());
  }
  sent.mappings.push_back(mapping->token);
  wire::SrpDataBuffer buffer{.length = bytes_of(request.memory)};
  if (mapping->segments.size() == 1) {
    buffer.format = wire::SrpBufferFormat::Direct;
    buffer.descriptors = std::move(mapping->segments);
    return buffer;
  }
  const auto table = memory_.place_table(wire::to_octets(mapping->segments));
  if (!table) {
    return std::unexpected(table.error());
  }
  sent.mappings.push_back(table->token);
  const std::size_t additional = std::max(request.cdb.size(), kFixedCdb) - kFixedCdb;
  const std::size_t used =
      wire::kSizeOf<wire::SrpCmd> + additional + wire::kSizeOf<wire::SrpIndirectDescriptor>;
  const std::size_t room = max_request_iu_ < used ? 0 : (max_request_iu_ - used) / 16;
  const std::size_t listed = std::min({room, mapping->segments.size(), std::size_t{255}});
  buffer.format = wire::SrpBufferFormat::Indirect;
  buffer.table = table->segments.front();
  buffer.descriptors.assign(mapping->segments.begin(),
                            mapping->segments.begin() + static_cast<std::ptrdiff_t>(listed));
  return buffer;
}

void Session::handle_receive(ByteSpan unit, Instant now) {
  if (state_ != PathState::Live) {
    return;
  }
  const auto opcode = wire::srp_opcode(unit);
  if (!opcode) {
    violate(now);
    return;
  }
  switch (*opcode) {
    case wire::SrpOpcode::Rsp:
      handle_response(unit, now);
      break;
    case wire::SrpOpcode::CredReq:
      answer_credit(unit, now);
      break;
    case wire::SrpOpcode::AerReq:
      answer_event(unit, now);
      break;
    case wire::SrpOpcode::TLogout:
      lose_channel(now);
      break;
    default:
      violate(now);
      break;
  }
}

/// A target that says what no target says loses its channel.
void Session::violate(Instant now) {
  ++violations_;
  lose_channel(now);
}

void Session::handle_response(ByteSpan unit, Instant now) {
  const auto response = wire::parse_srp_response(unit);
  if (!response) {
    violate(now);
    return;
  }
  credits_ += response->header.request_limit_delta;
  const std::uint64_t tag = response->header.tag;
  if ((tag & kTaskTag) != 0) {
    handle_task_response(*response, now);
    send_queued(now);
    return;
  }
  auto sent = sent_.find(tag);
  if (sent == sent_.end() && planted(PlantedBug::LateResponseTaken) && !sent_.empty()) {
    sent = sent_.begin();
  }
  if (sent == sent_.end()) {  // of a request that was aborted, or of none
    violate(now);
    return;
  }
  end(sent, {
                .kind = Outcome::Kind::Answered,
                .status = response->header.status,
                .sense = {response->sense.begin(), response->sense.end()},
                .residual = residual_of(response->header)
  });
  send_queued(now);
}

void Session::answer_credit(ByteSpan unit, Instant now) {
  const auto request = wire::parse<wire::SrpCredReq>(unit);
  if (!request || !connection_.post_send(wire::to_unit(wire::SrpCredRsp{.tag = request->tag}))) {
    violate(now);
    return;
  }
  credits_ += request->request_limit_delta;
  send_queued(now);
}

void Session::answer_event(ByteSpan unit, Instant now) {
  const auto event = wire::parse_srp_aer(unit);
  if (!event || !connection_.post_send(wire::to_unit(wire::SrpAerRsp{.tag = event->header.tag}))) {
    violate(now);
    return;
  }
  credits_ += event->header.request_limit_delta;
  client_.handle_event(event->header.lun, event->sense);
  send_queued(now);
}

Result<void> Session::abort(std::uint64_t id, Instant now) {
  const auto waiting =
      std::ranges::find_if(queue_, [&](const Request& request) { return request.id == id; });
  if (waiting != queue_.end()) {
    queue_.erase(waiting);
    client_.handle_outcome(id, {.kind = Outcome::Kind::Aborted});
    return {};
  }
  const auto sent =
      std::ranges::find_if(sent_, [&](const auto& one) { return one.second.request.id == id; });
  if (sent == sent_.end()) {
    return fail(ErrorCode::NotFound, "no request {} is under way", id);
  }
  return manage({.function = wire::SrpTaskFunction::AbortTask,
                 .lun = sent->second.request.lun,
                 .task_tag = sent->first},
                now);
}

Result<void> Session::reset_unit(std::uint64_t lun, Instant now) {
  return manage({.function = wire::SrpTaskFunction::LogicalUnitReset, .lun = lun}, now);
}

Result<void> Session::manage(const Task& task, Instant now) {
  if (task_) {
    return fail(ErrorCode::Busy, "another task management function is under way");
  }
  if (state_ != PathState::Live || credits_ < 1) {
    return fail(ErrorCode::TryAgain, "the path is {}, with {} credits", name_of(state_), credits_);
  }
  task_ = task;
  task_->tag = kTaskTag | next_tag_++;
  task_->until = now + options_.task_timeout;
  --credits_;
  const wire::SrpTskMgmt unit{
      .tag = task_->tag, .lun = task.lun, .function = task.function, .task_tag = task.task_tag};
  if (!connection_.post_send(wire::to_unit(unit))) {
    lose_channel(now);
    return fail(ErrorCode::ShutDown, "the channel is lost");
  }
  return {};
}

/// What the function meant to abort has ended without a response (SAM-5 §5.6).
void Session::handle_task_response(const wire::SrpResponseUnit& response, Instant now) {
  if (!task_ || task_->tag != response.header.tag) {
    violate(now);
    return;
  }
  if (response.response_code != wire::SrpResponseCode::Complete) {
    escalate(now);
    return;
  }
  const Task task = *std::exchange(task_, std::nullopt);
  std::vector<std::uint64_t> ended;
  for (const auto& [tag, sent] : sent_) {
    const bool is_meant = task.function == wire::SrpTaskFunction::AbortTask
                              ? tag == task.task_tag
                              : sent.request.lun == task.lun && tag < (task.tag & ~kTaskTag);
    if (is_meant) {
      ended.push_back(tag);
    }
  }
  for (const std::uint64_t tag : ended) {
    end(sent_.find(tag), {.kind = Outcome::Kind::Aborted});
  }
}

void Session::escalate(Instant now) {
  const Task failed = *std::exchange(task_, std::nullopt);
  const bool was_reset = failed.function == wire::SrpTaskFunction::LogicalUnitReset;
  if (was_reset || !reset_unit(failed.lun, now)) {
    lose_channel(now);
  }
}

}  // namespace weft::srp
