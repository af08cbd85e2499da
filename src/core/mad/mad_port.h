#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/lock.h"
#include "base/time.h"
#include "core/work.h"
#include "mad/management_interface.h"

namespace weft::core {

class Device;
class MadPort;

/// Takes the MADs of a device's ports to the fabric: the management network of a simulated host, or
/// a wire in memory. What comes for a port goes to MadPort::receive().
class MadCarrier {
 public:
  virtual ~MadCarrier() = default;
  /// Called without locks, one call after the other for each port.
  virtual void transmit(MadPort& from, const mad::MadPacket& packet) = 0;
};

/// Somebody whose handlers a MadPort calls: an agent, a snooper.
class MadUser {
 public:
  MadUser() = default;
  MadUser(const MadUser&) = delete;
  MadUser& operator=(const MadUser&) = delete;

 protected:
  ~MadUser() = default;

  /// Handlers of it wait or run.
  [[nodiscard]] bool has_calls() const { return calls_.load(std::memory_order_acquire) != 0; }

 private:
  friend class MadPort;
  std::atomic<std::uint32_t> calls_{};  // waiting or under way
};

/// Protocol above a port's interface that has timers of its own, such as an SA client. Called with
/// the port locked.
class MadEngine {
 public:
  virtual void handle_timeout(Instant now) = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;

 protected:
  ~MadEngine() = default;
};

/// QP0 or QP1 of a port as the kernel's MAD layer has it: one mad::ManagementInterface, driven by
/// the environment's clock. The interface and the engines above it are for one thread at a time,
/// which the lock sees to; handlers of users are called later, in order, without the lock. Any
/// thread.
class MadPort {
 public:
  /// `lock` is that of all ports of a host, so that one engine may serve several ports.
  MadPort(Device& device, PortNumber number, mad::InterfaceKind kind, MadCarrier& carrier,
          PolicyLock& lock);
  ~MadPort();
  MadPort(const MadPort&) = delete;
  MadPort& operator=(const MadPort&) = delete;

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] PortNumber number() const { return number_; }
  [[nodiscard]] mad::InterfaceKind kind() const { return kind_; }

  /// A MAD came. The bytes are not trusted.
  void receive(const mad::MadAddress& source, ByteSpan bytes);

  /// Calls `function(interface, now)` with the port locked, and lets the port act on what it did.
  template <class Function>
  decltype(auto) with_interface(Function function) {
    const Wake wake{*this};
    const std::lock_guard lock{lock_};
    return function(interface_, now());
  }

  // --- with the port locked only: inside with_interface(), an engine, or a handler of the
  // interface
  /// Calls `call` later, without the lock, after what was deferred before.
  void defer(MadUser& user, std::function<void()> call);
  void add_engine(MadEngine& engine) { engines_.push_back(&engine); }
  void remove_engine(MadEngine& engine) { std::erase(engines_, &engine); }

  /// Waits until no call of `user` waits or is under way: a fence, if the interface has nothing of
  /// it any more. Not from one of its calls.
  void wait_for(const MadUser& user);

  /// The last agent has gone, and the carrier has no MAD under way to the port; what comes later in
  /// the same thread is dropped. On return nothing of the port runs.
  void close();

 private:
  /// Lets the port act once the lock is released.
  class Wake {
   public:
    explicit Wake(MadPort& port) : port_(port) {}
    ~Wake() { port_.work_.queue(); }
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;

   private:
    MadPort& port_;
  };
  struct Call {
    MadUser* user{};
    std::function<void()> run;
  };

  [[nodiscard]] Instant now() const;
  void run();
  bool run_round();
  void run_timers(Instant now);
  [[nodiscard]] Instant deadline() const;

  Device& device_;
  const PortNumber number_;
  const mad::InterfaceKind kind_;
  MadCarrier& carrier_;
  PolicyLock& lock_;  // of what follows up to work_
  mad::ManagementInterface interface_;
  std::vector<MadEngine*> engines_;
  std::deque<Call> calls_;
  bool is_closing_{};
  Work work_;
  Work timer_;
};

}  // namespace weft::core
