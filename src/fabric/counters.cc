#include "fabric/counters.h"
#include "fabric/virtual_ports.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <unordered_set>

#include "base/assert.h"

namespace weft::fabric {
namespace {

constexpr std::uint64_t kPageMagic = 0x3152'544E'5543'5457;  // policy
constexpr std::size_t kAlignment = 64;

// Layout of a shape: bits 0..3 PathEnd + 1, bit 4 multicast, bits 5..8 service level, 9..31 number
// of hops.
constexpr std::uint32_t kEndMask = 0xF;
constexpr std::uint32_t kMulticastBit = 0x10;
constexpr std::uint32_t kServiceLevelShift = 5;
constexpr std::uint32_t kServiceLevelMask = 0xF;
constexpr std::uint32_t kHopCountShift = 9;

/// A hop is stored as its egress port. With this bit set, the packet was discarded at the port
/// instead of crossing its cable (one branch of a multicast tree).
constexpr std::uint32_t kDiscardedBit = 0x8000'0000;

struct PageHead {
  std::uint64_t magic;
  std::uint32_t entries;
  std::uint32_t hops;
};

/// Entries start one cache line after the header, hops after the entries.
constexpr std::size_t entries_offset() { return kAlignment; }
constexpr std::size_t hops_offset(std::uint64_t entries) {
  return entries_offset() + entries * sizeof(PathEntry);
}

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::array<std::uint64_t PortCounters::*, 13> kAllCounters = {
    &PortCounters::xmit_packets,
    &PortCounters::xmit_data,
    &PortCounters::rcv_packets,
    &PortCounters::rcv_data,
    &PortCounters::unicast_xmit_packets,
    &PortCounters::unicast_rcv_packets,
    &PortCounters::multicast_xmit_packets,
    &PortCounters::multicast_rcv_packets,
    &PortCounters::xmit_discards,
    &PortCounters::xmit_wait,
    &PortCounters::rcv_errors,
    &PortCounters::rcv_switch_relay_errors,
    &PortCounters::link_downed};
static_assert(sizeof(PortCounters) == kAllCounters.size() * sizeof(std::uint64_t));

bool is_aligned(const std::byte* address) {
  return std::bit_cast<std::uintptr_t>(address) % kAlignment == 0;
}

/// All-zero bytes are unused entries and hops: nothing is constructed, so that unused pages of
/// memory stay untouched.
template <class T, class Byte>
std::span<T> array_at(std::span<Byte> memory, std::size_t offset, std::size_t count) {
  static_assert(std::is_trivially_destructible_v<T> && std::is_standard_layout_v<T>);
  using Address = std::conditional_t<std::is_const_v<Byte>, const void*, void*>;
  const Address first = memory.data() + offset;
  return {static_cast<T*>(first), count};
}

struct CrossedHop {
  PortIndex egress;
  bool is_discarded;
};

/// A copy of an entry, read once, so that what is used is what was checked.
struct EntrySnapshot {
  std::uint64_t packets;
  std::uint64_t words;
  std::uint64_t discarded_packets;
  std::uint64_t discarded_words;
  std::uint64_t damaged_packets;
  std::uint64_t wait_ns;
  PortIndex source;
  PortIndex stopped_at;
  PathEnd end;
  bool is_multicast;
  ServiceLevel sl;
  std::vector<CrossedHop> hops;
};

/// True if a packet of `owner` can be at the node of `egress`: for a unicast path the node to which
/// the last cable led, for a tree any node to which an earlier cable led.
class Reach {
 public:
  Reach(const TablesView& view, const EntrySnapshot& entry, NodeIndex owner)
      : view_(view), entry_(entry), owner_(owner), last_(owner) {}

  [[nodiscard]] bool starts_at(PortIndex egress) const {
    const NodeIndex node = view_.port(egress).node;
    if (node == owner_ && view_.node(owner_).kind == NodeKind::Host) {
      return last_ == owner_ && egress == entry_.source;
    }
    return entry_.is_multicast ? node == owner_ || reached_.contains(node.value()) : node == last_;
  }

  void cross(PortIndex egress) {
    last_ = view_.port(view_.port(egress).peer).node;
    if (view_.node(last_).kind == NodeKind::Switch) {
      reached_.insert(last_.value());
    }
  }

  [[nodiscard]] NodeIndex last() const { return last_; }

 private:
  const TablesView& view_;
  const EntrySnapshot& entry_;
  NodeIndex owner_;
  NodeIndex last_;
  std::unordered_set<std::uint32_t> reached_;
};

/// True if packets for `owner` leave the fabric at `node`: its own, or that of a port it shares.
bool receives_at(const TablesView& view, NodeIndex node, NodeIndex owner) {
  const NodeRecord& record = view.node(owner);
  for (std::uint32_t i = 0; i < record.port_count; ++i) {
    const PortIndex port{record.first_port.value() + i};
    if (view.port(physical_port(view, port)).node == node) {
      return true;
    }
  }
  return false;
}

/// Checks that the ports exist, that they form a path or tree, and that it begins at `owner`; or is
/// a whole path to it, whose packets answer what `owner` has placed.
bool is_possible(const EntrySnapshot& entry, const TablesView& view, NodeIndex owner,
                 std::span<const NodeIndex> shared) {
  const std::size_t ports = view.ports().size();
  if (entry.source.value() >= ports) {
    return false;
  }
  const NodeIndex sender = view.port(entry.source).node;
  const bool is_answer = sender != owner && std::ranges::find(shared, sender) == shared.end();
  if (is_answer && (entry.is_multicast || entry.end != PathEnd::Delivered)) {
    return false;
  }
  Reach reach{view, entry, sender};
  for (const CrossedHop& hop : entry.hops) {
    if (hop.egress.value() >= ports || !reach.starts_at(hop.egress)) {
      return false;
    }
    if (hop.is_discarded) {
      continue;
    }
    if (view.port(hop.egress).peer == kNoPort) {
      return false;
    }
    reach.cross(hop.egress);
  }
  if (is_answer) {
    return receives_at(view, reach.last(), owner) ||
           std::ranges::find(shared, reach.last()) != shared.end();
  }
  return entry.end == PathEnd::Delivered ||
         (entry.stopped_at.value() < ports && view.port(entry.stopped_at).node == reach.last());
}

void count_hop(CounterSum& sum, const TablesView& view, PortIndex egress,
               const EntrySnapshot& entry, std::uint64_t packets, std::uint64_t words) {
  const PortIndex ingress = view.port(egress).peer;
  count_crossing(sum.ports[egress.value()], sum.ports[ingress.value()], sum.details,
                 {egress, ingress}, entry.sl, entry.is_multicast, packets, words);
}

void count_drop(CounterSum& sum, PortIndex port, PathEnd end, std::uint64_t packets) {
  count_drop(sum.ports[port.value()], sum.details, port, end, packets);
}

void add_entry(CounterSum& sum, const TablesView& view, const EntrySnapshot& entry) {
  PortIndex last_egress = entry.source;
  for (std::size_t i = 0; i < entry.hops.size(); ++i) {
    const auto& [egress, is_discarded] = entry.hops[i];
    if (is_discarded) {
      count_drop(sum, egress, PathEnd::PortInactive, entry.packets);
      continue;
    }
    const bool is_last = i + 1 == entry.hops.size();
    count_hop(sum, view, egress, entry, entry.packets + (is_last ? 0 : entry.discarded_packets),
              entry.words + (is_last ? 0 : entry.discarded_words));
    last_egress = egress;
  }
  if (entry.end != PathEnd::Delivered) {
    count_drop(sum, entry.stopped_at, entry.end, entry.packets);
  }
  count_drop(sum, last_egress, PathEnd::HeadOfQueueLimit, entry.discarded_packets);
  sum.ports[last_egress.value()].xmit_wait += entry.wait_ns;
  const PortIndex last_ingress = entry.hops.empty() ? entry.source : view.port(last_egress).peer;
  if (last_ingress != kNoPort) {
    count_drop(sum, last_ingress, PathEnd::Damaged, entry.damaged_packets);
  }
}

void add_sum(CounterSum& to, const CounterSum& from) {
  for (std::size_t i = 0; i < from.ports.size(); ++i) {
    to.ports[i] += from.ports[i];
  }
  for (const auto& [port, details] : from.details) {
    to.details[port] += details;
  }
  to.overflow_packets += from.overflow_packets;
  to.overflow_data += from.overflow_data;
  to.refused_entries += from.refused_entries;
  for (const auto& [host, packets] : from.on_management_lane) {
    to.on_management_lane[host] += packets;
  }
}

}  // namespace

PortCounters& PortCounters::operator+=(const PortCounters& other) {
  for (const auto counter : kAllCounters) {
    this->*counter += other.*counter;
  }
  return *this;
}

PortCounters& PortCounters::operator-=(const PortCounters& other) {
  for (const auto counter : kAllCounters) {
    this->*counter -= other.*counter;
  }
  return *this;
}

void count_crossing(PortCounters& sender, PortCounters& receiver, DetailsOfPorts& details,
                    const Hop& hop, ServiceLevel sl, bool is_multicast, std::uint64_t packets,
                    std::uint64_t words) {
  sender.xmit_packets += packets;
  sender.xmit_data += words;
  receiver.rcv_packets += packets;
  receiver.rcv_data += words;
  (is_multicast ? sender.multicast_xmit_packets : sender.unicast_xmit_packets) += packets;
  (is_multicast ? receiver.multicast_rcv_packets : receiver.unicast_rcv_packets) += packets;
  count_xmit_data(details, hop.egress, sl, words);
  count_rcv_data(details, hop.ingress, sl, words);
}

std::size_t CounterPage::bytes_needed(CounterPageLimits limits) {
  return hops_offset(limits.entries) + std::size_t{limits.hops} * sizeof(std::uint32_t);
}

CounterPage CounterPage::format(MutableByteSpan memory, CounterPageLimits limits) {
  WEFT_ASSERT(memory.size() >= bytes_needed(limits) && limits.entries >= 1,
              "a page has the room that its limits need");
  WEFT_ASSERT(is_aligned(memory.data()), "counters lie where words may lie");
  CounterPage page;
  page.entries_ = array_at<PathEntry>(memory, entries_offset(), limits.entries);
  page.hops_ =
      array_at<std::atomic<std::uint32_t>>(memory, hops_offset(limits.entries), limits.hops);
  const PageHead head{kPageMagic, limits.entries, limits.hops};
  copy_bytes(memory, bytes_of(head));
  return page;
}

PathEntry& CounterPage::publish(const Shape& shape, std::span<const Hop> hops,
                                std::span<const PortIndex> dropped_at) {
  const std::size_t count = hops.size() + dropped_at.size();
  if (is_full() || count > hops_.size() - used_hops_) {
    return overflow();
  }
  PathEntry& entry = entries_[used_entries_++];
  entry.source_.store(shape.source.value(), std::memory_order_relaxed);
  entry.stopped_at_.store(shape.stopped_at.value(), std::memory_order_relaxed);
  entry.first_hop_.store(static_cast<std::uint32_t>(used_hops_), std::memory_order_relaxed);
  for (const Hop& hop : hops) {
    hops_[used_hops_++].store(hop.egress.value(), std::memory_order_relaxed);
  }
  for (const PortIndex port : dropped_at) {
    hops_[used_hops_++].store(port.value() | kDiscardedBit, std::memory_order_relaxed);
  }
  entry.shape_.store((static_cast<std::uint32_t>(shape.end) + 1) |
                         (shape.is_multicast ? kMulticastBit : 0U) |
                         (shape.sl.value() & kServiceLevelMask) << kServiceLevelShift |
                         static_cast<std::uint32_t>(count) << kHopCountShift,
                     std::memory_order_release);
  return entry;
}

PathEntry& CounterPage::open(const Path& path, ServiceLevel sl) {
  return publish({path.source, path.stopped_at, path.end, false, sl}, path.hops, {});
}

PathEntry& CounterPage::open(const MulticastTree& tree, ServiceLevel sl) {
  const bool is_delivered = tree.outcome == PathUse::Delivered;
  const PathEnd lost =
      tree.outcome == PathUse::ManagementLane ? PathEnd::ManagementLane : PathEnd::PortInactive;
  const PathEnd end = is_delivered ? PathEnd::Delivered : lost;
  return publish({tree.source, tree.stopped_at, end, true, sl}, tree.edges, tree.dropped_at);
}

Result<CounterPageView> CounterPageView::open(ByteSpan memory) {
  PageHead head{};
  if (memory.size() < entries_offset() || !is_aligned(memory.data())) {
    return fail(ErrorCode::Io, "a counter page of {} bytes is too short, or not aligned",
                memory.size());
  }
  copy_bytes(std::as_writable_bytes(std::span{&head, 1}), memory.first(sizeof head));
  if (head.magic != kPageMagic || head.entries == 0 ||
      memory.size() < CounterPage::bytes_needed({head.entries, head.hops})) {
    return fail(ErrorCode::Io, "a counter page of {} bytes is none, or too short for its {} paths",
                memory.size(), head.entries);
  }
  CounterPageView page;
  page.entries_ = array_at<const PathEntry>(memory, entries_offset(), head.entries);
  page.hops_ =
      array_at<const std::atomic<std::uint32_t>>(memory, hops_offset(head.entries), head.hops);
  return page;
}

void CounterPageView::add_to(CounterSum& sum, const TablesView& view, NodeIndex owner,
                             std::span<const NodeIndex> shared) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  sum.ports.resize(std::max(sum.ports.size(), view.ports().size()));
  sum.overflow_packets += entries_[0].packets_.load(kRelaxed);
  sum.overflow_packets += entries_[0].discarded_packets_.load(kRelaxed);
  sum.overflow_data += entries_[0].words_.load(kRelaxed);
  sum.overflow_data += entries_[0].discarded_words_.load(kRelaxed);
  for (const PathEntry& entry : entries_.subspan(1)) {
    const std::uint32_t shape = entry.shape_.load(std::memory_order_acquire);
    if (shape == 0) {
      break;  // entries are published in order
    }
    const std::uint32_t end = (shape & kEndMask) - 1;  // 0 wraps to a value that is refused
    const std::uint32_t first_hop = entry.first_hop_.load(kRelaxed);
    const std::uint32_t hop_count = shape >> kHopCountShift;
    const bool is_multicast = (shape & kMulticastBit) != 0;
    const std::size_t max_hops = is_multicast ? view.ports().size() : kMaxHops;
    if (end >= kPathEnds || first_hop > hops_.size() || hop_count > hops_.size() - first_hop ||
        hop_count > max_hops) {
      ++sum.refused_entries;
      continue;
    }
    EntrySnapshot snapshot{
        entry.packets_.load(kRelaxed),
        entry.words_.load(kRelaxed),
        entry.discarded_packets_.load(kRelaxed),
        entry.discarded_words_.load(kRelaxed),
        entry.damaged_packets_.load(kRelaxed),
        entry.wait_ns_.load(kRelaxed),
        PortIndex{entry.source_.load(kRelaxed)},
        PortIndex{entry.stopped_at_.load(kRelaxed)},
        static_cast<PathEnd>(end),
        is_multicast,
        ServiceLevel{static_cast<std::uint8_t>((shape >> kServiceLevelShift) & kServiceLevelMask)},
        {}};
    snapshot.hops.reserve(hop_count);
    for (const auto& stored : hops_.subspan(first_hop, hop_count)) {
      const std::uint32_t hop = stored.load(kRelaxed);
      snapshot.hops.push_back({PortIndex{hop & ~kDiscardedBit}, (hop & kDiscardedBit) != 0});
    }
    if (is_possible(snapshot, view, owner, shared)) {
      add_entry(sum, view, snapshot);
      if (snapshot.end == PathEnd::ManagementLane) {
        sum.on_management_lane[owner] += snapshot.packets;
      }
    } else {
      ++sum.refused_entries;
    }
  }
}

void CounterLedger::resize(std::size_t port_count) {
  baseline_.resize(port_count);
  folded_.ports.resize(port_count);
}

void CounterLedger::fold(const TablesView& view, const OwnedCounterPage& page) {
  CounterSum sum;
  page.page.add_to(sum, view, page.owner, page.shared);
  WEFT_ASSERT(sum.ports.size() <= folded_.ports.size(), "ports are added, never taken away");
  add_sum(folded_, sum);
}

CounterSum CounterLedger::read(const TablesView& view,
                               std::span<const OwnedCounterPage> live) const {
  WEFT_ASSERT(view.ports().size() <= folded_.ports.size(), "ports are added, never taken away");
  CounterSum sum = folded_;
  for (const OwnedCounterPage& page : live) {
    page.page.add_to(sum, view, page.owner, page.shared);
  }
  for (std::size_t i = 0; i < sum.ports.size(); ++i) {
    sum.ports[i] -= baseline_[i];
  }
  return sum;
}

void CounterLedger::set(PortIndex port, const PortCounters& now, const PortCounters& value) {
  baseline_.at(port.value()) += now;
  baseline_.at(port.value()) -= value;
}

PortDetails CounterLedger::details(const CounterSum& sum, PortIndex port) const {
  PortCounters counted = sum.ports.at(port.value());
  counted += baseline_.at(port.value());
  PortDetails details = with_level_0(details_of(sum.details, port), counted);
  return details -= details_of(details_baseline_, port);
}

void CounterLedger::set_details(PortIndex port, const PortDetails& now, const PortDetails& value) {
  PortDetails& baseline = details_baseline_[port];
  baseline += now;
  baseline -= value;
}

}  // namespace weft::fabric
