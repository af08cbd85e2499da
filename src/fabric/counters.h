#pragma once

// Traffic counted once per path, not once per hop (docs/ARCHITECTURE.md, decision 1). Each process
// has one page of counters that only it writes, with plain stores; whoever wants a port's counters
// sums the paths that cross it. An entry is a path (its cables by egress port, written before the
// entry is published, immutable after) and what went along it.
//
// Threading: an entry has one writing thread at a time; two lanes on the same path open two
// entries. Opening entries is serialised by the process. Readers may be other processes at any
// time: each number is exact, numbers of one moment may differ by packets in flight.
// Nothing in a page is believed: indices are checked on each reading, entries that no path of
// the page's owner could have are left out and counted as refused.
//
// Units: packets; data in 4-byte words from LRH to ICRC (PortXmitData, IBTA vol 1 §16.1.3.5: all
// octets between the start delimiter and the VCRC, divided by 4), which is the LRH's PktLen;
// waiting in nanoseconds. 64 bits, modulo 2^64.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/path.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// Counters of one port under the names of PortCounters and PortCountersExtended.
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
  std::uint64_t xmit_wait{};  // nanoseconds; our tick
  std::uint64_t rcv_errors{};
  std::uint64_t rcv_switch_relay_errors{};
  std::uint64_t link_downed{};

  bool operator==(const PortCounters&) const = default;
  PortCounters& operator+=(const PortCounters& other);
  PortCounters& operator-=(const PortCounters& other);
};

/// Words of PortXmitData for a packet of `bytes` from LRH to ICRC.
[[nodiscard]] constexpr std::uint64_t data_words(std::uint64_t bytes) { return bytes / 4; }

/// Packets of one service level that crossed a cable, at both of its ports; `words` of them all.
void count_crossing(PortCounters& sender, PortCounters& receiver, DetailsOfPorts& details,
                    const Hop& hop, ServiceLevel sl, bool is_multicast, std::uint64_t packets,
                    std::uint64_t words);

/// One entry as it lies in the page, a cache line of its own. What the counts mean:
/// packets: crossed every hop, then ended as the path ends; `words` are theirs.
/// discarded: crossed every hop but the last and were discarded at its egress port.
/// damaged: of `packets`, those that arrived unusable (PortRcvErrors of the last ingress port).
/// For a multicast tree only count() has a meaning: a tree has no last hop.
class alignas(64) PathEntry {
 public:
  /// Packets that crossed the whole path (or, of a path that ends in a drop, got as far as it).
  void count(std::uint64_t packets, std::uint64_t words) {
    bump(packets_, packets);
    bump(words_, words);
  }
  /// Packets that the last link did not take within its head-of-queue lifetime, or lost.
  void count_discarded(std::uint64_t packets, std::uint64_t words) {
    bump(discarded_packets_, packets);
    bump(discarded_words_, words);
  }
  /// Packets already counted that arrived damaged.
  void count_damaged(std::uint64_t packets) { bump(damaged_packets_, packets); }
  /// Time that a packet stood ready while the path took nothing; counted at the last egress port.
  void count_wait(Duration waited) {
    bump(wait_ns_, static_cast<std::uint64_t>(waited.nanoseconds()));
  }

 private:
  friend class CounterPage;
  friend class CounterPageView;

  /// A published entry has one writer; the overflow entry, never published, has any number.
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
  std::atomic<std::uint32_t> shape_{};  // 0: not published; else end, multicast, SL, count of hops
};
static_assert(sizeof(PathEntry) == 64);

/// How large a page is; both are policy, not from the specification.
struct CounterPageLimits {
  std::uint32_t entries{4096};
  std::uint32_t hops{65536};  // of all entries together
};

/// The writer's side.
class CounterPage {
 public:
  [[nodiscard]] static std::size_t bytes_needed(CounterPageLimits limits = {});

  /// Makes an empty page of `memory`, which is bytes_needed() long, aligned to 64 and zero. Only
  /// what is used later is touched, so a large page costs little.
  [[nodiscard]] static CounterPage format(MutableByteSpan memory, CounterPageLimits limits = {});

  /// A new entry for packets of service level `sl` on `path`; drops included. When the page is
  /// full: the overflow entry, which keeps packets and data of all such paths together, but not
  /// which ports they crossed. The reference holds as long as the memory.
  [[nodiscard]] PathEntry& open(const Path& path, ServiceLevel sl);
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

/// What adding up one or more pages gave.
struct CounterSum {
  std::vector<PortCounters> ports;  // by PortIndex
  DetailsOfPorts details;           // without level 0, and nothing is taken off
  std::uint64_t overflow_packets{};
  std::uint64_t overflow_data{};
  std::uint64_t refused_entries{};
};

/// The reader's side of a page that another process writes.
class CounterPageView {
 public:
  /// Checks the head of the page against the size of its memory, which must not shrink (sealed).
  [[nodiscard]] static Result<CounterPageView> open(ByteSpan memory);

  /// Adds what this page says to `sum`. `owner`: the host whose process writes the page; paths
  /// that start elsewhere are refused.
  void add_to(CounterSum& sum, const TablesView& view, NodeIndex owner) const;

 private:
  CounterPageView() = default;
  std::span<const PathEntry> entries_;
  std::span<const std::atomic<std::uint32_t>> hops_;
};

/// A page and the host that it is believed for.
struct OwnedCounterPage {
  CounterPageView page;
  NodeIndex owner;
};

/// The counters of the whole fabric: processes that live, those that died, and what a Set (of
/// performance management) took off.
class CounterLedger {
 public:
  explicit CounterLedger(std::size_t port_count) { resize(port_count); }

  /// A fabric only grows; new ports begin at zero.
  void resize(std::size_t port_count);

  /// Keeps a page's counts after its process is gone; the caller drops the page then.
  void fold(const TablesView& view, const OwnedCounterPage& page);

  /// Counts that the daemon itself makes (management packets, its own engines).
  PortCounters& own(PortIndex port) { return folded_.ports.at(port.value()); }
  DetailsOfPorts& own_details() { return folded_.details; }

  [[nodiscard]] CounterSum read(const TablesView& view,
                                std::span<const OwnedCounterPage> live) const;

  /// From now on `port` counts from `value`, given what read() says of it now.
  void set(PortIndex port, const PortCounters& now, const PortCounters& value);

  /// The details of `port`, whole, in what read() gave; what set() takes off the sums does not
  /// change them, nor the other way round.
  [[nodiscard]] PortDetails details(const CounterSum& sum, PortIndex port) const;
  void set_details(PortIndex port, const PortDetails& now, const PortDetails& value);

 private:
  CounterSum folded_;
  std::vector<PortCounters> baseline_;  // subtracted
  DetailsOfPorts details_baseline_;     // likewise
};

}  // namespace weft::fabric
