#include "programs/iscsi/load_run.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "iscsi/initiator_session.h"
#include "os/clock.h"

namespace weft::programs::iscsi {
namespace {

using weft::iscsi::InitiatorCommand;
using weft::iscsi::InitiatorOutcome;
using weft::iscsi::SessionState;

constexpr std::chrono::milliseconds kTick{20};           // policy: when deadlines are looked at
constexpr Duration kLongestEnd = Duration::seconds(10);  // policy: of commands, and of a logout

}  // namespace

/// A session, the link under it, and its commands.
class LoadRun::Lane final : private weft::iscsi::InitiatorEnvironment,
                            private weft::iscsi::InitiatorClient {
 public:
  Lane(LoadRun& run, const weft::iscsi::InitiatorOptions& options, const LinkKind& links)
      : run_(run), link_(links.make(run.loop_)), session_(options, *this) {
    const bool writes = run.options_.writes;
    for (unsigned i = 0; i < run.options_.depth; ++i) {
      auto slot = std::make_unique<Slot>();
      slot->lun = run.lun_;
      slot->client = this;
      (writes ? slot->data_out : slot->data_in) = links.allocate(run.options_.bytes);
      slots_.push_back(std::move(slot));
    }
  }

  void start(Instant now) { session_.start(now); }
  void stop(Instant now) {
    session_.stop(now);
    link_->flush();
  }
  void begin() {
    for (const auto& slot : slots_) {
      submit(*slot);
    }
    link_->flush();
  }
  void check_time(Instant now) {
    if (session_.deadline() <= now) {
      session_.handle_timeout(now);
      link_->flush();
    }
  }
  [[nodiscard]] bool is_decided() const { return was_live_ || is_over_; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] bool is_drained() const {
    return session_.under_way() == 0 && session_.waiting() == 0;
  }
  [[nodiscard]] bool is_logged_out() const { return session_.state() == SessionState::Idle; }

 private:
  struct Slot final : InitiatorCommand {
    Instant began;
  };

  void submit(Slot& slot) {
    if (run_.phase_ != Phase::Running || is_over_) {
      return;
    }
    const scsi::DiskExtent extent = run_.meter_.next();
    slot.cdb = run_.options_.writes ? scsi::write_cdb(extent, false) : scsi::read_cdb(extent);
    slot.began = os::now();
    session_.submit(slot, slot.began);
  }

  void handle_outcome(InitiatorCommand& command, const InitiatorOutcome& outcome,
                      Instant /*now*/) override {
    if (run_.phase_ != Phase::Running) {
      return;
    }
    Slot& slot = static_cast<Slot&>(command);
    if (outcome.kind == InitiatorOutcome::Kind::Answered) {
      run_.meter_.count(scsi::judge(static_cast<scsi::Status>(outcome.status), outcome.sense),
                        slot.began, os::now());
    } else {
      run_.meter_.count_failure();
    }
    submit(slot);
  }

  void connect(std::uint16_t cid, std::string_view address) override {
    link_->connect(
        std::string{address}, session_.client(cid),
        [this, cid](weft::iscsi::Datamover* datamover, const std::string& reason) {
          if (datamover != nullptr) {
            session_.handle_connected(cid, *datamover, os::now());
          } else {
            session_.handle_connect_failed(cid, reason, os::now());
          }
        },
        [this] { link_->flush(); });
  }
  void cancel_connect(std::uint16_t /*cid*/) override { link_->abandon(); }
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}
  [[nodiscard]] weft::iscsi::ChapLibrary& chap_library() override { return run_.chap_; }

  void handle_state(SessionState state, std::string_view reason) override {
    load::LoadResult& result = run_.meter_.result();
    if (run_.phase_ >= Phase::Draining) {
      return;
    }
    if (!reason.empty()) {
      result.reason = reason;
    }
    switch (state) {
      case SessionState::Live:
        result.sessions += was_live_ ? 0 : 1;
        was_live_ = true;
        break;
      case SessionState::Idle:
        ++result.refused;
        is_over_ = true;
        break;
      case SessionState::Blocked:
        ++result.lost;
        break;
      case SessionState::FailFast:
      case SessionState::Lost:
        is_over_ = true;
        break;
      case SessionState::Connecting:
      case SessionState::LoggingOut:
        break;
    }
  }

  LoadRun& run_;
  std::unique_ptr<Link> link_;
  std::vector<std::unique_ptr<Slot>> slots_;
  weft::iscsi::InitiatorSession session_;
  bool was_live_{};
  bool is_over_{};  // it will not come (again)
};

LoadRun::LoadRun(const std::vector<weft::iscsi::InitiatorOptions>& sessions, scsi::Lun lun,
                 const load::LoadOptions& options, load::LoadMeter meter, const LinkKind& links)
    : lun_(scsi::lun_address(lun)), options_(options), meter_(std::move(meter)) {
  for (const auto& session : sessions) {
    lanes_.push_back(std::make_unique<Lane>(*this, session, links));
  }
}

LoadRun::~LoadRun() = default;

load::LoadResult LoadRun::run() {
  const Instant now = os::now();
  meter_.start(now);
  for (const auto& lane : lanes_) {
    lane->start(now);
  }
  tick();
  loop_.run();
  return meter_.finish();
}

/// Deadlines of all sessions, and the run's own.
void LoadRun::tick() {
  const Instant now = os::now();
  for (const auto& lane : lanes_) {
    lane->check_time(now);
  }
  if (phase_ == Phase::LoggingOut && is_done_with(&Lane::is_logged_out, now)) {
    lanes_.clear();  // waits for connections that are ending
    loop_.stop();
    return;
  }
  go_on(now);
  timer_.expires_after(kTick);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      tick();
    }
  });
}

void LoadRun::go_on(Instant now) {
  const auto all = [this](bool (Lane::*is_so)() const) {
    return std::ranges::all_of(lanes_, [is_so](const auto& lane) { return (*lane.*is_so)(); });
  };
  switch (phase_) {
    case Phase::LoggingIn:
      if (all(&Lane::is_over)) {
        enter(Phase::LoggingOut, now);
      } else if (all(&Lane::is_decided)) {
        enter(Phase::Running, now);
      }
      break;
    case Phase::Running:
      if (meter_.is_over(now) || all(&Lane::is_over)) {
        enter(Phase::Draining, now);
      }
      break;
    case Phase::Draining:
      if (is_done_with(&Lane::is_drained, now)) {
        enter(Phase::LoggingOut, now);
      }
      break;
    case Phase::LoggingOut:
      break;
  }
}

void LoadRun::enter(Phase phase, Instant now) {
  phase_ = phase;
  patience_ = now + kLongestEnd;
  if (phase == Phase::Running) {
    meter_.begin(now);
  } else if (phase == Phase::Draining) {
    meter_.end(now);
  }
  for (const auto& lane : lanes_) {
    if (phase == Phase::Running) {
      lane->begin();
    } else if (phase == Phase::LoggingOut) {
      lane->stop(now);
    }
  }
}

bool LoadRun::is_done_with(bool (Lane::*is_so)() const, Instant now) const {
  return now >= patience_ ||
         std::ranges::all_of(lanes_, [is_so](const auto& lane) { return (*lane.*is_so)(); });
}

}  // namespace weft::programs::iscsi
