#pragma once

// A sparse disk in memory, for `ram:1G` and for tests.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "scsi/block_device.h"

namespace weft::scsi {

struct RamOptions {
  std::uint64_t bytes{};  ///< a multiple of the block size, at least one block
  std::uint32_t block_bytes{512};
  bool read_only{};
  bool keeps_protection{};
  LockPolicy locks{LockPolicy::None};
};

/// Only what was written occupies memory. Requests end inside submit(). It lends what is read; what
/// is written while that is held goes elsewhere. Any thread, with LockPolicy::Spin.
class RamDevice final : public BlockDevice {
 public:
  static constexpr std::size_t kChunkBytes = 64 * 1024;  // policy: what is allocated at a time

  /// A Write is memory alone, and goes with the power like all of the disk.
  static constexpr std::size_t kAtomicBytes = 256 * 1024;  // policy

  /// InvalidArgument for a size that is no multiple of a block, or a block size but 512 and 4096.
  [[nodiscard]] static Result<std::unique_ptr<RamDevice>> create(const RamOptions& options);

  [[nodiscard]] BlockGeometry geometry() const override;
  void submit(BlockRequest& request) override;
  [[nodiscard]] BlockExtent extent(std::uint64_t lba) const override;

  /// Octets of memory that data occupies now.
  [[nodiscard]] std::uint64_t allocated_bytes() const;

 private:
  static constexpr std::size_t kChunksInTable = 256;
  struct Chunk {
    std::shared_ptr<std::byte[]> data;  // not changed while it is lent, too
    std::unique_ptr<std::byte[]> protection;
  };
  struct Table {
    explicit Table(LockPolicy policy) : lock(policy) {}
    mutable PolicyLock lock;  // guards all below; held for a chunk at most
    std::unique_ptr<std::array<Chunk, kChunksInTable>> chunks;
  };
  struct Part;  // of a request, within one chunk

  explicit RamDevice(const RamOptions& options);
  [[nodiscard]] BlockResult perform(const BlockRequest& request);
  void read(Table& table, const Part& part);
  void lend(const Chunk* chunk, const Part& part) const;
  [[nodiscard]] static MutableByteSpan own_data(Chunk& chunk);
  void write(Table& table, const Part& part);
  void clear(Table& table, const Part& part);
  [[nodiscard]] std::size_t blocks_in_chunk() const { return kChunkBytes / options_.block_bytes; }

  RamOptions options_;
  const std::shared_ptr<const std::byte[]>
      zeroes_;  // what is lent of a chunk that nobody has written
  std::vector<std::unique_ptr<Table>> tables_;
};

/// Octets of "4096", "64K", "512M", "1G" or "2T", powers of 1024. InvalidArgument with the reason.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace weft::scsi
