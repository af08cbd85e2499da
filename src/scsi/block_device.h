#pragma once

// What a logical unit keeps its blocks on. Implementations: RamDevice here; files, io_uring and NBD
// in `host`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace weft::scsi {

/// What a device is; does not change but for `blocks`, which may grow.
struct BlockGeometry {
  std::uint32_t block_bytes{512};    ///< 512 or 4096
  std::uint64_t blocks{};            ///< logical blocks
  std::uint8_t physical_exponent{};  ///< a physical block has 2^n logical ones
  std::uint16_t lowest_aligned{};    ///< first LBA at which a physical block begins
  std::uint32_t atomic_blocks{};     ///< a Write of as many is stored as a whole or not at all
  std::uint32_t optimal_blocks{};    ///< best length of a transfer; 0 unless known
  bool read_only{};
  bool can_discard{};      ///< Unmap frees space, and what it frees reads as zeroes
  bool has_write_cache{};  ///< a write is durable only with FUA or after a Flush
  bool rotates{};
  bool keeps_protection{};  ///< stores 8 octets of protection information a block
};

enum class BlockOperation : std::uint8_t { Read, Write, Flush, Unmap, WriteZeroes };

enum class BlockStatus : std::uint8_t {
  Ok,
  ReadError,
  WriteError,
  NoSpace,  ///< thin provisioning, or a full file system
  ReadOnly,
  OutOfRange,
  NoMedium,  ///< the device is gone
};

struct BlockResult {
  BlockStatus status{BlockStatus::Ok};
  std::optional<std::uint64_t> lba{};  ///< the first that failed, if the device knows
  bool operator==(const BlockResult&) const = default;
};

/// Memory that has what was read, and that nobody changes while it is held.
struct BlockLoan {
  std::shared_ptr<const void> holder{};
  ByteSpan octets{};
};

struct BlockRequest;

/// Who is told that a request has ended.
class BlockClient {
 public:
  /// Exactly once for each request; from inside submit() or later, on any thread. The request and
  /// its buffers are the client's again.
  virtual void handle_block_result(BlockRequest& request, const BlockResult& result) = 0;

 protected:
  ~BlockClient() = default;
};

/// One transfer. Belongs to the client and must stay until it is told the result.
struct BlockRequest {
  BlockOperation operation{};
  std::uint64_t lba{};
  std::uint64_t blocks{};       ///< lba + blocks is at most the device's; Flush: 0
  MutableByteSpan read_into{};  ///< Read: blocks * block_bytes octets
  /// Read: where a device that has the blocks in memory may put that, in their order, in place of
  /// their content into `read_into`; empty before. Null: it may not.
  std::vector<BlockLoan>* lend_to{};
  ByteSpan write_from{};          ///< Write: as read_into
  MutableByteSpan tuples_into{};  ///< Read: protection information, 8 octets a block; or empty
  ByteSpan tuples_from{};         ///< Write: the same; empty: tuples that say "do not check"
  bool force_unit_access{};       ///< Write, WriteZeroes: durable before it is reported
  bool may_unmap{};               ///< WriteZeroes: may free the space
  BlockClient* client{};
};

/// A stretch of blocks that are all backed by space, or all not (SBC-3 §4.7.3).
struct BlockExtent {
  std::uint64_t blocks{};  ///< at least 1
  bool mapped{true};
};

/// Any thread may call; requests that overlap are not given to a device at the same time unless all
/// of them read.
class BlockDevice {
 public:
  BlockDevice() = default;
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;
  virtual ~BlockDevice() = default;

  [[nodiscard]] virtual BlockGeometry geometry() const = 0;
  virtual void submit(BlockRequest& request) = 0;
  /// How the blocks from `lba` on are backed, which is below geometry().blocks. Must not block.
  [[nodiscard]] virtual BlockExtent extent(std::uint64_t lba) const {
    return {.blocks = geometry().blocks - lba, .mapped = true};
  }
};

}  // namespace weft::scsi
