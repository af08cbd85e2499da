#include "core/mad/mad_port.h"

#include <algorithm>

#include "core/device.h"

namespace weft::core {
namespace {

/// Rounds of one run; then others have their turn. Policy.
constexpr unsigned kRounds = 64;

}  // namespace

MadPort::MadPort(Device& device, PortNumber number, mad::InterfaceKind kind, MadCarrier& carrier,
                 PolicyLock& lock)
    : device_(device),
      number_(number),
      kind_(kind),
      carrier_(carrier),
      lock_(lock),
      interface_(kind),
      work_(device.environment(), WorkContext::WorkQueue, 0, [this] { run(); }),
      timer_(device.environment(), WorkContext::WorkQueue, 0, [this] { work_.queue(); }) {}

MadPort::~MadPort() = default;

Instant MadPort::now() const { return device_.environment().now(); }

void MadPort::receive(const mad::MadAddress& source, ByteSpan bytes) {
  {
    const std::lock_guard lock{lock_};
    if (is_closing_) {
      return;  // its device goes, and nobody is left to hear it
    }
  }
  with_interface([&](mad::ManagementInterface& interface, Instant at) {
    interface.handle_mad(source, bytes, at);
  });
}

void MadPort::defer(MadUser& user, std::function<void()> call) {
  user.calls_.fetch_add(1, std::memory_order_relaxed);
  calls_.push_back({.user = &user, .run = std::move(call)});
}

void MadPort::wait_for(const MadUser& user) {
  device_.environment().wait_until([&] { return !user.has_calls(); }, Instant::never());
}

void MadPort::close() {
  {
    const std::lock_guard lock{lock_};
    is_closing_ = true;  // no timer any more
  }
  work_.flush();
  timer_.cancel_and_wait();
  work_.flush();  // the timer may have been about to queue it
  const std::lock_guard lock{lock_};
  WEFT_ASSERT(calls_.empty() && engines_.empty(), "users of a port leave before the port does");
}

void MadPort::run_timers(Instant at) {
  interface_.handle_timeout(at);
  for (MadEngine* const engine : engines_) {
    engine->handle_timeout(at);
  }
}

Instant MadPort::deadline() const {
  Instant next = interface_.deadline();
  for (const MadEngine* const engine : engines_) {
    next = std::min(next, engine->deadline());
  }
  return next;
}

/// False: nothing was left to do.
bool MadPort::run_round() {
  std::vector<mad::MadPacket> packets;
  std::deque<Call> calls;
  bool is_due = false;
  {
    const std::lock_guard lock{lock_};
    run_timers(now());
    while (auto packet = interface_.poll_transmit(now())) {
      packets.push_back(std::move(*packet));
    }
    calls.swap(calls_);
    is_due = deadline() <= now();
  }
  for (const mad::MadPacket& packet : packets) {
    carrier_.transmit(*this, packet);
  }
  Environment& environment = device_.environment();
  for (const Call& call : calls) {
    call.run();
    if (call.user->calls_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      environment.notify();  // the user may be gone already
    }
  }
  return is_due || !packets.empty() || !calls.empty();
}

void MadPort::run() {
  unsigned rounds = 0;
  while (run_round()) {
    if (++rounds == kRounds) {
      work_.queue();
      return;
    }
  }
  Instant next;
  {
    const std::lock_guard lock{lock_};
    next = is_closing_ ? Instant::never() : deadline();
  }
  timer_.cancel_and_wait();
  if (next != Instant::never()) {
    timer_.queue(std::max(next - now(), Duration{}));
  }
}

}  // namespace weft::core
