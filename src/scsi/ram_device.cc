#include "scsi/ram_device.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <limits>
#include <mutex>
#include <system_error>
#include <utility>

#include "scsi/protection.h"

namespace weft::scsi {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 46;  // policy: the tables stay below 1 GiB

}  // namespace

struct RamDevice::Part {
  std::size_t chunk{};  // within its table
  std::size_t block{};  // within its chunk
  std::size_t blocks{};
  MutableByteSpan read_into{};
  std::vector<BlockLoan>* lend_to{};
  ByteSpan write_from{};
  MutableByteSpan tuples_into{};
  ByteSpan tuples_from{};
};

Result<std::unique_ptr<RamDevice>> RamDevice::create(const RamOptions& options) {
  if (options.block_bytes != 512 && options.block_bytes != 4096) {
    return fail(ErrorCode::InvalidArgument, "a block has 512 or 4096 octets, not {}",
                options.block_bytes);
  }
  if (options.bytes == 0 || options.bytes % options.block_bytes != 0 || options.bytes > kMaxBytes) {
    return fail(ErrorCode::InvalidArgument,
                "{} octets are no disk: a multiple of {} from 1 block to 64 TiB is", options.bytes,
                options.block_bytes);
  }
  return std::unique_ptr<RamDevice>(new RamDevice(options));
}

RamDevice::RamDevice(const RamOptions& options)
    : options_(options), zeroes_(std::make_shared<std::byte[]>(kChunkBytes)) {
  constexpr std::uint64_t kTableBytes = kChunkBytes * kChunksInTable;
  const std::uint64_t tables = (options.bytes + kTableBytes - 1) / kTableBytes;
  tables_.reserve(tables);
  for (std::uint64_t i = 0; i < tables; ++i) {
    tables_.push_back(std::make_unique<Table>(options.locks));
  }
}

BlockGeometry RamDevice::geometry() const {
  return {.block_bytes = options_.block_bytes,
          .blocks = options_.bytes / options_.block_bytes,
          .atomic_blocks = static_cast<std::uint32_t>(kAtomicBytes / options_.block_bytes),
          .read_only = options_.read_only,
          .can_discard = true,
          .keeps_protection = options_.keeps_protection};
}

void RamDevice::submit(BlockRequest& request) {
  const BlockResult result = perform(request);
  request.client->handle_block_result(request, result);
}

BlockResult RamDevice::perform(const BlockRequest& request) {
  const std::uint64_t blocks = geometry().blocks;
  if (request.lba > blocks || request.blocks > blocks - request.lba) {
    return {.status = BlockStatus::OutOfRange};
  }
  if (request.operation == BlockOperation::Flush) {
    return {};
  }
  if (request.operation != BlockOperation::Read && options_.read_only) {
    return {.status = BlockStatus::ReadOnly};
  }
  const auto take = [](auto span, std::size_t at, std::size_t count) {
    return span.empty() ? span : span.subspan(at, count);
  };
  std::uint64_t lba = request.lba;
  for (std::uint64_t left = request.blocks; left > 0;) {
    Part part;
    part.block = lba % blocks_in_chunk();
    part.blocks = std::min<std::uint64_t>(left, blocks_in_chunk() - part.block);
    part.chunk = lba / blocks_in_chunk() % kChunksInTable;
    const std::size_t at = lba - request.lba;
    const std::size_t bytes = options_.block_bytes;
    part.read_into = take(request.read_into, at * bytes, part.blocks * bytes);
    part.lend_to = request.lend_to;
    part.write_from = take(request.write_from, at * bytes, part.blocks * bytes);
    part.tuples_into = take(request.tuples_into, at * kTupleBytes, part.blocks * kTupleBytes);
    part.tuples_from = take(request.tuples_from, at * kTupleBytes, part.blocks * kTupleBytes);
    Table& table = *tables_[lba / blocks_in_chunk() / kChunksInTable];
    const std::scoped_lock hold(table.lock);
    switch (request.operation) {
      case BlockOperation::Read:
        read(table, part);
        break;
      case BlockOperation::Write:
        write(table, part);
        break;
      case BlockOperation::Unmap:
      case BlockOperation::WriteZeroes:
        clear(table, part);
        break;
      case BlockOperation::Flush:
        break;
    }
    lba += part.blocks;
    left -= part.blocks;
  }
  return {};
}

void RamDevice::read(Table& table, const Part& part) {
  const Chunk* chunk = table.chunks == nullptr ? nullptr : &(*table.chunks)[part.chunk];
  if (part.lend_to != nullptr) {
    lend(chunk, part);
  } else if (chunk == nullptr || chunk->data == nullptr) {
    std::ranges::fill(part.read_into, std::byte{0});
  } else {
    const ByteSpan stored{chunk->data.get(), kChunkBytes};
    copy_bytes(part.read_into,
               stored.subspan(part.block * options_.block_bytes, part.read_into.size()));
  }
  if (chunk == nullptr || chunk->protection == nullptr) {
    // What was never written has the tags that say: do not check (SBC-3 §4.22.2).
    std::ranges::fill(part.tuples_into, std::byte{0xFF});
  } else {
    const ByteSpan stored{chunk->protection.get(), blocks_in_chunk() * kTupleBytes};
    copy_bytes(part.tuples_into, stored.subspan(part.block * kTupleBytes, part.tuples_into.size()));
  }
}

void RamDevice::lend(const Chunk* chunk, const Part& part) const {
  const bool is_written = chunk != nullptr && chunk->data != nullptr;
  const std::shared_ptr<const std::byte[]> data = is_written ? chunk->data : zeroes_;
  const ByteSpan stored{data.get(), kChunkBytes};
  part.lend_to->push_back({.holder = data,
                           .octets = stored.subspan(part.block * options_.block_bytes,
                                                    part.blocks * options_.block_bytes)});
}

/// Under the table's lock, under which alone more is lent.
MutableByteSpan RamDevice::own_data(Chunk& chunk) {
  if (chunk.data == nullptr) {
    chunk.data = std::make_shared<std::byte[]>(kChunkBytes);
  } else if (chunk.data.use_count() > 1) {
    auto copy = std::make_shared_for_overwrite<std::byte[]>(kChunkBytes);
    std::memcpy(copy.get(), chunk.data.get(), kChunkBytes);
    chunk.data = std::move(copy);
  } else {
    std::atomic_thread_fence(std::memory_order_acquire);  // what the last holder read, it has read
  }
  return {chunk.data.get(), kChunkBytes};
}

void RamDevice::write(Table& table, const Part& part) {
  if (table.chunks == nullptr) {
    table.chunks = std::make_unique<std::array<Chunk, kChunksInTable>>();
  }
  Chunk& chunk = (*table.chunks)[part.chunk];
  copy_bytes(own_data(chunk).subspan(part.block * options_.block_bytes), part.write_from);
  if (!options_.keeps_protection || (part.tuples_from.empty() && chunk.protection == nullptr)) {
    return;
  }
  const std::size_t bytes = blocks_in_chunk() * kTupleBytes;
  if (chunk.protection == nullptr) {
    chunk.protection = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memset(chunk.protection.get(), 0xFF, bytes);
  }
  const MutableByteSpan tuples =
      MutableByteSpan{chunk.protection.get(), bytes}.subspan(part.block * kTupleBytes);
  if (part.tuples_from.empty()) {
    std::ranges::fill(tuples.first(part.blocks * kTupleBytes), std::byte{0xFF});
  } else {
    copy_bytes(tuples, part.tuples_from);
  }
}

void RamDevice::clear(Table& table, const Part& part) {
  if (table.chunks == nullptr) {
    return;
  }
  Chunk& chunk = (*table.chunks)[part.chunk];
  if (part.blocks == blocks_in_chunk()) {
    chunk = {};
    return;
  }
  if (chunk.data != nullptr) {
    std::ranges::fill(own_data(chunk).subspan(part.block * options_.block_bytes,
                                              part.blocks * options_.block_bytes),
                      std::byte{});
  }
  if (chunk.protection != nullptr) {
    std::memset(chunk.protection.get() + part.block * kTupleBytes, 0xFF, part.blocks * kTupleBytes);
  }
}

BlockExtent RamDevice::extent(std::uint64_t lba) const {
  const auto mapped = [this](std::uint64_t chunk) {
    const Table& table = *tables_[chunk / kChunksInTable];
    const std::scoped_lock hold(table.lock);
    return table.chunks != nullptr && (*table.chunks)[chunk % kChunksInTable].data != nullptr;
  };
  const std::uint64_t blocks = geometry().blocks;
  std::uint64_t chunk = lba / blocks_in_chunk();
  const bool first = mapped(chunk);
  std::uint64_t end = std::min(blocks, (chunk + 1) * blocks_in_chunk());
  for (std::size_t looked = 1; looked < kChunksInTable && end < blocks; ++looked) {
    ++chunk;
    if (mapped(chunk) != first) {
      break;
    }
    end = std::min(blocks, (chunk + 1) * blocks_in_chunk());
  }
  return {.blocks = end - lba, .mapped = first};
}

std::uint64_t RamDevice::allocated_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& table : tables_) {
    const std::scoped_lock hold(table->lock);
    if (table->chunks == nullptr) {
      continue;
    }
    bytes += kChunkBytes * static_cast<std::uint64_t>(std::ranges::count_if(
                               *table->chunks, [](const Chunk& c) { return c.data != nullptr; }));
  }
  return bytes;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit.front()) + 1;  // npos + 1 is 0
  const bool known = unit.empty() || (unit.size() == 1 && power != 0);
  if (error != std::errc{} || !known ||
      value > std::numeric_limits<std::uint64_t>::max() >> 10 * power) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no size: a number is, alone or with K, M, G or T behind it", text);
  }
  return value << 10 * power;
}

}  // namespace weft::scsi
