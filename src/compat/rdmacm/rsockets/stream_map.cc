// The I/O map: memory of one end that the other end writes to by offsets (riomap(3)).

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/stream_wait.h"

namespace weft::rsockets {

off_t Stream::map(void* memory, std::size_t bytes, int protection, off_t offset) {
  const Lock lock{lock_};
  if (cm_->pd == nullptr || (protection & ~PROT_WRITE) != 0) {
    return compat::refuse(EINVAL, "a bound or connected socket maps memory to be written");
  }
  Mapping added{};
  const bool is_remote = (protection & PROT_WRITE) != 0;
  if (is_remote) {
    const auto is_taken = [&](std::uint32_t index) {
      return std::ranges::any_of(mappings_, [&](const Mapping& m) { return m.index == index; });
    };
    std::uint32_t index = 0;
    while (index < their_map_entries_ && is_taken(index)) {
      ++index;
    }
    if (index >= their_map_entries_) {
      return compat::refuse(ENOMEM, "the other end's map is full: see RDMA_IOMAPSIZE there");
    }
    added.index = index;
  }
  const int access = IBV_ACCESS_LOCAL_WRITE | (is_remote ? IBV_ACCESS_REMOTE_WRITE : 0);
  added.region = ibv_reg_mr(cm_->pd, memory, bytes, access);
  if (added.region == nullptr) {
    return -1;
  }
  std::memcpy(&added.offset, &memory, sizeof memory);
  added.offset = offset == -1 ? added.offset : static_cast<std::uint64_t>(offset);
  added.is_told = !is_remote;
  mappings_.push_back(added);
  return static_cast<off_t>(added.offset);
}

int Stream::unmap(const void* memory, std::size_t bytes) {
  const Lock lock{lock_};
  const auto found = std::ranges::find_if(mappings_, [&](const Mapping& each) {
    return each.region->addr == memory && each.region->length == bytes;
  });
  if (found == mappings_.end()) {
    return compat::refuse(EINVAL, "this memory is not mapped");
  }
  ibv_dereg_mr(found->region);
  mappings_.erase(found);
  return 0;
}

/// The other end learns of new mappings with the next data.
int Stream::send_map_entries(Lock& lock, int flags) {
  for (Mapping& each : mappings_) {
    if (each.is_told) {
      continue;
    }
    if (wait(lock, waits(flags), [&] { return may_send() || !may_write_; }) != 0) {
      return -1;
    }
    if (!may_write_) {
      errno = ECONNRESET;
      return -1;
    }
    IoMapEntry entry{.offset = each.offset,
                     .address = 0,
                     .key = each.region->rkey,
                     .length = static_cast<std::uint32_t>(each.region->length)};
    std::memcpy(&entry.address, &each.region->addr, sizeof each.region->addr);
    const std::uint64_t map = their_targets_ + their_targets_count_ * sizeof(Target);
    if (post_map_entry(entry, *each.index, map) != 0) {
      return -1;
    }
    each.is_told = true;
  }
  return 0;
}

ssize_t Stream::write_at(const std::byte* data, std::size_t bytes, off_t offset, int flags) {
  Lock lock{lock_};
  if (be_connected() != 0 || send_map_entries(lock, flags) != 0) {
    return -1;
  }
  std::uint32_t wish = kFirstPiece;
  std::size_t done = 0;
  while (done < bytes) {
    const std::uint64_t at = static_cast<std::uint64_t>(offset) + done;
    const auto entry = find_map_entry(at);
    if (!entry) {
      compat::refuse(EINVAL, "the other end has mapped nothing at that offset");
      break;
    }
    if (wait(lock, waits(flags), [&] { return has_room() || !may_write_; }) != 0) {
      break;
    }
    if (!may_write_) {
      errno = ECONNRESET;
      break;
    }
    const std::uint64_t left = entry->offset + entry->length - at;
    const auto piece =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(next_piece(bytes - done, wish), left));
    if (post_at(*entry, data + done, piece, at) != 0) {
      break;
    }
    done += piece;
  }
  return done == 0 && bytes != 0 ? -1 : static_cast<ssize_t>(done);
}

}  // namespace weft::rsockets
