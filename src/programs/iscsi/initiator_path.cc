#include "programs/iscsi/initiator_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "iscsi/text.h"
#include "os/clock.h"
#include "programs/loop/waiter.h"

namespace weft::programs::iscsi {

using disk::DiskAnswer;
using disk::DiskCommand;
using weft::iscsi::InitiatorCommand;
using weft::iscsi::InitiatorOutcome;
using weft::iscsi::SessionState;

/// A command from its submission to its outcome, and the thread that waits for it.
class InitiatorPath::Call final : public weft::iscsi::InitiatorClient {
 public:
  Call(std::uint64_t lun, const DiskCommand& command, const LinkKind& kind) {
    command_.lun = lun;
    command_.cdb = {command.cdb.begin(), command.cdb.end()};
    command_.client = this;
    if (!command.data_out.empty()) {
      command_.data_out = kind.allocate(command.data_out.size());
      copy_bytes(command_.data_out.octets(), command.data_out);
    }
    if (!command.data_in.empty()) {
      command_.data_in = kind.allocate(command.data_in.size());
    }
  }
  [[nodiscard]] InitiatorCommand& command() { return command_; }
  /// The session's timeouts end every command.
  void wait() {
    while (!ended_.wait_for(Duration::seconds(3600))) {
    }
  }
  [[nodiscard]] const InitiatorOutcome& outcome() const { return outcome_; }

  Call* next{};  ///< of those that are to be submitted

  void handle_outcome(InitiatorCommand& /*command*/, const InitiatorOutcome& outcome,
                      Instant /*now*/) override {
    outcome_ = outcome;
    ended_.wake();
  }

 private:
  InitiatorCommand command_;
  InitiatorOutcome outcome_;
  Waiter ended_;
};

InitiatorPath::InitiatorPath(const weft::iscsi::InitiatorOptions& options, scsi::Lun lun, Log log,
                             LinkKind links)
    : lun_(scsi::lun_address(lun)),
      log_(std::move(log)),
      patience_(options.login_timeout + options.logout_timeout),
      kind_(std::move(links)),
      links_(options.preferences.values.max_connections),
      session_(options, *this) {}

InitiatorPath::~InitiatorPath() {
  if (!thread_.joinable()) {
    return;
  }
  act([this](Instant now) { session_.stop(now); });
  static_cast<void>(
      wait_for_state([](SessionState state) { return state == SessionState::Idle; }, patience_));
  asio::post(loop_, [this] {
    links_.clear();  // in their own thread
    loop_.stop();
  });
  thread_.join();
}

Result<void> InitiatorPath::open() {
  thread_ = std::thread{[this] {
    const auto work = asio::make_work_guard(loop_);
    loop_.run();
  }};
  std::promise<void> started;
  act([&](Instant now) {
    session_.start(now);
    const std::lock_guard lock{mutex_};
    state_ = session_.state();
    started.set_value();
  });
  started.get_future().wait();
  static_cast<void>(wait_for_state(
      [](SessionState state) { return state != SessionState::Connecting; }, patience_));
  const std::lock_guard lock{mutex_};
  if (state_ == SessionState::Live) {
    return {};
  }
  return fail(ErrorCode::Io, "{}", reason_.empty() ? "no answer to the login" : reason_);
}

bool InitiatorPath::wait_for_state(const std::function<bool(SessionState)>& wanted, Duration span) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, std::chrono::nanoseconds{span.nanoseconds()},
                           [&] { return wanted(state_); });
}

void InitiatorPath::act(std::function<void(Instant)> act) {
  asio::post(loop_, [this, act = std::move(act)] {
    act(os::now());
    settle();
  });
}

void InitiatorPath::settle() {
  for (const auto& link : links_) {
    if (link != nullptr) {
      link->flush();
    }
  }
  timer_.set(session_.deadline());
}

void InitiatorPath::expire() {
  session_.handle_timeout(os::now());
  settle();
}

void InitiatorPath::connect(std::uint16_t cid, std::string_view address) {
  if (links_[cid] == nullptr) {
    links_[cid] = kind_.make(loop_);
  }
  links_[cid]->connect(
      std::string{address}, session_.client(cid),
      [this, cid](weft::iscsi::Datamover* datamover, const std::string& reason) {
        if (datamover != nullptr) {
          session_.handle_connected(cid, *datamover, os::now());
        } else {
          session_.handle_connect_failed(cid, reason, os::now());
        }
      },
      [this] { settle(); });
}

void InitiatorPath::cancel_connect(std::uint16_t cid) { links_[cid]->abandon(); }

void InitiatorPath::handle_state(SessionState state, std::string_view reason) {
  {
    const std::lock_guard lock{mutex_};
    state_ = state;
    reason_ = reason;
  }
  changed_.notify_all();
  log_(reason.empty() ? fmt::format("session: {}", name_of(state))
                      : fmt::format("session: {}: {}", name_of(state), reason));
}

DiskAnswer InitiatorPath::execute(const DiskCommand& command) {
  Call call{lun_, command, kind_};
  if (submitted_.push(call)) {
    asio::post(loop_, [this] { submit_all(); });
  }
  call.wait();
  const InitiatorOutcome& outcome = call.outcome();
  if (outcome.kind == InitiatorOutcome::Kind::Answered) {
    const std::size_t came = std::min(outcome.data_in_bytes, command.data_in.size());
    copy_bytes(command.data_in, call.command().data_in.octets().first(came));
    return {.kind = DiskAnswer::Kind::Answered,
            .status = static_cast<scsi::Status>(outcome.status),
            .sense = outcome.sense,
            .data_in_bytes = came};
  }
  const bool may_come_again = outcome.kind != InitiatorOutcome::Kind::NotSent;
  const std::lock_guard lock{mutex_};
  return {.kind = may_come_again ? DiskAnswer::Kind::Interrupted : DiskAnswer::Kind::Gone,
          .reason = outcome.kind == InitiatorOutcome::Kind::Aborted
                        ? "the target did not answer in time"
                        : fmt::format("the session is {}: {}", name_of(state_), reason_)};
}

void InitiatorPath::submit_all() {
  submitted_.take_all(
      [this, now = os::now()](Call& call) { session_.submit(call.command(), now); });
  settle();
}

Result<std::vector<FoundTarget>> InitiatorPath::discover() {
  using Answer = std::optional<std::vector<FoundTarget>>;
  // Outlives a wait that ends before the answer.
  const auto promise = std::make_shared<std::promise<Answer>>();
  const auto take = [promise](const weft::iscsi::TextPairs* pairs, Instant /*now*/) {
    if (pairs == nullptr) {
      promise->set_value(std::nullopt);
      return;
    }
    std::vector<FoundTarget> found;
    for (const auto& pair : *pairs) {
      if (pair.key == "TargetName") {
        found.push_back({.name = std::string{pair.value}, .addresses = {}});
      } else if (pair.key == "TargetAddress" && !found.empty()) {
        found.back().addresses.emplace_back(pair.value);
      }
    }
    promise->set_value(std::move(found));
  };
  act([&session = session_, take](Instant now) {
    session.send_text({.key = "SendTargets", .value = "All"}, take, now);
  });
  auto future = promise->get_future();
  if (future.wait_for(std::chrono::nanoseconds{patience_.nanoseconds()}) !=
      std::future_status::ready) {
    return fail(ErrorCode::TimedOut, "the target does not say which targets there are");
  }
  auto found = future.get();
  if (!found) {
    return fail(ErrorCode::Io, "the target ended the session before it answered");
  }
  return *std::move(found);
}

}  // namespace weft::programs::iscsi
