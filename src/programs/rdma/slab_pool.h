#pragma once

// Memory of an initiator that targets reach: slabs of buffers of one length, which are kept for the
// next command. A slab is a shared mapping of a sealed file in memory that stays open, so a target
// on the same machine may place data there by its own hand (docs/ARCHITECTURE.md, decision 18); of
// many buffers under one key it needs one grant. Any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::programs::rdma {

class SlabPool {
  struct Slab;

 public:
  class Buffer {
   public:
    Buffer(Slab& slab, MutableByteSpan memory) : slab_(slab), memory_(memory) {}
    [[nodiscard]] MutableByteSpan octets() const { return memory_; }
    [[nodiscard]] std::uint64_t address() const;

   private:
    friend class SlabPool;
    Slab& slab_;
    MutableByteSpan memory_;
  };
  struct Return {
    SlabPool* pool{};
    void operator()(Buffer* buffer) const { pool->give_back(*buffer); }
  };
  using Lease = std::unique_ptr<Buffer, Return>;

  /// What a slab has as long as its memory is there, as a registration; a refusal is one of take().
  using Attach = std::function<Result<std::shared_ptr<const void>>(MutableByteSpan memory)>;

  explicit SlabPool(Attach attach = {});
  /// All leases have ended, and nobody reaches the memory any more but who holds an Extent.
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  /// At least so many octets; what is in them is what was left there.
  [[nodiscard]] Result<Lease> take(std::size_t bytes);
  /// A slab, which stays while it is held.
  struct Extent {
    ByteSpan memory;
    const void* attached{};
    std::shared_ptr<const void> holder;
  };
  /// Of the slab that has these octets; none: they are of no buffer.
  [[nodiscard]] std::optional<Extent> extent_of(std::uint64_t address, std::size_t bytes) const;
  /// Of memory, in use or kept.
  [[nodiscard]] std::size_t size_bytes() const;

  // Policy, all of it.
  static constexpr std::size_t kSmallest = 4096;      ///< INQUIRY and its like share buffers
  static constexpr std::size_t kLeastSlab = 1 << 20;  ///< one registration for small ones
  static constexpr std::size_t kMostSlab = 16 << 20;  ///< for longer buffers, but the longest
  static constexpr std::size_t kBuffersInSlab = 16;   ///< between these
  static constexpr std::size_t kKept = 64 << 20;      ///< beyond it, slabs go that nobody uses

 private:
  [[nodiscard]] Result<Slab*> slab_for(std::size_t buffer_bytes);
  [[nodiscard]] Result<Slab*> make_slab(std::size_t buffer_bytes, std::size_t buffers);
  void give_back(Buffer& buffer);

  const Attach attach_;
  mutable std::mutex mutex_;                              // of what follows
  std::map<std::uint64_t, std::shared_ptr<Slab>> slabs_;  // by address
  std::size_t size_bytes_{};
};

}  // namespace weft::programs::rdma
