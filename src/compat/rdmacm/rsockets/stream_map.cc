// The I/O map: memory of one end to which the other writes by offset (riomap(3)).

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/stream_wait.h"

namespace weft::rsockets {
namespace {

[[nodiscard]] std::uint64_t address_of(const void* memory) {
  std::uint64_t value{};
  std::memcpy(&value, &memory, sizeof memory);
  return value;
}

}  // namespace

off_t Stream::map(void* memory, std::size_t bytes, int protection, off_t offset) {
  const Lock lock{lock_};
  if (cm_->pd == nullptr || (protection & ~PROT_WRITE) != 0) {
    return compat::refuse(EINVAL, "a bound or connected socket maps memory to be written");
  }
  const bool is_remote = (protection & PROT_WRITE) != 0;
  const auto index = is_remote ? engine_.map().free_index() : std::nullopt;
  if (is_remote && !index) {
    return compat::refuse(ENOMEM, "the other end's map is full: see RDMA_IOMAPSIZE there");
  }
  const int access = IBV_ACCESS_LOCAL_WRITE | (is_remote ? IBV_ACCESS_REMOTE_WRITE : 0);
  ibv_mr* const region = ibv_reg_mr(cm_->pd, memory, bytes, access);
  if (region == nullptr) {
    return -1;
  }
  regions_.push_back(region);
  const std::uint64_t address = address_of(memory);
  const std::uint64_t at = offset == -1 ? address : static_cast<std::uint64_t>(offset);
  engine_.map().add({.offset = at,
                     .address = address,
                     .key = region->rkey,
                     .length = static_cast<std::uint32_t>(bytes),
                     .index = index});
  return static_cast<off_t>(at);
}

int Stream::unmap(const void* memory, std::size_t bytes) {
  const Lock lock{lock_};
  const auto found = std::ranges::find_if(
      regions_, [&](const ibv_mr* each) { return each->addr == memory && each->length == bytes; });
  if (found == regions_.end() ||
      !engine_.map().remove(address_of(memory), static_cast<std::uint32_t>(bytes))) {
    return compat::refuse(EINVAL, "this memory is not mapped");
  }
  ibv_dereg_mr(*found);
  regions_.erase(found);
  return 0;
}

/// Announces new mappings to the peer, before the next data.
int Stream::send_map_entries(Lock& lock, int flags) {
  while (engine_.map().has_untold()) {
    if (wait(lock, waits(flags), [&] { return engine_.may_send() || !engine_.may_write(); }) != 0) {
      return -1;
    }
    if (!engine_.may_write()) {
      errno = ECONNRESET;
      return -1;
    }
    if (post(engine_.tell_mapping()) != 0) {
      return -1;
    }
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
    const auto entry = engine_.find_entry(at);
    if (!entry) {
      compat::refuse(EINVAL, "the other end has mapped nothing at that offset");
      break;
    }
    if (wait(lock, waits(flags), [&] { return engine_.has_room() || !engine_.may_write(); }) != 0) {
      break;
    }
    if (!engine_.may_write()) {
      errno = ECONNRESET;
      break;
    }
    const StreamWrite write = engine_.write_at(*entry, at, {data + done, bytes - done}, wish);
    if (post(write) != 0) {
      break;
    }
    done += write.octets.size();
  }
  return done == 0 && bytes != 0 ? -1 : static_cast<ssize_t>(done);
}

}  // namespace weft::rsockets
