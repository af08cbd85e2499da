#include "programs/iscsi/file_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::programs::iscsi {

using scsi::BlockOperation;
using scsi::BlockRequest;
using scsi::BlockResult;
using scsi::BlockStatus;

WorkerPool::WorkerPool(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard guard{mutex_};
    ends_ = true;
  }
  wake_.notify_all();
}

void WorkerPool::post(Job job, void* owner, BlockRequest& request) {
  {
    const std::lock_guard guard{mutex_};
    items_.push_back({.job = job, .owner = owner, .request = &request});
  }
  wake_.notify_one();
}

void WorkerPool::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [this] { return ends_ || !items_.empty(); });
    if (items_.empty()) {
      return;
    }
    const Item item = items_.front();
    items_.pop_front();
    lock.unlock();
    item.job(item.owner, *item.request);
    lock.lock();
  }
}

namespace {

[[nodiscard]] Result<std::uint64_t> size_of(int file, const std::string& path) {
  struct stat status{};
  if (fstat(file, &status) != 0) {
    return fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  if (S_ISREG(status.st_mode)) {
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::uint64_t bytes = 0;
  if (!S_ISBLK(status.st_mode) || ioctl(file, BLKGETSIZE64, &bytes) != 0) {
    return fail(ErrorCode::InvalidArgument, "{} is neither a file nor a block device", path);
  }
  return bytes;
}

[[nodiscard]] BlockStatus status_of(int error, BlockStatus otherwise) {
  switch (error) {
    case 0:
      return BlockStatus::Ok;
    case ENOSPC:
    case EDQUOT:
      return BlockStatus::NoSpace;
    case EROFS:
    case EBADF:
      return BlockStatus::ReadOnly;
    default:
      return otherwise;
  }
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::open(const FileOptions& options, WorkerPool& pool) {
  if (options.block_bytes != 512 && options.block_bytes != 4096) {
    return fail(ErrorCode::InvalidArgument, "{}: blocks have 512 or 4096 octets, not {}",
                options.path, options.block_bytes);
  }
  os::UniqueFd file{
      ::open(options.path.c_str(), (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC)};
  if (!file) {
    return fail(ErrorCode::Io, "{}: {}", options.path, std::strerror(errno));
  }
  const auto bytes = size_of(file.get(), options.path);
  if (!bytes) {
    return std::unexpected(bytes.error());
  }
  if (*bytes == 0 || *bytes % options.block_bytes != 0) {
    return fail(ErrorCode::InvalidArgument, "{} has {} octets, which is no whole number of blocks",
                options.path, *bytes);
  }
  const scsi::BlockGeometry geometry{
      .block_bytes = options.block_bytes,
      .blocks = *bytes / options.block_bytes,
      .physical_exponent = static_cast<std::uint8_t>(options.block_bytes == 512 ? 3 : 0),
      .read_only = options.read_only,
      .can_discard = !options.read_only,
      .has_write_cache = true};
  return std::unique_ptr<FileDevice>{
      new FileDevice{std::move(file), geometry, pool}
  };
}

void FileDevice::submit(BlockRequest& request) {
  pool_.post(
      [](void* owner, BlockRequest& posted) {
        const BlockResult result = static_cast<FileDevice*>(owner)->perform(posted);
        posted.client->handle_block_result(posted, result);
      },
      this, request);
}

bool FileDevice::read(const BlockRequest& request) {
  MutableByteSpan rest = request.read_into;
  auto offset = static_cast<off_t>(request.lba * geometry_.block_bytes);
  while (!rest.empty()) {
    const ssize_t count = pread(file_.get(), rest.data(), rest.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    rest = rest.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return true;
}

int FileDevice::write(ByteSpan from, off_t offset) {
  while (!from.empty()) {
    const ssize_t count = pwrite(file_.get(), from.data(), from.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno;
    }
    from = from.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return 0;
}

int FileDevice::unmap(off_t offset, off_t bytes) {
  return fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) == 0
             ? 0
             : errno;
}

int FileDevice::write_zeroes(const BlockRequest& request, off_t offset, off_t bytes) {
  if (request.may_unmap && unmap(offset, bytes) == 0) {
    return 0;
  }
  if (fallocate(file_.get(), FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, bytes) == 0) {
    return 0;
  }
  constexpr off_t kChunk = 256 * 1024;  // policy; a file system without ZERO_RANGE
  const std::vector<std::byte> zeroes(static_cast<std::size_t>(std::min(bytes, kChunk)));
  for (off_t done = 0; done < bytes; done += kChunk) {
    const auto part = static_cast<std::size_t>(std::min(bytes - done, kChunk));
    if (const int error = write(ByteSpan{zeroes}.first(part), offset + done); error != 0) {
      return error;
    }
  }
  return 0;
}

BlockResult FileDevice::perform(const BlockRequest& request) {
  const auto offset = static_cast<off_t>(request.lba * geometry_.block_bytes);
  const auto bytes = static_cast<off_t>(request.blocks * geometry_.block_bytes);
  int error = 0;
  switch (request.operation) {
    case BlockOperation::Read:
      return {.status = read(request) ? BlockStatus::Ok : BlockStatus::ReadError,
              .lba = std::nullopt};
    case BlockOperation::Write:
      error = write(request.write_from, offset);
      break;
    case BlockOperation::WriteZeroes:
      error = bytes == 0 ? 0 : write_zeroes(request, offset, bytes);
      break;
    case BlockOperation::Unmap:
      error = bytes == 0 ? 0 : unmap(offset, bytes);
      if (error == EOPNOTSUPP) {  // a file system without holes: what is unmapped reads as zeroes
        error = write_zeroes(request, offset, bytes);
      }
      break;
    case BlockOperation::Flush:
      break;
  }
  const bool is_durable = request.force_unit_access || request.operation == BlockOperation::Flush;
  if (error == 0 && is_durable && fdatasync(file_.get()) != 0) {
    error = errno;
  }
  return {.status = status_of(error, BlockStatus::WriteError), .lba = std::nullopt};
}

scsi::BlockExtent FileDevice::extent(std::uint64_t lba) const {
  const auto at = static_cast<off_t>(lba * geometry_.block_bytes);
  const off_t data = lseek(file_.get(), at, SEEK_DATA);
  const std::uint64_t left = geometry_.blocks - lba;
  if (data < 0) {  // ENXIO: only a hole follows
    return {.blocks = left, .mapped = errno != ENXIO};
  }
  const off_t end = data > at ? data : lseek(file_.get(), at, SEEK_HOLE);
  // A block is mapped if any part of it is.
  const auto block = static_cast<off_t>(geometry_.block_bytes);
  const off_t blocks = data > at ? (end - at) / block : (end - at + block - 1) / block;
  if (blocks <= 0) {
    return {.blocks = 1, .mapped = true};
  }
  return {.blocks = std::min(left, static_cast<std::uint64_t>(blocks)), .mapped = data <= at};
}

}  // namespace weft::programs::iscsi
