#pragma once

// QPs that wait to send on one lane: because they found no room there, or because others wait
// already (docs/ARCHITECTURE.md, decisions 3 and 8). A queue makes turns fair: who is asked most
// often would else take all the room.
//
// No response waits for a request to find room (decision 5): past a request that found none, turns
// are given for responses only, if one is known to wait.

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/intrusive_list.h"
#include "base/live_bug.h"
#include "base/lock.h"

namespace weft::station {

class WaitQueue;
struct InWaitQueue;  // the tag of its lists

/// Who may wait to send; stands in one queue at most.
class Waiter : public ListHook<InWaitQueue> {
 public:
  /// The queue that it stands in; a hint for who does not hold that queue's lock.
  [[nodiscard]] WaitQueue* queue() const { return queue_.load(); }

 private:
  friend class WaitQueue;
  std::atomic<WaitQueue*> queue_{};  // changed under the queue's lock
};

/// What a waiter may send now. Acknowledgements, which are short, need not wait for their turn.
enum class Allowed : std::uint8_t { Everything, OnlyResponses, OnlyAcknowledgements };

/// What came of a turn.
struct Turn {
  enum class Room : std::uint8_t { Found, NoneHere, NoneElsewhere };  // on another lane
  bool has_more{};
  bool has_sent{};
  Room room{Room::Found};
};

/// The queue of one lane. Any thread; serve() by one thread at a time.
class WaitQueue {
 public:
  /// `all` counts who waits in any queue of the process.
  explicit WaitQueue(std::atomic<std::uint32_t>& all, LockPolicy policy = LockPolicy::Spin)
      : lock_(policy), all_(all) {}
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  /// Held while the queue changes; for who must do something of its own at the same time.
  [[nodiscard]] PolicyLock& lock() { return lock_; }

  [[nodiscard]] bool has_waiters() const { return length_.load(std::memory_order_relaxed) != 0; }

  /// At the end, unless the waiter stands in a queue already. Then, in any case and with the lock,
  /// `act()`.
  template <class Act>
  void join(Waiter& waiter, Act act) {
    const std::lock_guard guard{lock_};
    append(waiter);
    act();
  }

  /// A response found no room; its sender joins the queue, or is in it.
  void note_waiting_response() { responses_wait_.store(true, std::memory_order_relaxed); }

  /// Out of whichever queue it stands in.
  static void leave(Waiter& waiter);

  /// All who wait here wait in `heir` from now on. With both locks held.
  void move_all_to(WaitQueue& replacement);

  /// Gives each who waits a turn, from the head of the queue, until there is no room: who has sent
  /// something goes to the end, who found no room keeps its place. True if something was sent.
  ///
  /// `driver` lets them send: `Turn take_turn(Waiter&, Allowed)`; with the lock, `void want_room()`
  /// asks to be told of room; `void wait_elsewhere(Waiter&)` has it join the queue of the lane
  /// where it found no room; `void wait_again_if_needed(Waiter&)`, after it has left the queue, has
  /// it join again if it was given something to send since its turn.
  template <class Driver>
  bool serve(Driver& driver);

 private:
  using List = IntrusiveList<Waiter, InWaitQueue>;
  enum class After : std::uint8_t { TakenOut, Stays, Leaves };

  void append(Waiter& waiter);
  void remove(Waiter& waiter);
  [[nodiscard]] Waiter* take_first(List& to);
  template <class Driver>
  [[nodiscard]] After finish_attempt(Waiter& waiter, const Turn& turn, List& served,
                                     Driver& driver);

  PolicyLock lock_;
  List waiting_;
  std::atomic<std::uint32_t> length_{0};  // with those whose turn it is
  std::atomic<bool> responses_wait_{false};
  std::atomic<std::uint32_t>& all_;
};

template <class Driver>
WaitQueue::After WaitQueue::finish_attempt(Waiter& waiter, const Turn& turn, List& served,
                                           Driver& driver) {
  const std::lock_guard guard{lock_};
  if (waiter.queue() != this) {
    return After::TakenOut;
  }
  const bool leaves = !turn.has_more || turn.room == Turn::Room::NoneElsewhere;
  if (leaves) {
    remove(waiter);
  } else if (turn.has_sent) {
    List::remove(waiter);
    served.push_back(waiter);
  }
  if (turn.room == Turn::Room::NoneHere) {
    driver.want_room();
  }
  return leaves ? After::Leaves : After::Stays;
}

template <class Driver>
bool WaitQueue::serve(Driver& driver) {
  List kept;
  List served;
  Allowed allowed = Allowed::Everything;
  bool has_sent = false;
  const bool responses_were_waiting = responses_wait_.exchange(false, std::memory_order_relaxed);
  for (std::uint32_t turns = length_.load(std::memory_order_relaxed); turns != 0; --turns) {
    Waiter* const waiter = take_first(kept);
    if (waiter == nullptr) {
      break;
    }
    const Turn turn = driver.take_turn(*waiter, allowed);
    has_sent = has_sent || turn.has_sent;
    const bool forgets = planted_late(LiveBug::WaiterForgotten);
    const After after = finish_attempt(*waiter, turn, served, driver);
    if (after == After::TakenOut) {
      continue;
    }
    if (turn.room == Turn::Room::NoneElsewhere) {
      driver.wait_elsewhere(*waiter);
    } else if (after == After::Leaves) {
      // Who found something to send since, found it in the queue still and left it at that.
      if (!forgets) {
        driver.wait_again_if_needed(*waiter);
      }
    } else if (turn.room == Turn::Room::NoneHere) {
      allowed = Allowed::OnlyResponses;
      if (!responses_were_waiting || planted(LiveBug::ResponsesWaitForRequests)) {
        break;
      }
    }
  }
  const std::lock_guard guard{lock_};
  waiting_.splice_front(kept);
  waiting_.splice_back(served);
  return has_sent;
}

}  // namespace weft::station
