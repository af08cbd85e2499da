#include "host/placement/peer_placement.h"

#include <array>
#include <bit>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/time.h"
#include "hca/atomic_operation.h"
#include "hca/memory_region.h"
#include "os/clock.h"
#include "os/restartable_copy.h"
#include "os/thread_state.h"
#include "ring/placement.h"

namespace weft::host {
namespace {

struct WayText {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<WayText, 10> kWays{
    {{"packets", "none was long enough or alone, or packets are quicker"},
     {"placed", "the initiator copies by a system call: no pages of the memory can be shared"},
     {"packets", "the program runs with WEFT_PLACEMENT=packets"},
     {"packets", "the fabric is up with --isolate, or the two are in different PID namespaces"},
     {"packets", "the peer is the same process"},
     {"packets", "a capture, a rule of faults, a rate or a delay is on the path"},
     {"packets", "the peer has not granted that memory: the first message to it is packets"},
     {"packets", "the operating system lets no process reach the peer's memory (ptrace_scope)"},
     {"placed", "shared pages: the initiator copies into pages that both map"},
     {"packets", "atomics are packets where no pages of the memory can be shared"}}
};
static_assert(kWays.size() == std::to_underlying(kLastPlacementWay) + 1);

/// How long copies of a peer are waited for: a thread that is neither stopped nor gone may have to
/// wait for a CPU. Policy.
constexpr Duration kMostWait = Duration::seconds(5);
constexpr Duration kLookAfter = Duration::milliseconds(1);  // at the thread's state; policy

/// Looks at one thread after another whose copies are waited for.
class CopierWatch {
 public:
  explicit CopierWatch(pid_t process) : process_(process) {}

  /// False if the copy that `claim` says `thread` is at comes to nothing, or has.
  [[nodiscard]] bool may_be_copying(const std::atomic<std::uint32_t>& claim, std::uint32_t thread) {
    if ((thread & ring::kThroughPages) == 0) {
      return os::may_be_running(process_, thread);
    }
    if (claim_ != &claim) {
      claim_ = &claim;
      interruption_ = {};
    }
    const auto state = os::thread_state(process_, thread & ~ring::kThroughPages);
    return !state || !interruption_.has_been_interrupted(*state);
  }

 private:
  pid_t process_;
  const std::atomic<std::uint32_t>* claim_{};
  os::InterruptionWatch interruption_;
};

/// The last bytes of the last piece are written last.
[[nodiscard]] os::LiveCopy copy(const os::LiveWord& epoch, std::byte* at,
                                const hca::Placement& part) {
  os::LiveCopy outcome = os::LiveCopy::Done;
  for (const ByteSpan piece : part.from) {
    outcome = outcome == os::LiveCopy::Done ? os::copy_while_live(epoch, at, piece) : outcome;
    at += piece.size();
  }
  for (const MutableByteSpan piece : part.to) {
    outcome = outcome == os::LiveCopy::Done
                  ? os::copy_while_live(epoch, piece.data(), ByteSpan{at, piece.size()})
                  : outcome;
    at += piece.size();
  }
  return outcome;
}

/// The address that the peer knows is aligned; where its owner has the memory elsewhere within a
/// word, its adapter decides what becomes of it.
[[nodiscard]] os::LiveCopy perform(const os::LiveWord& epoch, std::byte* at,
                                   const hca::AtomicOperation& atomic,
                                   std::span<const MutableByteSpan> to) {
  if (std::bit_cast<std::uintptr_t>(at) % hca::kAtomicBytes != 0) {
    return os::LiveCopy::Ended;
  }
  const os::LiveAtomic done =
      atomic.compares ? os::swap_while_live(epoch, at, atomic.compare, atomic.swap_or_add)
                      : os::add_while_live(epoch, at, atomic.swap_or_add);
  if (done.outcome == os::LiveCopy::Done) {
    ByteSpan original = bytes_of(done.original);
    for (const MutableByteSpan piece : to) {
      hca::place_last_bytes_atomically(piece, original.first(piece.size()));
      original = original.subspan(piece.size());
    }
  }
  return done.outcome;
}

}  // namespace

std::string_view name_of(PlacementWay way) { return kWays.at(std::to_underlying(way)).name; }
std::string_view reason_of(PlacementWay way) { return kWays.at(std::to_underlying(way)).reason; }

hca::PlacementMeans means_of(PlacementWay way) {
  return way == PlacementWay::Placed        ? hca::PlacementMeans::SystemCall
         : way == PlacementWay::SharedPages ? hca::PlacementMeans::SharedPages
                                            : hca::PlacementMeans::None;
}

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

void PeerPlacement::close() {
  peer_.store(0, std::memory_order_release);
  mapped_.clear();
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
  CopierWatch watch{last_peer_.load(std::memory_order_relaxed)};
  ring::wait_for_placements(
      own->words, [&](const std::atomic<std::uint32_t>& claim, std::uint32_t thread) {
        const Instant now = os::now();
        if (now >= look_at) {
          if (now - start > kMostWait || !watch.may_be_copying(claim, thread)) {
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
  PlacementMemory& peers = *peers_.load(std::memory_order_relaxed);
  const auto grant = peers.slot_of(target.request.dest_qp, target.rkey).read();
  const bool is_granted = grant && grant->epoch != 0 &&
                          grant->epoch == peers.words.epoch.value.load(std::memory_order_relaxed) &&
                          grant->tables == tables && grant->qpn == target.request.dest_qp &&
                          grant->rkey == target.rkey &&
                          target.is_within(grant->rights, grant->iova, grant->length);
  if (!is_granted) {
    return PlacementWay::NotGranted;
  }
  found = *grant;
  return maps_pages_ && grant->has_file() && os::has_live_copy() ? PlacementWay::SharedPages
                                                                 : way_of_calls(target);
}

PlacementWay PeerPlacement::find(const hca::PlacementTarget& target, std::uint64_t tables) {
  PlacementGrant grant;
  const PlacementWay way = find(target, tables, grant);
  if (way == PlacementWay::NotGranted) {
    auto& wish = peers_.load(std::memory_order_relaxed)->words.wish.is_set;
    if (wish.load(std::memory_order_relaxed) == 0) {
      wish.store(1, std::memory_order_release);
    }
  }
  if (way != PlacementWay::SharedPages) {
    return way;
  }
  std::optional<std::size_t> claim = take_claim();
  const bool has_pages = claim && find_pages(grant, claim) != nullptr;
  if (claim) {
    give_back(*claim);
  }
  return has_pages ? way : way_of_calls(target);
}

/// One that no other thread of this process uses. The bits are this process's alone.
std::optional<std::size_t> PeerPlacement::take_claim() {
  for (std::size_t claim = 0; claim < ring::kPlacementClaims; ++claim) {
    const std::uint32_t bit = 1U << claim;
    if ((claims_.load(std::memory_order_relaxed) & bit) == 0 &&
        (claims_.fetch_or(bit, std::memory_order_seq_cst) & bit) == 0) {  // see MappedRegions
      return claim;
    }
  }
  return std::nullopt;
}

/// Maps them if that was not tried yet, without a claim, for that takes a while: `claim` is another
/// one afterwards, or none.
std::byte* PeerPlacement::find_pages(const PlacementGrant& grant,
                                     std::optional<std::size_t>& claim) {
  auto pages = mapped_.find(grant);
  if (!pages) {
    give_back(*claim);
    if (mapped_.map(peer_.load(std::memory_order_relaxed), grant) && notify_mapped_) {
      notify_mapped_();
    }
    claim = take_claim();
    pages = claim ? mapped_.find(grant) : std::nullopt;
  }
  return pages.value_or(nullptr);
}

PlacementWay PeerPlacement::copy_by_call(const hca::Placement& part, const PlacementGrant& grant,
                                         std::size_t claim) {
  ring::PlacementWords& words = peers_.load(std::memory_order_relaxed)->words;
  if (!ring::begin_placement(words, claim, os::thread_id(), grant.epoch)) {
    return PlacementWay::NotGranted;
  }
  const os::PeerRange range{.process = peer_.load(std::memory_order_relaxed),
                            .address = grant.memory + (part.target.address - grant.iova),
                            .length = part.target.length};
  const os::PeerCopy copied = range.process == 0 ? os::PeerCopy::NoSuchProcess
                              : !part.to.empty() ? os::read_peer(range, grant.guard, part.to)
                                                 : os::write_peer(range, grant.guard, part.from);
  ring::end_placement(words, claim);
  if (copied == os::PeerCopy::NotPermitted) {
    is_refused_.store(true, std::memory_order_relaxed);
  }
  return copied == os::PeerCopy::Done           ? PlacementWay::Placed
         : copied == os::PeerCopy::NotPermitted ? PlacementWay::Refused
                                                : PlacementWay::NotGranted;
}

PlacementWay PeerPlacement::work_in_pages(const hca::Placement& part, const PlacementGrant& grant,
                                          std::size_t claim, std::byte* region) {
  ring::PlacementWords& words = peers_.load(std::memory_order_relaxed)->words;
  if (!ring::begin_placement(words, claim, os::thread_id() | ring::kThroughPages, grant.epoch)) {
    return PlacementWay::NotGranted;
  }
  const os::LiveWord epoch{.word = words.epoch.value, .live = grant.epoch};
  std::byte* const at = region + (part.target.address - grant.iova);
  const os::LiveCopy outcome =
      part.atomic ? perform(epoch, at, *part.atomic, part.to) : copy(epoch, at, part);
  ring::end_placement(words, claim);
  return outcome == os::LiveCopy::Done ? PlacementWay::SharedPages : PlacementWay::NotGranted;
}

PlacementWay PeerPlacement::place(const hca::Placement& part, std::uint64_t tables) {
  PlacementGrant grant;
  PlacementWay way = find(part.target, tables, grant);
  if (means_of(way) == hca::PlacementMeans::None) {
    return way;
  }
  std::optional<std::size_t> claim = take_claim();
  if (!claim) {
    return PlacementWay::NotGranted;  // many threads at once: packets do as well
  }
  std::byte* const pages = way == PlacementWay::SharedPages ? find_pages(grant, claim) : nullptr;
  if (!claim) {
    return PlacementWay::NotGranted;
  }
  way = pages != nullptr ? work_in_pages(part, grant, *claim, pages)
        : part.atomic    ? way_of_calls(part.target)
                         : copy_by_call(part, grant, *claim);
  give_back(*claim);
  return way;
}

bool PeerPlacement::release_mapped() {
  PlacementMemory* const peers = peers_.load(std::memory_order_acquire);
  return peers != nullptr && mapped_.release(*peers);
}

}  // namespace weft::host
