#pragma once

// Memory of an initiator that targets reach: each buffer is registered once, under a key of its
// own, and kept for the next command. Any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/pd.h"

namespace weft::programs::srp {

class BufferPool {
 public:
  class Buffer {
   public:
    explicit Buffer(std::size_t bytes) : memory_(bytes) {}
    [[nodiscard]] MutableByteSpan octets() { return memory_; }
    [[nodiscard]] std::uint64_t address() const;

   private:
    friend class BufferPool;
    std::vector<std::byte> memory_;
    core::Mr* mr_{};
  };
  struct Return {
    BufferPool* pool{};
    void operator()(Buffer* buffer) const { pool->give_back(buffer); }
  };
  using Lease = std::unique_ptr<Buffer, Return>;

  /// The PD outlives it.
  explicit BufferPool(core::Pd& pd) : pd_(pd) {}
  /// All leases have ended, and nobody reaches the memory any more.
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least so many octets.
  [[nodiscard]] Result<Lease> take(std::size_t bytes);
  /// The key of the buffer that has this octet; none: it is of no buffer.
  [[nodiscard]] Result<RKey> key_of(std::uint64_t address, std::size_t bytes) const;
  /// That are kept or in use.
  [[nodiscard]] std::size_t size() const;

 private:
  void give_back(Buffer* buffer);
  void free(Buffer& buffer);

  static constexpr std::size_t kKept = 64;  // policy: buffers that wait for another use

  core::Pd& pd_;
  mutable std::mutex mutex_;  // of the lists
  std::vector<std::unique_ptr<Buffer>> kept_;
  std::vector<Buffer*> taken_;
};

}  // namespace weft::programs::srp
