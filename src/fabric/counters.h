#pragma once

// Traffic is counted once per path, not once per hop (docs/ARCHITECTURE.md, decision 1). Each
// process has one page of counters that only it writes, with plain stores; a port's counters are
// the sum over the paths that cross it. An entry holds a path (the egress ports of its cables,
// written before the entry is published and immutable afterwards) and its traffic.
//
// Threads: one thread at a time writes an entry; two lanes on the same path use two entries. The
// process serialises the opening of entries. Other processes may read at any time: each number is
// exact, but numbers read together may differ by packets in flight. Readers do not trust a page:
// indices are checked on every read, and entries for paths that the page's owner cannot have are
// skipped and counted as refused.
//
// Units: packets; data in 4-byte words from LRH to ICRC (PortXmitData, IBTA vol 1 §16.1.3.5: all
// octets between the start delimiter and the VCRC, divided by 4), which is the LRH's PktLen; wait
// time in nanoseconds. 64 bits, modulo 2^64.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/path.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// Counters of one port, named as in PortCounters and PortCountersExtended.
struct PortCounters {
  std::uint64_t xmit_packets{};
  std::uint64_t xmit_data{};
  std::uint64_t rcv_packets{};
  std::uint64_t rcv_data{};
  std::uint64_t unicast_xmit_packets{};
  std::uint64_t unicast_rcv_packets{};
  std::uint64_t multicast_xmit_packets{};
  std::uint64_t multicast_rcv_packets{};
  std::uint64_t xmit_discards{};
  std::uint64_t xmit_wait{};  // nanoseconds, our tick
  std::uint64_t rcv_errors{};
  std::uint64_t rcv_switch_relay_errors{};
  std::uint64_t link_downed{};

  bool operator==(const PortCounters&) const = default;
  PortCounters& operator+=(const PortCounters& other);
  PortCounters& operator-=(const PortCounters& other);
};

/// PortXmitData words of a packet of `bytes` bytes from LRH to ICRC.
[[nodiscard]] constexpr std::uint64_t data_words(std::uint64_t bytes) { return bytes / 4; }

/// Counts packets of one service level that crossed a cable, at both of its ports; `words` is their
/// total.
void count_crossing(PortCounters& sender, PortCounters& receiver, DetailsOfPorts& details,
                    const Hop& hop, ServiceLevel sl, bool is_multicast, std::uint64_t packets,
                    std::uint64_t words);

/// One entry of a page, on a cache line of its own. Its counts are
///   packets:   crossed every hop, then ended as the path ends; `words` is their data,
///   discarded: crossed every hop but the last, and were discarded at its egress port,
///   damaged:   those of `packets` that arrived corrupt (PortRcvErrors of the last ingress port).
/// For a multicast tree, which has no last hop, only count() is meaningful.
class alignas(64) PathEntry {
 public:
  /// Packets that crossed the whole path, or reached the point at which the path drops them.
  void count(std::uint64_t packets, std::uint64_t words) {
    bump(packets_, packets);
    bump(words_, words);
  }
  /// Packets that the last link lost, or did not accept within the head-of-queue lifetime.
  void count_discarded(std::uint64_t packets, std::uint64_t words) {
    bump(discarded_packets_, packets);
    bump(discarded_words_, words);
  }
  /// Packets counted before that arrived corrupt.
  void count_damaged(std::uint64_t packets) { bump(damaged_packets_, packets); }
  /// Time for which a packet was ready and the path was blocked; counted at the last egress port.
  void count_wait(Duration waited) {
    bump(wait_ns_, static_cast<std::uint64_t>(waited.nanoseconds()));
  }

 private:
  friend class CounterPage;
  friend class CounterPageView;

  /// A published entry has one writer; the overflow entry is never published and has many.
  void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    if (shape_.load(std::memory_order_relaxed) == 0) {
      counter.fetch_add(by, std::memory_order_relaxed);
    } else {
      counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint64_t> packets_{};
  std::atomic<std::uint64_t> words_{};
  std::atomic<std::uint64_t> discarded_packets_{};
  std::atomic<std::uint64_t> discarded_words_{};
  std::atomic<std::uint64_t> damaged_packets_{};
  std::atomic<std::uint64_t> wait_ns_{};
  std::atomic<std::uint32_t> source_{};
  std::atomic<std::uint32_t> stopped_at_{};
  std::atomic<std::uint32_t> first_hop_{};
  std::atomic<std::uint32_t> shape_{};  // 0: not published; else end, multicast, SL, number of hops
};
static_assert(sizeof(PathEntry) == 64);

/// Size of a page; policy, not from the specification.
struct CounterPageLimits {
  std::uint32_t entries{4096};
  std::uint32_t hops{65536};  // total of all entries
};

/// The writer's side of a page. The process serialises open(); see above.
class CounterPage {
 public:
  /// Size of a page with these limits, in bytes.
  [[nodiscard]] static std::size_t bytes_needed(CounterPageLimits limits = {});

  /// Formats `memory` as an empty page; it must be bytes_needed() long, aligned to 64 and zero.
  /// Memory is touched only when used, so a large page is cheap.
  [[nodiscard]] static CounterPage format(MutableByteSpan memory, CounterPageLimits limits = {});

  /// A new entry for packets of service level `sl` on `path`, which may end in a drop. If the page
  /// is full, the overflow entry, which sums packets and data of all such paths but not the ports
  /// they cross. The reference is valid as long as the memory.
  [[nodiscard]] PathEntry& open(const Path& path, ServiceLevel sl);
  /// The same for a multicast tree.
  [[nodiscard]] PathEntry& open(const MulticastTree& tree, ServiceLevel sl);

  [[nodiscard]] PathEntry& overflow() { return entries_[0]; }
  [[nodiscard]] bool is_full() const { return used_entries_ == entries_.size(); }

 private:
  CounterPage() = default;
  struct Shape {
    PortIndex source;
    PortIndex stopped_at;
    PathEnd end;
    bool is_multicast;
    ServiceLevel sl;
  };
  PathEntry& publish(const Shape& shape, std::span<const Hop> hops,
                     std::span<const PortIndex> dropped_at);

  std::span<PathEntry> entries_;  // the first is the overflow entry
  std::span<std::atomic<std::uint32_t>> hops_;
  std::size_t used_entries_{1};
  std::size_t used_hops_{};
};

/// The sum over one or more pages.
struct CounterSum {
  std::vector<PortCounters> ports;  // index: PortIndex
  DetailsOfPorts details;           // without level 0, before subtraction of any baseline
  std::uint64_t overflow_packets{};
  std::uint64_t overflow_data{};
  std::uint64_t refused_entries{};
  /// Packets that ended as PathEnd::ManagementLane, by the host whose programs sent them.
  std::map<NodeIndex, std::uint64_t> on_management_lane;
};

/// The reader's side of a page that another process writes.
class CounterPageView {
 public:
  /// Validates the page's header against the size of its memory, which must not shrink (sealed).
  [[nodiscard]] static Result<CounterPageView> open(ByteSpan memory);

  /// Adds the counts of this page to `sum`. `owner` is the host whose process writes the page, and
  /// `shared` has those whose ports it shares, or has shared, as a virtual function. Paths that
  /// start elsewhere are refused, but for those that end there: a process that places counts the
  /// answers that it spared its peer.
  void add_to(CounterSum& sum, const TablesView& view, NodeIndex owner,
              std::span<const NodeIndex> shared = {}) const;

 private:
  CounterPageView() = default;
  std::span<const PathEntry> entries_;
  std::span<const std::atomic<std::uint32_t>> hops_;
};

/// A page and the host on whose behalf it may count.
struct OwnedCounterPage {
  CounterPageView page;
  NodeIndex owner;
  std::vector<NodeIndex> shared{};  // as CounterPageView::add_to
};

/// The counters of a whole fabric: those of live processes, those of processes that ended, and the
/// baselines of Sets by performance management. Single-threaded.
class CounterLedger {
 public:
  explicit CounterLedger(std::size_t port_count) { resize(port_count); }

  /// Grows the ledger; new ports start at zero.
  void resize(std::size_t port_count);

  /// Adds the counts of a page whose process has ended; the caller then drops the page.
  void fold(const TablesView& view, const OwnedCounterPage& page);

  /// Counters that the daemon keeps itself (management packets, its own engines).
  PortCounters& own(PortIndex port) { return folded_.ports.at(port.value()); }
  DetailsOfPorts& own_details() { return folded_.details; }

  /// The counters of all ports: those of `live` pages and of pages folded before, less the
  /// baselines.
  [[nodiscard]] CounterSum read(const TablesView& view,
                                std::span<const OwnedCounterPage> live) const;

  /// `port` continues counting from `value`, given its present value `now` from read().
  void set(PortIndex port, const PortCounters& now, const PortCounters& value);

  /// The details of `port` from a sum that read() returned, including level 0. Independent of
  /// set(), and set() of it.
  [[nodiscard]] PortDetails details(const CounterSum& sum, PortIndex port) const;
  /// The details of `port` continue from `value`, given their present value `now` from details().
  void set_details(PortIndex port, const PortDetails& now, const PortDetails& value);

 private:
  CounterSum folded_;
  std::vector<PortCounters> baseline_;  // subtracted from sums
  DetailsOfPorts details_baseline_;     // likewise
};

}  // namespace weft::fabric
