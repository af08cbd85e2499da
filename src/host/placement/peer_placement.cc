#include "host/placement/peer_placement.h"

#include <array>
#include <bit>
#include <thread>
#include <utility>

#include "base/time.h"
#include "os/clock.h"
#include "os/futex.h"
#include "ring/placement.h"

namespace weft::host {
namespace {

struct WayText {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<WayText, 8> kWays{
    {{"packets", "none was long enough or alone, or packets are quicker"},
     {"placed", "the initiator copies"},
     {"packets", "the program runs with WEFT_PLACEMENT=packets"},
     {"packets", "the fabric is up with --isolate, or the two are in different PID namespaces"},
     {"packets", "the peer is the same process"},
     {"packets", "a capture, a rule of faults, a rate or a delay is on the path"},
     {"packets", "the peer has not granted that memory: the first message to it is packets"},
     {"packets", "the operating system lets no process reach the peer's memory (ptrace_scope)"}}
};

/// How long copies of a peer are waited for: a thread that is neither stopped nor gone may have to
/// wait for a CPU. Policy.
constexpr Duration kMostWait = Duration::seconds(5);
constexpr Duration kLookAfter = Duration::milliseconds(1);  // at the thread's state; policy

}  // namespace

std::string_view name_of(PlacementWay way) { return kWays.at(std::to_underlying(way)).name; }
std::string_view reason_of(PlacementWay way) { return kWays.at(std::to_underlying(way)).reason; }

void PeerPlacement::open(MutableByteSpan memory, unsigned side, pid_t peer) {
  void* const start = memory.data();
  auto* const sides = static_cast<PlacementMemory*>(start);
  own_.store(sides + side, std::memory_order_release);
  peers_.store(sides + (1 - side), std::memory_order_release);
  is_refused_.store(false, std::memory_order_relaxed);
  if (peer != 0) {
    own_.load()->words.epoch.value.store(1, std::memory_order_release);
    os::allow_peer(peer);
  }
  last_peer_.store(peer, std::memory_order_relaxed);
  peer_.store(peer, std::memory_order_release);
}

bool PeerPlacement::take_wish() {
  PlacementMemory* const own = own_.load(std::memory_order_acquire);
  if (own == nullptr || own->words.wish.is_set.load(std::memory_order_acquire) == 0) {
    return false;
  }
  own->words.wish.is_set.store(0, std::memory_order_relaxed);
  return true;
}

std::optional<std::uint64_t> PeerPlacement::epoch() const {
  return peer_.load(std::memory_order_acquire) == 0
             ? std::nullopt
             : std::optional{own_.load(std::memory_order_relaxed)
                                 ->words.epoch.value.load(std::memory_order_acquire)};
}

void PeerPlacement::grant(const PlacementGrant& grant) {
  PlacementSlot& slot = own_.load(std::memory_order_relaxed)->slot_of(grant.qpn, grant.rkey);
  const std::lock_guard guard{granting_};
  const auto before = slot.read();
  if (!before || *before != grant) {
    slot.write(grant);
  }
}

void PeerPlacement::end_epoch() {
  if (PlacementMemory* const own = own_.load(std::memory_order_acquire)) {
    ring::end_epoch(own->words);
  }
}

/// The owner holds locks of QPs while it waits, so it looks soon whether there is still something
/// to wait for.
void PeerPlacement::wait_for_copies() {
  PlacementMemory* const own = own_.load(std::memory_order_acquire);
  if (own == nullptr) {
    return;
  }
  const Instant start = os::now();
  Instant look_at = start + kLookAfter;
  ring::wait_for_placements(
      own->words, [&](const std::atomic<std::uint32_t>& /*claim*/, std::uint32_t thread) {
        const Instant now = os::now();
        if (now >= look_at) {
          if (now - start > kMostWait ||
              !os::may_be_running(last_peer_.load(std::memory_order_relaxed), thread)) {
            return false;
          }
          look_at = now + kLookAfter;
        }
        std::this_thread::yield();
        return true;
      });
}

PlacementWay PeerPlacement::find(const hca::PlacementTarget& target, std::uint64_t tables,
                                 PlacementGrant& found) const {
  if (peer_.load(std::memory_order_acquire) == 0) {
    return PlacementWay::NotAllowed;
  }
  if (is_refused_.load(std::memory_order_relaxed)) {
    return PlacementWay::Refused;
  }
  PlacementMemory& peers = *peers_.load(std::memory_order_relaxed);
  const auto grant = peers.slot_of(target.request.dest_qp, target.rkey).read();
  const bool is_granted = grant && grant->epoch != 0 &&
                          grant->epoch == peers.words.epoch.value.load(std::memory_order_relaxed) &&
                          grant->tables == tables && grant->qpn == target.request.dest_qp &&
                          grant->rkey == target.rkey &&
                          (target.is_read ? grant->is_readable : grant->is_writable) &&
                          target.address >= grant->iova && target.length <= grant->length &&
                          target.address - grant->iova <= grant->length - target.length;
  if (!is_granted) {
    return PlacementWay::NotGranted;
  }
  found = *grant;
  return PlacementWay::Placed;
}

PlacementWay PeerPlacement::find(const hca::PlacementTarget& target, std::uint64_t tables) const {
  PlacementGrant grant;
  const PlacementWay way = find(target, tables, grant);
  if (way == PlacementWay::NotGranted) {
    auto& wish = peers_.load(std::memory_order_relaxed)->words.wish.is_set;
    if (wish.load(std::memory_order_relaxed) == 0) {
      wish.store(1, std::memory_order_release);
    }
  }
  return way;
}

/// One that no other thread of this process uses. The bits are this process's alone.
std::optional<std::size_t> PeerPlacement::take_claim() {
  for (std::size_t claim = 0; claim < ring::kPlacementClaims; ++claim) {
    const std::uint32_t bit = 1U << claim;
    if ((claims_.load(std::memory_order_relaxed) & bit) == 0 &&
        (claims_.fetch_or(bit, std::memory_order_acquire) & bit) == 0) {
      return claim;
    }
  }
  return std::nullopt;
}

PlacementWay PeerPlacement::place(const hca::Placement& part, std::uint64_t tables) {
  PlacementGrant grant;
  if (const PlacementWay way = find(part.target, tables, grant); way != PlacementWay::Placed) {
    return way;
  }
  const auto claim = take_claim();
  if (!claim) {
    return PlacementWay::NotGranted;  // many threads at once: packets do as well
  }
  ring::PlacementWords& words = peers_.load(std::memory_order_relaxed)->words;
  PlacementWay way = PlacementWay::NotGranted;
  if (ring::begin_placement(words, *claim, os::thread_id(), grant.epoch)) {
    const os::PeerRange range{.process = peer_.load(std::memory_order_relaxed),
                              .address = grant.memory + (part.target.address - grant.iova),
                              .length = part.target.length};
    const os::PeerCopy copied = range.process == 0 ? os::PeerCopy::NoSuchProcess
                                : part.target.is_read
                                    ? os::read_peer(range, grant.guard, part.to)
                                    : os::write_peer(range, grant.guard, part.from);
    ring::end_placement(words, *claim);
    if (copied == os::PeerCopy::NotPermitted) {
      is_refused_.store(true, std::memory_order_relaxed);
    }
    way = copied == os::PeerCopy::Done           ? PlacementWay::Placed
          : copied == os::PeerCopy::NotPermitted ? PlacementWay::Refused
                                                 : PlacementWay::NotGranted;
  }
  claims_.fetch_and(~(1U << *claim), std::memory_order_release);
  return way;
}

}  // namespace weft::host
