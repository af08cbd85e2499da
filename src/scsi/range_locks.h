#pragma once

// Which media commands of a logical unit may run at the same time: those that overlap run in the
// order in which they were enabled unless both only read. So COMPARE AND WRITE is atomic (SBC-3
// §5.2), a READ never sees half a WRITE and its protection information, and the commands of a nexus
// are not reordered where that would show (QUEUE ALGORITHM MODIFIER 0, SPC-4 §7.5.7).

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::scsi {

struct BlockRange {
  std::uint64_t lba{};
  std::uint64_t blocks{};  ///< none: overlaps nothing
  bool writes{};
};

/// Ranges in the order of their requests. The caller locks. `Owner` is whatever waits.
template <class Owner>
class RangeLocks {
 public:
  /// True if the owner may run now; else grant() returns it later.
  bool request(Owner* owner, const BlockRange& range) {
    bool granted = true;
    for (const Entry& entry : entries_) {
      granted = granted && !conflict(entry.range, range);
    }
    entries_.push_back({owner, range, granted});
    waiting_ += granted ? 0 : 1;
    return granted;
  }

  /// Forgets the owner's range, whether granted or waiting; nothing if it has none.
  void release(Owner* owner) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->owner == owner) {
        waiting_ -= entry->granted ? 0 : 1;
        entries_.erase(entry);
        return;
      }
    }
  }

  /// Calls `run(owner)` for each that waits and may run now.
  template <class Run>
  void grant(Run run) {
    for (std::size_t i = 0; waiting_ > 0 && i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (entry.granted || blocked(i)) {
        continue;
      }
      entry.granted = true;
      --waiting_;
      run(entry.owner);
    }
  }

  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    Owner* owner{};
    BlockRange range{};
    bool granted{};
  };

  static bool conflict(const BlockRange& a, const BlockRange& b) {
    return (a.writes || b.writes) && a.lba < b.lba + b.blocks && b.lba < a.lba + a.blocks;
  }
  [[nodiscard]] bool blocked(std::size_t index) const {
    for (std::size_t i = 0; i < index; ++i) {
      if (conflict(entries_[i].range, entries_[index].range)) {
        return true;
      }
    }
    return false;
  }

  std::vector<Entry> entries_;
  std::size_t waiting_{};
};

}  // namespace weft::scsi
