#pragma once

// A disk in a file or on a block device, by a few threads.

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"
#include "scsi/block_device.h"

namespace weft::programs::iscsi {

struct FileOptions {
  std::string path{};
  std::uint32_t block_bytes{512};  ///< 512 or 4096
  bool read_only{};
};

/// Threads that do what would block. Any thread may post.
class WorkerPool {
 public:
  explicit WorkerPool(unsigned threads);
  /// Ends when all that was posted is done.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  using Job = void (*)(void* owner, scsi::BlockRequest& request);
  void post(Job job, void* owner, scsi::BlockRequest& request);

 private:
  struct Item {
    Job job{};
    void* owner{};
    scsi::BlockRequest* request{};
  };
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> items_;  // at most as many as tasks that the target has
  bool ends_{};
  std::vector<std::jthread> threads_;
};

/// Any thread. The pool must outlive the last request.
class FileDevice final : public scsi::BlockDevice {
 public:
  /// Io with the reason if the file cannot be opened; InvalidArgument if it is no whole number of
  /// blocks.
  [[nodiscard]] static Result<std::unique_ptr<FileDevice>> open(const FileOptions& options,
                                                                WorkerPool& pool);

  [[nodiscard]] scsi::BlockGeometry geometry() const override { return geometry_; }
  void submit(scsi::BlockRequest& request) override;
  [[nodiscard]] scsi::BlockExtent extent(std::uint64_t lba) const override;

 private:
  FileDevice(os::UniqueFd file, const scsi::BlockGeometry& geometry, WorkerPool& pool)
      : file_(std::move(file)), geometry_(geometry), pool_(pool) {}

  [[nodiscard]] scsi::BlockResult perform(const scsi::BlockRequest& request);
  [[nodiscard]] bool read(const scsi::BlockRequest& request);
  // An errno, or 0.
  [[nodiscard]] int write(ByteSpan from, off_t offset);
  [[nodiscard]] int unmap(off_t offset, off_t bytes);
  [[nodiscard]] int write_zeroes(const scsi::BlockRequest& request, off_t offset, off_t bytes);

  os::UniqueFd file_;
  scsi::BlockGeometry geometry_;
  WorkerPool& pool_;
};

}  // namespace weft::programs::iscsi
