#include "programs/srp/session_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <bit>
#include <chrono>
#include <future>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/loop/waiter.h"
#include "scsi/lun.h"
#include "ulp/srp/port_name.h"

namespace weft::programs::srp {

using disk::DiskAnswer;
using disk::DiskCommand;
using weft::srp::Outcome;
using weft::srp::PathState;
using weft::srp::Request;

namespace {

constexpr Duration kReconnectDelay = Duration::seconds(1);  // policy
constexpr std::chrono::seconds kLoginPatience{10};          // policy

[[nodiscard]] std::uint64_t random_extension() {
  std::array<std::byte, sizeof(std::uint64_t)> octets{};
  iscsi::LibcryptoChap{}.fill_random(octets);
  return std::bit_cast<std::uint64_t>(octets);
}

}  // namespace

/// A command from its submission to its outcome, and the thread that waits for it.
class SessionPath::Call {
 public:
  BufferPool::Lease buffer;  ///< empty: no data
  Request request;
  Call* next{};  ///< of those that are to be submitted

  void end(const Outcome& outcome) {
    outcome_ = outcome;
    ended_.wake();
  }
  [[nodiscard]] bool wait_for(Duration span) { return ended_.wait_for(span); }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  Outcome outcome_{.kind = Outcome::Kind::PathFailed};
  Waiter ended_;
};

SessionPath::SessionPath(std::vector<TargetUrl> targets, PathOptions options, Log log)
    : targets_(std::move(targets)), options_(std::move(options)), log_(std::move(log)) {
  WEFT_ASSERT(!targets_.empty(), "a unit is at the end of a path");
}

SessionPath::~SessionPath() {
  if (!thread_.joinable()) {
    return;
  }
  asio::post(loop_, [this] {
    is_ending_ = true;
    timer_.set(Instant::never());
    status_.reset();
    for (const auto& leg : legs_) {
      leg->stop();
    }
    legs_.clear();  // in their own thread, after their channels
    multipath_.reset();
    device_.reset();
    loop_.stop();
  });
  thread_.join();
}

Result<void> SessionPath::open() {
  for (const TargetUrl& target : targets_) {
    if (target.lun != targets_.front().lun) {
      return fail(ErrorCode::InvalidArgument, "LUN {} and LUN {} are not paths to one unit",
                  targets_.front().lun, target.lun);
    }
  }
  thread_ = std::thread{[this] {
    const auto work = asio::make_work_guard(loop_);
    loop_.run();
  }};
  std::promise<Result<void>> started;
  asio::post(loop_, [&] { started.set_value(start()); });
  if (auto begun = started.get_future().get(); !begun) {
    return begun;
  }
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, kLoginPatience, [this] { return is_decided_; });
  if (is_foreign_) {
    return fail(ErrorCode::InvalidArgument, "{}", reason_);
  }
  if (is_usable_) {
    return {};
  }
  return fail(ErrorCode::Io, "{}", reason_.empty() ? "no answer to the login" : reason_);
}

Gid SessionPath::source_gid() {
  std::promise<Gid> found;
  asio::post(loop_, [&] { found.set_value(legs_.front()->source_gid()); });
  return found.get_future().get();
}

/// In the loop's thread.
Result<void> SessionPath::start() {
  auto device = InitiatorDevice::open(loop_, options_.device);
  if (!device) {
    return std::unexpected(device.error());
  }
  device_ = *std::move(device);
  verdicts_.assign(targets_.size(), Verdict::Pending);
  weft::srp::MultipathClient& client = *this;
  multipath_ = std::make_unique<weft::srp::Multipath>(client, weft::srp::PathChoice::PreferFirst);
  for (const TargetUrl& target : targets_) {
    const auto options = options_of(target);
    if (!options) {
      return std::unexpected(options.error());
    }
    SessionLegClient& told = *this;
    legs_.push_back(std::make_unique<SessionLeg>(*device_, legs_.size(), target, *options, told));
    const std::size_t path = multipath_->add_path(legs_.back()->session());
    multipath_->set_usable(path, !has_several(), os::now());
  }
  initiator_ = legs_.front()->initiator();
  if (options_.answers_status) {
    auto status = StatusSocket::open(loop_, "attach", [this] { return to_json(report()); });
    if (status) {
      status_ = *std::move(status);
    } else {
      log_(status.error().reason);  // on a machine that is no simulated host, nobody asks
    }
  }
  for (const auto& leg : legs_) {
    leg->start(has_several());
  }
  settle();
  return {};
}

/// Of several paths, each is an initiator of its own, so that a login ends the channel of before of
/// its own path alone; unless who it is has been said. What a lost path's target has received is
/// not to be executed after what another path writes, so that all data is fetched from here, which
/// a lost channel does not allow any more: no immediate data.
Result<SessionLegOptions> SessionPath::options_of(const TargetUrl& target) {
  const bool has_name = target.initiator.has_value() || !options_.initiator.empty();
  SessionLegOptions made{
      .session = {.initiator_port_id =
                      initiator_port_id(target, random_extension(), device_->guid()),
                  .target_port_id = target.port_id,
                  .wants_immediate_data = !options_.no_immediate_data && !has_several(),
                  .multichannel = options_.keeps_channels || (has_several() && has_name)
                                      ? wire::SrpMultichannel::Independent
                                      : wire::SrpMultichannel::Single,
                  .reconnect_delay = kReconnectDelay,
                  .fast_io_fail = Duration::seconds(options_.fast_fail_seconds),
                  .dev_loss = Duration::seconds(options_.dev_loss_seconds)},
      .asks_designators = has_several()
  };
  if (target.initiator) {
    made.session.initiator_port_id = *target.initiator;
  }
  if (!options_.initiator.empty()) {
    const auto parsed = weft::srp::parse_port_id(options_.initiator);
    if (!parsed) {
      return std::unexpected(parsed.error());
    }
    made.session.initiator_port_id = *parsed;
  }
  return made;
}

AttachReport SessionPath::report() const {
  AttachReport report{.pid = getpid(),
                      .lun = targets_.front().lun,
                      .initiators = {},
                      .commands = next_call_.load(std::memory_order_relaxed) - 1,
                      .paths = {}};
  for (const auto& leg : legs_) {
    report.initiators.push_back(leg->initiator());
    report.paths.push_back(leg->status());
    report.paths.back().is_in_use = multipath_->next_path() == leg->index();
  }
  return report;
}

void SessionPath::act(std::function<void(Instant)> act) {
  asio::post(loop_, [this, act = std::move(act)] {
    act(os::now());
    settle();
  });
}

void SessionPath::settle() {
  if (is_ending_) {
    return;
  }
  Instant deadline = Instant::never();
  for (const auto& leg : legs_) {
    deadline = std::min(deadline, leg->deadline());
  }
  timer_.set(deadline);
}

void SessionPath::expire() {
  if (is_ending_) {
    return;
  }
  for (const auto& leg : legs_) {
    leg->handle_timeout(os::now());
  }
  settle();
}

void SessionPath::say(const std::string& reason) {
  {
    const std::lock_guard lock{mutex_};
    reason_ = reason;
  }
  log_(reason);
}

void SessionPath::judge(const SessionLeg& leg, Verdict verdict) {
  verdicts_[leg.index()] = verdict;
  {
    const std::lock_guard lock{mutex_};
    const auto is = [this](Verdict wanted) {
      return std::ranges::find(verdicts_, wanted) != verdicts_.end();
    };
    is_decided_ = is_decided_ || !is(Verdict::Pending);
    is_usable_ = is(Verdict::Usable);
    is_foreign_ = is_foreign_ || is(Verdict::Foreign);
  }
  changed_.notify_all();
}

void SessionPath::handle_state(SessionLeg& leg, PathState state) {
  log_(fmt::format("path {}: {}", leg.index() + 1, name_of(state)));
  const bool is_live = state == PathState::Live;
  if (!is_live && has_several()) {
    multipath_->set_usable(leg.index(), false, os::now());
  }
  multipath_->handle_path_state(leg.index(), state, os::now());
  const bool may_come_back = verdicts_[leg.index()] != Verdict::Foreign;
  if (is_live && !has_several()) {
    judge(leg, Verdict::Usable);
  } else if (!is_live && state != PathState::Connecting && may_come_back) {
    judge(leg, Verdict::Failed);
  }
}

/// The first path that tells says which unit it is.
void SessionPath::handle_designators(SessionLeg& leg, const Result<std::vector<std::byte>>& found) {
  if (!found && verdicts_[leg.index()] == Verdict::Usable) {
    return;  // it has told already, and is busy
  }
  if (found && designators_.empty()) {
    designators_ = *found;
  }
  if (found && *found == designators_) {
    judge(leg, Verdict::Usable);
    multipath_->set_usable(leg.index(), true, os::now());
    return;
  }
  const std::string reason =
      fmt::format("{}: {}", leg.status().where,
                  found ? "another unit than that of the first path" : found.error().reason);
  say(reason);
  judge(leg, Verdict::Foreign);
  // From outside the session's own call.
  act([this, &leg, reason](Instant) {
    if (!is_ending_) {
      leg.give_up(reason);
    }
  });
}

void SessionPath::handle_reason(SessionLeg& leg, const std::string& reason) {
  say(has_several() ? fmt::format("path {}: {}", leg.index() + 1, reason) : reason);
}

void SessionPath::handle_outcome(SessionLeg& leg, std::uint64_t id, const Outcome& outcome) {
  multipath_->handle_outcome(leg.index(), id, outcome, os::now());
}

void SessionPath::handle_outcome(std::uint64_t id, const Outcome& outcome) {
  const auto found = calls_.find(id);
  WEFT_ASSERT(found != calls_.end(), "a request ends once");
  Call* const call = found->second;
  calls_.erase(found);
  call->end(outcome);
}

DiskAnswer SessionPath::execute(const DiskCommand& command) {
  Call call;
  call.request.lun = scsi::lun_address(scsi::Lun{targets_.front().lun});
  call.request.cdb = {command.cdb.begin(), command.cdb.end()};
  const std::size_t bytes = std::max(command.data_out.size(), command.data_in.size());
  if (bytes != 0) {
    auto buffer = device_->buffers().take(bytes);
    if (!buffer) {
      return {.kind = DiskAnswer::Kind::Gone, .reason = buffer.error().reason};
    }
    call.buffer = *std::move(buffer);
    const bool writes = !command.data_out.empty();
    call.request.direction = writes ? Request::Direction::Out : Request::Direction::In;
    call.request.memory = {
        {.address = call.buffer->address(), .length = static_cast<std::uint32_t>(bytes)}
    };
    if (writes) {
      copy_bytes(call.buffer->octets(), command.data_out);
      call.request.immediate = call.buffer->octets().first(bytes);
    }
  }
  const std::uint64_t id = next_call_.fetch_add(1, std::memory_order_relaxed);
  call.request.id = id;
  if (submitted_.push(call)) {
    asio::post(loop_, [this] { submit_all(); });
  }
  while (!call.wait_for(Duration::seconds(options_.timeout_seconds))) {
    log_(fmt::format("command {} is not answered, and aborted", id));
    // The session aborts, resets or makes a new channel, so that this ends.
    act([this, id](Instant now) { std::ignore = multipath_->abort(id, now); });
  }
  return answer_of(call, command);
}

void SessionPath::submit_all() {
  submitted_.take_all([this, now = os::now()](Call& call) {
    const std::uint64_t id = call.request.id;
    calls_.emplace(id, &call);
    // What was interrupted is sent again by the disk, which knows what may be executed twice.
    if (const auto sent = multipath_->submit(call.request, false, now); !sent) {
      calls_.erase(id);
      call.end({.kind = Outcome::Kind::PathFailed});
    }
  });
  settle();
}

DiskAnswer SessionPath::answer_of(Call& call, const DiskCommand& command) {
  const Outcome& outcome = call.outcome();
  if (outcome.kind == Outcome::Kind::Answered) {
    const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(outcome.residual, 0));
    const std::size_t came = command.data_in.size() - std::min(missing, command.data_in.size());
    if (came != 0) {
      copy_bytes(command.data_in, ByteSpan{call.buffer->octets()}.first(came));
    }
    return {.kind = DiskAnswer::Kind::Answered,
            .status = static_cast<scsi::Status>(outcome.status),
            .sense = outcome.sense,
            .data_in_bytes = came};
  }
  const bool may_come_again = outcome.kind != Outcome::Kind::PathFailed;
  const std::lock_guard lock{mutex_};
  return {.kind = may_come_again ? DiskAnswer::Kind::Interrupted : DiskAnswer::Kind::Gone,
          .reason = outcome.kind == Outcome::Kind::Aborted
                        ? "the target did not answer in time"
                        : fmt::format("there is no path to the unit: {}", reason_)};
}

}  // namespace weft::programs::srp
