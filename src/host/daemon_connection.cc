#include "host/daemon_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <span>
#include <utility>

#include "os/block_signals.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// Policy: a daemon that accepts no messages for this long is considered stopped.
constexpr Duration kSpaceWaitLimit = Duration::seconds(10);
constexpr int kRoomPause_ms = 100;

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

/// The timeout for poll(2): rounded up, and negative for no limit.
[[nodiscard]] int milliseconds_until(Instant due) {
  if (due == Instant::never()) {
    return -1;
  }
  return static_cast<int>(std::max<std::int64_t>((due - os::now()).milliseconds(), 0) + 1);
}

}  // namespace

DaemonConnection::DaemonConnection(DaemonHandler& handler, ProcessEvents& events)
    : handler_(handler), events_(events), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

DaemonConnection::~DaemonConnection() { stop(); }

Result<DaemonConnection::Attached> DaemonConnection::attach(ControlSocket socket,
                                                            const std::string& fabric,
                                                            const std::string& host) {
  socket_ = std::move(socket);
  fabric_ = fabric;
  if (auto sent = socket_.send(uabi::Hello{.host = host}); !sent) {
    return std::unexpected(gone());
  }
  auto answer = socket_.receive(kWaitLimit);
  if (!answer) {
    return std::unexpected(answer.error().code == ErrorCode::Refused ? gone() : answer.error());
  }
  if (const auto* refused = answer->message.get_if<uabi::Refused>()) {
    return fail(ErrorCode::Refused, "{}", refused->reason);
  }
  const auto* welcome = answer->message.get_if<uabi::Welcome>();
  if (welcome == nullptr || welcome->version != uabi::kVersion || welcome->self.slot == 0) {
    return fail(ErrorCode::Io, "the fabric daemon speaks another version: restart the fabric");
  }
  self_ = welcome->self;
  return Attached{.welcome = *welcome, .descriptors = std::move(answer->descriptors)};
}

/// Group members and captures must be known before anything is sent, or packets would be lost or
/// captured incompletely.
Result<void> DaemonConnection::hear_initial_state() {
  while (true) {
    auto received = socket_.receive(kWaitLimit);
    if (!received) {
      return std::unexpected(received.error().code == ErrorCode::Refused ? gone()
                                                                         : received.error());
    }
    if (received->message.holds<uabi::InitialStateSent>()) {
      return {};
    }
    dispatch(std::move(*received));
  }
}

void DaemonConnection::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void DaemonConnection::queue(uabi::Message message, os::UniqueFd descriptor) {
  const std::lock_guard guard{out_lock_};
  out_.push_back({.message = std::move(message), .descriptor = std::move(descriptor)});
}

void DaemonConnection::post(uabi::Message message, os::UniqueFd descriptor) {
  queue(std::move(message), std::move(descriptor));
  wake();
}

/// Sends messages in the order in which they were posted, on any thread; true if some must wait for
/// room.
bool DaemonConnection::send_queued() {
  const std::lock_guard guard{out_lock_};
  while (!out_.empty()) {
    const Outgoing& next = out_.front();
    const int descriptor = next.descriptor.get();
    const auto sent = socket_.send(
        next.message, next.descriptor ? std::span{&descriptor, 1} : std::span<const int>{});
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      return true;
    }
    out_.pop_front();
  }
  return false;
}

void DaemonConnection::post_and_send(uabi::Message message, os::UniqueFd descriptor) {
  queue(std::move(message), std::move(descriptor));
  const Instant start = os::now();
  while (send_queued() && os::now() - start < kSpaceWaitLimit) {
    pollfd room{.fd = socket_.fd(), .events = POLLOUT, .revents = 0};
    ::poll(&room, 1, kRoomPause_ms);
  }
}

void DaemonConnection::start_daemon_events() {
  const std::lock_guard guard{thread_lock_};
  if (!thread_.joinable()) {
    thread_ = os::block_signals([this] { run(); });
  }
}

bool DaemonConnection::has_thread() {
  const std::lock_guard guard{thread_lock_};
  return thread_.joinable();
}

bool DaemonConnection::request_hold() {
  if (!has_thread()) {
    return false;
  }
  hold_point_.request();
  wake();
  return true;
}

void DaemonConnection::stop() {
  stopping_.store(true);
  wake();
  const std::lock_guard guard{thread_lock_};
  if (thread_.joinable()) {
    thread_.join();
  }
}

void DaemonConnection::run() {
  while (!stopping_.load()) {
    hold_point_.pass();
    const Instant due = handler_.report_due();
    const bool has_more = send_queued();
    works_.store(true);
    auto received = socket_.receive();
    if (received) {
      dispatch(std::move(*received));
      continue;
    }
    works_.store(false);
    if (received.error().code == ErrorCode::Refused) {
      report_daemon_gone();  // first the user, since a program may exit at its first flushed
                             // completion
      is_gone_.store(true);
      handler_.handle_daemon_gone();
      return;
    }
    std::array<pollfd, 2> waits{
        pollfd{.fd = socket_.fd(),
               .events = static_cast<short>(POLLIN | (has_more ? POLLOUT : 0)),
               .revents = 0                                                                 },
        pollfd{.fd = wake_.get(),  .events = POLLIN,                            .revents = 0}
    };
    ::poll(waits.data(), waits.size(), milliseconds_until(due));
    std::uint64_t count{};
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
  }
}

void DaemonConnection::hear_pending() {
  const std::lock_guard guard{thread_lock_};
  if (thread_.joinable()) {
    return;
  }
  while (true) {
    auto received = socket_.receive();
    if (!received) {
      return;
    }
    dispatch(std::move(*received));
  }
}

bool DaemonConnection::has_record() const {
  pollfd wait{.fd = socket_.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, 0) > 0 || works_.load();
}

void DaemonConnection::dispatch(Received received) {
  std::vector<os::UniqueFd>& descriptors = received.descriptors;
  received.message.visit(Overloaded{
      [&](const uabi::Lane& lane) { handler_.handle_lane(lane, descriptors); },
      [&](const uabi::NoSuchProcess& nobody) { handler_.handle_peer_gone(nobody.peer); },
      [&](const uabi::LaneClosed& closed) { handler_.handle_peer_gone(closed.peer); },
      [&](const uabi::TablesChanged&) { handler_.handle_tables(descriptors[0]); },
      [&](const uabi::OpenTap& tap) { handler_.handle_tap(tap, descriptors[0]); },
      [&](const uabi::CloseTap& tap) { handler_.handle_tap_closed(tap); },
      [&](const uabi::GroupMembers& group) { handler_.handle_group(group); },
      [&](const uabi::GroupJoined&) { handler_.handle_group_joined(); },
      [&](const uabi::Refused& refused) {
        const std::lock_guard guard{gone_lock_};
        dismissal_ = refused.reason;
      },
      [&](const auto&) { handler_.handle_shared_object(received.message); },
  });
}

Error DaemonConnection::gone() const {
  return {
      ErrorCode::Io,
      fmt::format("fabric {} is gone: its daemon, weftd, has ended, and every connection with it; "
                  "`weft up --name {}` or `weft run` makes a new one for programs started then",
                  fabric_, fabric_)};
}

void DaemonConnection::report_daemon_gone() {
  // Held until the report is complete, so that a program that exits meanwhile waits for it.
  const std::lock_guard guard{gone_lock_};
  if (!std::exchange(gone_is_told_, true)) {
    events_.fabric_gone(dismissal_.empty() ? gone().reason
                                           : fmt::format("fabric {} has sent this program away: {}",
                                                         fabric_, dismissal_));
  }
}

bool DaemonConnection::has_ended() const {
  pollfd ended{.fd = socket_.fd(), .events = 0, .revents = 0};
  return is_gone() || (::poll(&ended, 1, 0) == 1 && (ended.revents & POLLHUP) != 0);
}

void DaemonConnection::tell_if_gone() {
  if (has_ended()) {
    report_daemon_gone();
  }
}

}  // namespace weft::host
