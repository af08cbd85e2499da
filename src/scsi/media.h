#pragma once

// What a medium command does with the device and its buffers, step by step.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scsi/block_device.h"
#include "scsi/protection.h"
#include "scsi/range_locks.h"
#include "scsi/sense.h"

namespace weft::scsi {

enum class MediaKind : std::uint8_t {
  Read,
  Write,
  WriteAndVerify,
  VerifyMedium,     ///< BYTCHK 00b: only that it can be read, and its protection information
  VerifyData,       ///< BYTCHK 01b: against as much data-out
  VerifyPattern,    ///< BYTCHK 11b: each block against the one in data-out
  CompareAndWrite,  ///< data-out: what must be there, then what to write
  OrWrite,          ///< what is there, OR data-out
  WritePattern,     ///< WRITE SAME with a block of data-out
  WriteZeroes,      ///< WRITE SAME of zeroes, with or without UNMAP; FORMAT UNIT
  Unmap,
  Flush,
  Copy,  ///< EXTENDED COPY: segment after segment
};
inline constexpr std::size_t kMediaKinds = 13;

/// Blocks of a unit that go elsewhere on it, or to another. May overlap: it ends with what was at
/// the source.
struct CopySegment {
  std::uint64_t source{};
  std::uint64_t destination{};
  std::uint64_t blocks{};
  std::size_t source_target{};       ///< of MediaCommand::copy_targets
  std::size_t destination_target{};  ///< the same
};

struct MediaCommand {
  MediaKind kind{};
  std::uint64_t lba{};
  std::uint64_t blocks{};
  bool force_unit_access{};
  bool may_unmap{};
  bool transfers_tuples{};                 ///< blocks in the buffers have their tuples behind them
  bool check_medium{};                     ///< compare tuples of the medium with `check`
  bool has_tuples_apart{};                 ///< in a buffer of their own, for others to check
  std::optional<ProtectionError> fault{};  ///< what these have found
  ProtectionCheck check{};                 ///< type None: the medium has no tuples
  std::vector<BlockRange> extents{};       ///< Unmap: instead of lba and blocks
  std::vector<CopySegment> segments{};     ///< Copy: their sum is `blocks`, `lba` is not used
  /// Copy that has to do with other units: these in place of the device.
  std::vector<std::shared_ptr<BlockDevice>> copy_targets{};

  /// Blocks that no other command may write, or even read, meanwhile.
  [[nodiscard]] BlockRange range() const;
  [[nodiscard]] std::size_t transfer_block_bytes() const {
    return check.block_bytes + (transfers_tuples ? kTupleBytes : 0);
  }
};

/// Of a check of tuples that failed, `lba` being the command's (SBC-3 Table 8).
[[nodiscard]] Sense sense_of(const ProtectionError& error, std::uint64_t lba);

/// One medium command under way. advance() runs on one thread at a time: first the one that started
/// it, then whichever the device answers on.
class MediaRun final : private BlockClient {
 public:
  class Owner {
   public:
    /// The device has answered after advance() had returned: call advance() again. Any thread.
    virtual void resume_media() = 0;

   protected:
    ~Owner() = default;
  };
  struct Buffers {
    ByteSpan data_out;
    MutableByteSpan data_in;
    MutableByteSpan tuples{};
    std::vector<BlockLoan>* lend_to{};  ///< as of Command
  };
  enum class Progress : std::uint8_t { Waiting, Ended };

  /// Data-out is as long as the command needs, which its parser has checked.
  MediaRun(BlockDevice& device, MediaCommand command, const Buffers& buffers, Owner& owner);

  /// Does as much as it can. After Waiting nothing of this object may be touched until
  /// resume_media(), which may be running already. After Ended: failure() and bytes_delivered().
  [[nodiscard]] Progress advance();
  /// No further step is begun; advance() ends after the one under way. Any thread.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  [[nodiscard]] std::size_t bytes_delivered() const { return delivered_; }
  /// Blocks, or extents, of the chunks that are done.
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  enum class Step : std::uint8_t {
    None,
    TakeData,     // data-out of these blocks, its tuples checked or made
    TakeSecond,   // the same, of the second half of data-out
    TakePattern,  // the only block of data-out
    Read,
    CheckMedium,
    Deliver,
    Compare,
    ComparePattern,
    Combine,     // what was read, OR data-out, is what to write
    TakeMedium,  // what was read is what to write
    Write,
    WriteFilled,  // as Write, of blocks that repeat the pattern
    Zero,
    Unmap,
    Flush,
  };
  static constexpr std::size_t kMaxSteps = 6;
  using Plan = std::array<Step, kMaxSteps>;
  static const std::array<Plan, kMediaKinds> kPlans;

  void handle_block_result(BlockRequest& request, const BlockResult& result) override;
  [[nodiscard]] bool begin_chunk();
  [[nodiscard]] std::size_t chunk_blocks() const;
  [[nodiscard]] CopySegment next_copy() const;
  [[nodiscard]] BlockDevice* copy_target(std::size_t target) const;
  [[nodiscard]] bool has_tuples() const { return command_.check.type != ProtectionType::None; }
  [[nodiscard]] bool is_direct() const;
  [[nodiscard]] ProtectionCheck check_at(std::uint64_t blocks) const;
  // True if the step has asked the device.
  [[nodiscard]] bool begin(Step step);
  void take_data(std::size_t first_octet, std::size_t blocks, std::uint64_t block_number);
  void fill_pattern();
  void prepare_read();
  void prepare_write();
  void check_medium();
  void deliver();
  void compare(std::size_t pattern_blocks);
  void combine();
  void take_medium();
  void fail_check(const ProtectionError& error);
  void fail_device(const BlockResult& result);
  void fail_with(const Sense& sense);

  BlockDevice& device_;
  BlockDevice* asked_{};  // of the step under way
  MediaCommand command_;
  Buffers buffers_;
  Owner& owner_;

  BlockRequest request_;
  BlockResult result_;
  enum : std::uint8_t { kIdle, kSubmitted, kAnswered };
  std::atomic<std::uint8_t> handoff_{kIdle};
  std::atomic<bool> stopped_{false};
  bool awaits_answer_{};
  std::size_t step_{};
  std::uint64_t done_{};   // blocks of former chunks, or extents
  std::uint64_t chunk_{};  // blocks of this one
  CopySegment copy_{};     // Copy: the same
  std::size_t delivered_{};
  std::optional<Failure> failure_;

  std::vector<std::byte> medium_;  // as read
  std::vector<std::byte> medium_tuples_;
  ByteSpan source_;                     // data-out without tuples
  std::vector<std::byte> source_copy_;  // where it had to be separated or repeated
  std::vector<std::byte> source_tuples_;
};

}  // namespace weft::scsi
