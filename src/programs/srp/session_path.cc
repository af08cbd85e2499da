#include "programs/srp/session_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <bit>
#include <chrono>
#include <future>
#include <semaphore>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/srp/target_names.h"
#include "scsi/lun.h"
#include "wire/srp/login.h"

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

  void end(const Outcome& outcome) {
    outcome_ = outcome;
    ended_.release();
  }
  [[nodiscard]] bool wait_for(std::chrono::seconds span) { return ended_.try_acquire_for(span); }
  void wait() { ended_.acquire(); }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  Outcome outcome_{.kind = Outcome::Kind::PathFailed};
  std::binary_semaphore ended_{0};
};

SessionPath::SessionPath(TargetUrl target, PathOptions options, Log log)
    : target_(std::move(target)), options_(std::move(options)), log_(std::move(log)) {}

SessionPath::~SessionPath() {
  if (!thread_.joinable()) {
    return;
  }
  asio::post(loop_, [this] {
    timer_.cancel();
    status_.reset();
    if (session_ != nullptr) {
      link_->linger();
      session_->stop(os::now());
    }
    link_.reset();  // in its own thread, after its channels
    loop_.stop();
  });
  thread_.join();
}

Result<void> SessionPath::open() {
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
  const bool ended = changed_.wait_for(lock, kLoginPatience, [this] { return is_settled_; });
  if (ended && state_ == PathState::Live) {
    return {};
  }
  return fail(ErrorCode::Io, "{}", reason_.empty() ? "no answer to the login" : reason_);
}

/// In the loop's thread.
Result<void> SessionPath::start() {
  auto link = InitiatorLink::open(loop_, target_, options_.device, *this);
  if (!link) {
    return std::unexpected(link.error());
  }
  link_ = *std::move(link);
  initiator_ = port_id_of(random_extension(), link_->device_guid());
  if (target_.initiator) {
    initiator_ = *target_.initiator;
  }
  if (!options_.initiator.empty()) {
    const auto parsed = weft::srp::parse_port_id(options_.initiator);
    if (!parsed) {
      return std::unexpected(parsed.error());
    }
    initiator_ = *parsed;
  }
  weft::srp::SessionClient& client = *this;
  session_ = std::make_unique<weft::srp::Session>(
      client, *link_, *link_,
      weft::srp::SessionOptions{.initiator_port_id = initiator_,
                                .target_port_id = target_.port_id,
                                .wants_immediate_data = !options_.no_immediate_data,
                                .reconnect_delay = kReconnectDelay,
                                .fast_io_fail = Duration::seconds(options_.fast_fail_seconds),
                                .dev_loss = Duration::seconds(options_.dev_loss_seconds)});
  if (options_.answers_status) {
    auto status = StatusSocket::open(loop_, "attach", [this] { return to_json(report()); });
    if (status) {
      status_ = *std::move(status);
    } else {
      log_(status.error().reason);  // on a machine that is no simulated host, nobody asks
    }
  }
  session_->start(os::now());
  settle();
  return {};
}

AttachReport SessionPath::report() {
  const std::lock_guard lock{mutex_};
  return {
      .pid = getpid(),
      .lun = target_.lun,
      .initiators = {initiator_},
      .commands = next_call_.load(std::memory_order_relaxed) - 1,
      .paths = {{.where = link_->where(),
                 .target = target_.port_id,
                 .state = state_,
                 .is_in_use = state_ == PathState::Live,
                 .credits = session_->credits(),
                 .outstanding = session_->outstanding(),
                 .queued = session_->queued(),
                 .logins = logins_,
                 .losses = losses_,
                 .last_failure = reason_}}
  };
}

void SessionPath::act(std::function<void(Instant)> act) {
  asio::post(loop_, [this, act = std::move(act)] {
    act(os::now());
    settle();
  });
}

void SessionPath::settle() {
  const Instant deadline = session_->deadline();
  if (deadline == Instant::never()) {
    timer_.cancel();
    return;
  }
  const Duration left = deadline - os::now();
  timer_.expires_after(std::chrono::nanoseconds{std::max<std::int64_t>(left.nanoseconds(), 0)});
  timer_.async_wait([this](const std::error_code& error) {
    if (!error && link_ != nullptr) {
      session_->handle_timeout(os::now());
      settle();
    }
  });
}

void SessionPath::say(const std::string& reason) {
  {
    const std::lock_guard lock{mutex_};
    reason_ = reason;
  }
  log_(reason);
}

void SessionPath::handle_path_state(PathState state) {
  logins_ += state == PathState::Live ? 1 : 0;
  losses_ += state == PathState::Blocked ? 1 : 0;
  {
    const std::lock_guard lock{mutex_};
    state_ = state;
    is_settled_ = is_settled_ || state != PathState::Connecting;
  }
  changed_.notify_all();
  log_(fmt::format("session: {}", name_of(state)));
}

void SessionPath::handle_connected(ByteSpan login_rsp) {
  session_->handle_connected(login_rsp, os::now());
  settle();
}

void SessionPath::handle_refused(ByteSpan login_rej, const std::string& reason) {
  const auto rejection = wire::parse<wire::SrpLoginRej>(login_rej);
  say(rejection && rejection->opcode == wire::SrpOpcode::LoginRej
          ? fmt::format("{}: {}", reason, name_of(rejection->reason))
          : reason);
  session_->handle_rejected(login_rej, os::now());
  settle();
}

void SessionPath::handle_stale(const std::string& reason) {
  say(reason);
  session_->handle_stale(os::now());
  settle();
}

void SessionPath::handle_lost(const std::string& reason) {
  say(reason);
  session_->handle_lost(os::now());
  settle();
}

void SessionPath::handle_unit(ByteSpan unit) {
  session_->handle_receive(unit, os::now());
  settle();
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
  call.request.lun = scsi::lun_address(scsi::Lun{target_.lun});
  call.request.cdb = {command.cdb.begin(), command.cdb.end()};
  const std::size_t bytes = std::max(command.data_out.size(), command.data_in.size());
  if (bytes != 0) {
    auto buffer = link_->buffers().take(bytes);
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
  act([this, id, &call](Instant now) {
    calls_.emplace(id, &call);
    if (const auto sent = session_->submit(call.request, now); !sent) {
      calls_.erase(id);
      call.end({.kind = Outcome::Kind::PathFailed});
    }
  });
  while (!call.wait_for(std::chrono::seconds{options_.timeout_seconds})) {
    log_(fmt::format("command {} is not answered, and aborted", id));
    // The session aborts, resets or makes a new channel, so that this ends.
    act([this, id](Instant now) { std::ignore = session_->abort(id, now); });
  }
  return answer_of(call, command);
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
                        : fmt::format("the session is {}: {}", name_of(state_), reason_)};
}

}  // namespace weft::programs::srp
